(function_call_expression function: (name) @call)
(function_call_expression function: (qualified_name (name) @call))
(member_call_expression name: (name) @call)
(nullsafe_member_call_expression name: (name) @call)
(scoped_call_expression name: (name) @call)
(object_creation_expression (name) @new)
(object_creation_expression (qualified_name (name) @new))

(namespace_use_declaration (namespace_name) @from body: (namespace_use_group)) @statement
(namespace_use_clause . (_) @import alias: (name) @alias)
(namespace_use_clause . [(name) (qualified_name)] @import)

(base_clause [(name) @inherit (qualified_name (name) @inherit)])
(class_interface_clause [(name) @inherit (qualified_name (name) @inherit)])
(use_declaration [(name) @inherit (qualified_name (name) @inherit)])
(_
  type: [
    (named_type [(name) @type (qualified_name (name) @type)])
    (optional_type (named_type [(name) @type (qualified_name (name) @type)]))
  ]
  [name: (variable_name) @declared (property_element name: (variable_name) @declared)])
(_
  name: (name) @declared
  return_type: [
    (named_type [(name) @result (qualified_name (name) @result)])
    (optional_type (named_type [(name) @result (qualified_name (name) @result)]))
  ])
(named_type [(name) @type (qualified_name (name) @type)])
(attribute [(name) @type (qualified_name (name) @type)])
(binary_expression operator: "instanceof" right: [(name) @type (qualified_name (name) @type)])

(scoped_call_expression scope: (name) @use)
(class_constant_access_expression . (name) @use)
(scoped_property_access_expression scope: (name) @use)
(member_access_expression name: (name) @member)
(nullsafe_member_access_expression name: (name) @member)
(scoped_property_access_expression name: (variable_name (name) @member))
(class_constant_access_expression (_) . (name) @member)
