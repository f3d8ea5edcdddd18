(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(annotation_type_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(compact_constructor_declaration name: (_) @name) @method
(field_declaration
  (modifiers "static" "final")
  declarator: (variable_declarator name: (_) @name)) @constant
(field_declaration declarator: (variable_declarator name: (_) @name)) @field
(constant_declaration declarator: (variable_declarator name: (_) @name)) @field
(enum_constant name: (_) @name) @enumerator
(record_declaration
  parameters: (formal_parameters (formal_parameter name: (_) @name) @field))
(annotation_type_element_declaration name: (_) @name) @field

(line_comment) @comment
(block_comment) @comment
