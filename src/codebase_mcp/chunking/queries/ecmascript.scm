(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @class
(class body: (class_body (method_definition name: (_) @name) @method))
(class_declaration body: (class_body (method_definition name: (_) @name) @method))
(object (method_definition name: (_) @name) @function)

; What a variable, a property or a pair holds decides what it is.
(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
(pair
  key: (property_identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression
  left: (identifier) @name
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression
  left: (member_expression object: (_) @receiver property: (_) @name)
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression
  left: (member_expression object: (_) @receiver property: (_) @name)
  right: (class)) @class
(program
  (expression_statement
    (assignment_expression
      left: (member_expression object: (_) @receiver property: (_) @name)) @variable)
  (#one-of? @receiver "exports" "module.exports"))

(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
(program
  (export_statement
    (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))

(comment) @comment
(decorator) @lead
