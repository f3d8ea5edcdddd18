(class_declaration "interface" name: (_) @name) @interface
(class_declaration (modifiers (class_modifier "enum")) name: (_) @name) @enum
(class_declaration "class" name: (_) @name) @class
(object_declaration name: (_) @name) @class
(companion_object name: (_) @name) @class
(function_declaration name: (_) @name) @function
(type_alias type: (_) @name) @type
(source_file (property_declaration (variable_declaration . (identifier) @name)) @variable)
(class_body (property_declaration (variable_declaration . (identifier) @name)) @property)
(class_parameter ["val" "var"] (identifier) @name) @field
(enum_entry (identifier) @name) @enumerator

(line_comment) @comment
(block_comment) @comment
