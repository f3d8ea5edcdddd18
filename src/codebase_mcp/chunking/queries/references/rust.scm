(call_expression function: (identifier) @call)
(call_expression function: (field_expression field: (field_identifier) @call))
(call_expression function: (scoped_identifier name: (identifier) @call))
(call_expression function: (generic_function function: [
  (identifier) @call
  (field_expression field: (field_identifier) @call)
  (scoped_identifier name: (identifier) @call)
]))
(macro_invocation macro: (identifier) @call)
(macro_invocation macro: (scoped_identifier name: (identifier) @call))
; The arguments of a macro are tokens.
(token_tree (identifier) @call . (token_tree "("))

(use_declaration argument: [(identifier) (scoped_identifier)] @import)
(use_list [(identifier) (scoped_identifier) (self)] @import)
(use_as_clause path: (_) @import alias: (_) @alias)
(scoped_use_list path: (_) @from) @statement
(use_wildcard (_) @from "*" @import) @statement

(impl_item trait: [
  (type_identifier) @inherit
  (generic_type type: (type_identifier) @inherit)
  (scoped_type_identifier name: (type_identifier) @inherit)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @inherit))
])
(trait_item bounds: (trait_bounds [
  (type_identifier) @inherit
  (generic_type type: (type_identifier) @inherit)
  (scoped_type_identifier name: (type_identifier) @inherit)
]))
(attribute
  (identifier) @keyword
  arguments: (token_tree (identifier) @inherit)
  (#one-of? @keyword "derive"))
(struct_expression name: [
  (type_identifier) @new
  (generic_type type: (type_identifier) @new)
  (scoped_type_identifier name: (type_identifier) @new)
])
(type_parameter name: (type_identifier) @skip)
(_
  [name: (field_identifier) @declared pattern: (identifier) @declared]
  type: (generic_type
    type: (type_identifier) @keyword
    type_arguments: (type_arguments . (type_identifier) @type .))
  (#one-of? @keyword "Arc" "Box" "Rc"))
(_
  [name: (field_identifier) @declared pattern: (identifier) @declared]
  type: [
    (type_identifier) @type
    (generic_type type: (type_identifier) @type)
    (scoped_type_identifier name: (type_identifier) @type)
    (reference_type type: [
      (type_identifier) @type
      (generic_type type: (type_identifier) @type)
    ])
  ])
(function_item
  name: (identifier) @declared
  return_type: [(type_identifier) @result (reference_type type: (type_identifier) @result)])
(type_identifier) @type

(scoped_identifier path: (identifier) @use)
(scoped_identifier path: (scoped_identifier name: (identifier) @holder))
(scoped_type_identifier path: (identifier) @use)
(arguments (identifier) @use)
(arguments (scoped_identifier name: (identifier) @use))
(field_initializer value: (identifier) @use)
(array_expression (identifier) @use)
(field_expression field: (field_identifier) @member)
(struct_expression
  name: [
    (type_identifier) @owner
    (generic_type type: (type_identifier) @owner)
    (scoped_type_identifier name: (type_identifier) @owner)
  ]
  body: (field_initializer_list [
    (field_initializer field: (field_identifier) @key)
    (shorthand_field_initializer (identifier) @key)
  ]))
(struct_pattern
  type: [(type_identifier) @owner (scoped_type_identifier name: (type_identifier) @owner)]
  (field_pattern name: (_) @key))
(binary_expression (identifier) @use)
(index_expression (identifier) @use)
(range_expression (identifier) @use)
(reference_expression (identifier) @use)
(unary_expression (identifier) @use)
(match_pattern (identifier) @use)
(let_declaration value: (identifier) @use)
(array_type length: (identifier) @use)
(field_expression value: (identifier) @use)
(return_expression (identifier) @use)
(assignment_expression (identifier) @use)
(const_item value: (identifier) @use)
(block (identifier) @use .)
(token_tree (identifier) @use)
(binary_expression (scoped_identifier name: (identifier) @member))
(match_pattern (scoped_identifier name: (identifier) @member))
(or_pattern (scoped_identifier name: (identifier) @member))
(tuple_struct_pattern (scoped_identifier name: (identifier) @member))
(reference_expression (scoped_identifier name: (identifier) @member))
(return_expression (scoped_identifier name: (identifier) @member))
(array_expression (scoped_identifier name: (identifier) @member))
(block (scoped_identifier name: (identifier) @member))
(match_arm (scoped_identifier name: (identifier) @member))
(tuple_expression (scoped_identifier name: (identifier) @member))
(assignment_expression (scoped_identifier name: (identifier) @member))
(closure_expression (scoped_identifier name: (identifier) @member))
(field_expression (scoped_identifier name: (identifier) @member))
(unary_expression (scoped_identifier name: (identifier) @member))
(index_expression (scoped_identifier name: (identifier) @member))
(try_expression (scoped_identifier name: (identifier) @member))
(let_declaration value: (scoped_identifier name: (identifier) @member))
(const_item value: (scoped_identifier name: (identifier) @member))
(static_item value: (scoped_identifier name: (identifier) @member))
(field_initializer value: (scoped_identifier name: (identifier) @member))
