(class_definition name: (_) @name) @class
(mixin_declaration (identifier) @name) @class
(enum_declaration name: (_) @name) @enum
(extension_declaration name: (_) @name) @extension
(type_alias . (type_identifier) @name) @type
(function_signature name: (_) @name) @function
(constructor_signature name: (_) @name) @method
(getter_signature name: (_) @name) @property
(setter_signature name: (_) @name) @property
(program (static_final_declaration_list (static_final_declaration . (identifier) @name)) @variable)

(comment) @comment
(documentation_comment) @comment
