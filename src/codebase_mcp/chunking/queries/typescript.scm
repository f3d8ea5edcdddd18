(abstract_class_declaration name: (_) @name) @class
(abstract_class_declaration body: (class_body (method_definition name: (_) @name) @method))
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @module
(module name: (_) @name) @module
(function_signature name: (_) @name) @function
(method_signature name: (_) @name) @method
(abstract_method_signature name: (_) @name) @method
(public_field_definition
  name: (_) @name
  value: [(arrow_function) (function_expression)]) @method
(program (ambient_declaration (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(public_field_definition name: (_) @name) @field
(property_signature name: (_) @name) @field
(required_parameter (accessibility_modifier) pattern: (identifier) @name) @field
(required_parameter "readonly" pattern: (identifier) @name) @field
(enum_body name: (property_identifier) @name @enumerator)
(enum_body (enum_assignment name: (_) @name) @enumerator)
; Constants are also declared as the keys of an object; with a type, the type declares them.
(program
  (lexical_declaration
    (variable_declarator !type value: [
      (object (pair key: (property_identifier) @name) @field)
      (as_expression (object (pair key: (property_identifier) @name) @field) . "as" . "const")
    ])))
(program
  (export_statement
    (lexical_declaration
      (variable_declarator !type value: [
        (object (pair key: (property_identifier) @name) @field)
        (as_expression (object (pair key: (property_identifier) @name) @field) . "as" . "const")
      ]))))
