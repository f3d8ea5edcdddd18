(class_definition name: (_) @name) @class
(object_definition name: (_) @name) @class
(package_object name: (_) @name) @module
(trait_definition name: (_) @name) @trait
(enum_definition name: (_) @name) @enum
(function_definition name: (_) @name) @function
(function_declaration name: (_) @name) @function
(type_definition name: (_) @name) @type
(given_definition name: (_) @name) @variable
(compilation_unit (val_definition pattern: (identifier) @name) @variable)
(compilation_unit (var_definition pattern: (identifier) @name) @variable)
(template_body (val_definition pattern: (identifier) @name) @property)
(template_body (val_declaration name: (identifier) @name) @property)
(template_body (var_definition pattern: (identifier) @name) @property)
(class_parameter name: (_) @name) @field
(simple_enum_case name: (_) @name) @enumerator
(full_enum_case name: (_) @name) @enumerator

(comment) @comment
(block_comment) @comment
