(call_expression function: [
  (qualified_identifier name: (identifier) @call)
  (qualified_identifier name: (qualified_identifier name: (identifier) @call))
  (qualified_identifier name: (template_function name: (identifier) @call))
  (qualified_identifier
    name: (qualified_identifier name: (template_function name: (identifier) @call)))
  (template_function name: (identifier) @call)
  (field_expression field: (template_method name: (field_identifier) @call))
])
(new_expression type: [
  (type_identifier) @new
  (template_type name: (type_identifier) @new)
  (qualified_identifier name: (type_identifier) @new)
  (qualified_identifier name: (template_type name: (type_identifier) @new))
])
(base_class_clause [
  (type_identifier) @inherit
  (template_type name: (type_identifier) @inherit)
  (qualified_identifier name: (type_identifier) @inherit)
  (qualified_identifier name: (template_type name: (type_identifier) @inherit))
])
(using_declaration [(identifier) (qualified_identifier)] @import)
(type_parameter_declaration (type_identifier) @skip)
(optional_type_parameter_declaration name: (type_identifier) @skip)
(qualified_identifier scope: (namespace_identifier) @use)
(optional_parameter_declaration declarator: (identifier) @local)
(variadic_parameter_declaration declarator: (variadic_declarator (identifier) @local))
(reference_declarator (identifier) @local)
(structured_binding_declarator (identifier) @local)
(for_range_loop declarator: (identifier) @local)
