(field_definition
  property: (_) @name
  value: [(arrow_function) (function_expression)]) @method
(field_definition property: (_) @name) @field
; Constants are also declared as the keys of an object.
(program
  (lexical_declaration (variable_declarator value: (object (pair key: (property_identifier) @name) @field))))
(program
  (export_statement
    (lexical_declaration
      (variable_declarator value: (object (pair key: (property_identifier) @name) @field)))))
(assignment_expression
  left: (member_expression object: (this) property: (_) @name)) @attribute
