(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(trait_declaration name: (_) @name) @trait
(enum_declaration name: (_) @name) @enum
(function_definition name: (_) @name) @function
(method_declaration name: (_) @name) @method
(const_element . (name) @name) @constant
(program (expression_statement (assignment_expression left: (variable_name (name) @name))) @variable)
(property_element (variable_name (name) @name)) @field
(property_promotion_parameter name: (variable_name (name) @name)) @field
(enum_case name: (_) @name) @enumerator

(comment) @comment
