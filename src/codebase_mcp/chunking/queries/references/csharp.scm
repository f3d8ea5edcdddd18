(invocation_expression function: [
  (identifier) @call
  (generic_name (identifier) @call)
  (member_access_expression name: (identifier) @call)
  (member_access_expression name: (generic_name (identifier) @call))
  (conditional_access_expression (member_binding_expression name: (identifier) @call))
])
(object_creation_expression type: [
  (identifier) @new
  (generic_name (identifier) @new)
  (qualified_name name: (identifier) @new)
  (qualified_name name: (generic_name (identifier) @new))
])

(using_directive name: (identifier) @alias [(qualified_name) (identifier)] @import .)
(using_directive !name [(qualified_name) (identifier)] @import)

(base_list [
  (identifier) @inherit
  (generic_name (identifier) @inherit)
  (qualified_name name: (identifier) @inherit)
  (qualified_name name: (generic_name (identifier) @inherit))
  (primary_constructor_base_type type: (identifier) @inherit)
])
(_
  type: [
    (identifier) @type
    (generic_name (identifier) @type)
    (nullable_type type: (identifier) @type)
  ]
  [
    name: (identifier) @declared
    left: (identifier) @declared
    (variable_declarator name: (identifier) @declared)
  ])
(_
  returns: [
    (identifier) @result
    (generic_name (identifier) @result)
    (nullable_type type: (identifier) @result)
  ]
  name: (identifier) @declared)
(_ type: [
  (identifier) @type
  (generic_name (identifier) @type)
  (qualified_name name: (identifier) @type)
])
(_ returns: [
  (identifier) @type
  (generic_name (identifier) @type)
  (qualified_name name: (identifier) @type)
])
(type_argument_list [
  (identifier) @type
  (generic_name (identifier) @type)
  (qualified_name name: (identifier) @type)
])
(attribute name: (identifier) @type)

(member_access_expression expression: (identifier) @use)
(argument (identifier) @use)
(argument (member_access_expression name: (identifier) @use))
(assignment_expression right: (identifier) @use)
(member_access_expression name: (identifier) @member)
(conditional_access_expression (member_binding_expression name: (identifier) @member))
(object_creation_expression
  type: [(identifier) @owner (generic_name (identifier) @owner) (qualified_name name: (identifier) @owner)]
  initializer: (initializer_expression (assignment_expression left: (identifier) @key)))
(parameter name: (identifier) @local)
(local_declaration_statement (variable_declaration (variable_declarator name: (identifier) @local)))
(foreach_statement left: (identifier) @local)
(catch_declaration name: (identifier) @local)
(declaration_pattern name: (identifier) @local)
(declaration_expression name: (identifier) @local)
(implicit_parameter) @local
(binary_expression (identifier) @use)
(return_statement (identifier) @use)
(assignment_expression left: (identifier) @use)
(element_access_expression expression: (identifier) @use)
(if_statement condition: (identifier) @use)
(prefix_unary_expression (identifier) @use)
(postfix_unary_expression (identifier) @use)
(arrow_expression_clause (identifier) @use)
(interpolation (identifier) @use)
(conditional_expression (identifier) @use)
(conditional_access_expression condition: (identifier) @use)
(variable_declarator (identifier) @use .)
