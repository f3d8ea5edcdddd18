(extends_clause value: (identifier) @inherit)
(extends_clause value: (member_expression property: (property_identifier) @inherit))
(implements_clause [
  (type_identifier) @inherit
  (generic_type name: (type_identifier) @inherit)
  (nested_type_identifier name: (type_identifier) @inherit)
  (generic_type name: (nested_type_identifier name: (type_identifier) @inherit))
])
(extends_type_clause type: [
  (type_identifier) @inherit
  (generic_type name: (type_identifier) @inherit)
  (nested_type_identifier name: (type_identifier) @inherit)
])
(type_parameter name: (type_identifier) @parameter)
(infer_type (type_identifier) @parameter)
(method_definition
  "get" name: [(property_identifier) (private_property_identifier)] @declared
  return_type: (type_annotation [
    (type_identifier) @type
    (generic_type name: (type_identifier) @type)
    (union_type (type_identifier) @type (literal_type))
  ]))
(_
  name: [(property_identifier) (identifier) (private_property_identifier)] @declared
  return_type: (type_annotation [
    (type_identifier) @result
    (generic_type name: (type_identifier) @result)
    (union_type (type_identifier) @result (literal_type))
  ]))
(_
  name: [(property_identifier) (private_property_identifier) (identifier)] @declared
  type: (type_annotation [
    (type_identifier) @type
    (generic_type name: (type_identifier) @type)
    (union_type (type_identifier) @type (literal_type))
  ]))
(_
  pattern: (identifier) @declared
  type: (type_annotation [
    (type_identifier) @type
    (generic_type name: (type_identifier) @type)
    (union_type (type_identifier) @type (literal_type))
  ]))
(type_identifier) @type
(type_query (identifier) @use)
(as_expression (identifier) @use)
(satisfies_expression (identifier) @use)
(variable_declarator
  type: (type_annotation (type_identifier) @owner)
  value: (object (pair key: (property_identifier) @key)))
(as_expression (object (pair key: (property_identifier) @key)) . (type_identifier) @owner)
(satisfies_expression (object (pair key: (property_identifier) @key)) . (type_identifier) @owner)
(non_null_expression (identifier) @use)
(enum_assignment value: (identifier) @use)
(lookup_type . (type_identifier) @owner (literal_type (string (string_fragment) @key)))
(required_parameter value: (identifier) @use)
(required_parameter pattern: (identifier) @local)
(optional_parameter pattern: (identifier) @local)
