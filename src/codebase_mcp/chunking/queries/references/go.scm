(parameter_declaration (identifier) @local)
(variadic_parameter_declaration name: (identifier) @local)
(short_var_declaration left: (expression_list (identifier) @local))
(range_clause left: (expression_list (identifier) @local))
(receive_statement left: (expression_list (identifier) @local))
(type_switch_statement alias: (expression_list (identifier) @local))
(var_spec (identifier) @local)
(const_spec (identifier) @local)

(call_expression function: (identifier) @call)
(call_expression function: (selector_expression field: (field_identifier) @call))
(call_expression function: (index_expression operand: (identifier) @call))
(call_expression function: (parenthesized_expression (identifier) @call))
(call_expression
  function: (parenthesized_expression (unary_expression operand: (identifier) @type)))

(method_declaration
  receiver: (parameter_list (parameter_declaration name: (identifier) @self))) @within

(import_spec name: (_) @alias path: (_) @import)
(import_spec path: (_) @import)

; What is embedded lends its methods.
(field_declaration !name type: [
  (type_identifier) @inherit
  (qualified_type name: (type_identifier) @inherit)
  (generic_type type: (type_identifier) @inherit)
])
(interface_type (type_elem [
  (type_identifier) @inherit
  (qualified_type name: (type_identifier) @inherit)
]))
(composite_literal type: [
  (type_identifier) @new
  (qualified_type name: (type_identifier) @new)
  (generic_type type: (type_identifier) @new)
])
(type_parameter_declaration name: (identifier) @skip)
(_
  name: [(identifier) (field_identifier)] @declared
  type: [
    (type_identifier) @type
    (pointer_type (type_identifier) @type)
    (qualified_type name: (type_identifier) @type)
    (pointer_type (qualified_type name: (type_identifier) @type))
  ])
(_
  name: [(identifier) (field_identifier)] @declared
  result: [
    (type_identifier) @result
    (pointer_type (type_identifier) @result)
    (qualified_type name: (type_identifier) @result)
    (pointer_type (qualified_type name: (type_identifier) @result))
  ])
(type_identifier) @type

(argument_list (identifier) @use)
(argument_list (selector_expression field: (field_identifier) @use))
(keyed_element value: (literal_element (identifier) @use))
(keyed_element value: (literal_element (selector_expression field: (field_identifier) @use)))
(literal_value (literal_element (identifier) @use))
(expression_list (identifier) @use)
(composite_literal
  type: [
    (type_identifier) @owner
    (qualified_type name: (type_identifier) @owner)
    (generic_type type: (type_identifier) @owner)
  ]
  body: (literal_value (keyed_element . (literal_element (identifier) @key))))
(composite_literal
  type: [
    (slice_type element: [(type_identifier) @owner (pointer_type (type_identifier) @owner) (qualified_type name: (type_identifier) @owner)])
    (array_type element: [(type_identifier) @owner (pointer_type (type_identifier) @owner) (qualified_type name: (type_identifier) @owner)])
    (implicit_length_array_type element: (type_identifier) @owner)
    (map_type value: [(type_identifier) @owner (pointer_type (type_identifier) @owner) (qualified_type name: (type_identifier) @owner)])
  ]
  body: (literal_value
    (literal_element (literal_value (keyed_element . (literal_element (identifier) @key))))))
(composite_literal
  type: (map_type value: [(type_identifier) @owner (pointer_type (type_identifier) @owner) (qualified_type name: (type_identifier) @owner)])
  body: (literal_value
    (keyed_element
      (literal_element (literal_value (keyed_element . (literal_element (identifier) @key)))) .)))
(selector_expression field: (field_identifier) @member)
(identifier) @read
