(method_invocation name: (identifier) @call)
(explicit_constructor_invocation constructor: (_) @call)
(object_creation_expression type: [
  (type_identifier) @new
  (generic_type (type_identifier) @new)
  (scoped_type_identifier (type_identifier) @new .)
  (generic_type (scoped_type_identifier (type_identifier) @new .))
])

(import_declaration (asterisk) @import)
(import_declaration (scoped_identifier) @import)

(superclass [
  (type_identifier) @inherit
  (generic_type (type_identifier) @inherit)
  (scoped_type_identifier (type_identifier) @inherit .)
  (generic_type (scoped_type_identifier (type_identifier) @inherit .))
])
(type_list [
  (type_identifier) @inherit
  (generic_type (type_identifier) @inherit)
  (scoped_type_identifier (type_identifier) @inherit .)
  (generic_type (scoped_type_identifier (type_identifier) @inherit .))
])
(type_parameter (type_identifier) @skip)
(method_declaration
  type: [(type_identifier) @result (generic_type . (type_identifier) @result)]
  name: (identifier) @declared)
(_
  type: [(type_identifier) @type (generic_type . (type_identifier) @type)]
  [name: (identifier) @declared declarator: (variable_declarator name: (identifier) @declared)])
(type_identifier) @type
(marker_annotation name: (identifier) @type)
(annotation name: (identifier) @type)

(method_reference (identifier) @use .)
(method_reference . (identifier) @use)
(method_invocation object: (identifier) @use)
(field_access object: (identifier) @use)
(switch_label (identifier) @case)
(field_access field: (identifier) @member)
(formal_parameter name: (identifier) @local)
(catch_formal_parameter name: (identifier) @local)
(spread_parameter (variable_declarator name: (identifier) @local))
(local_variable_declaration declarator: (variable_declarator name: (identifier) @local))
(resource name: (identifier) @local)
(enhanced_for_statement name: (identifier) @local)
(lambda_expression parameters: (identifier) @local)
(inferred_parameters (identifier) @local)
(instanceof_expression name: (identifier) @local)
(type_pattern (identifier) @local)
(record_pattern_component (identifier) @local)
(labeled_statement (identifier) @skip)
(break_statement (identifier) @skip)
(continue_statement (identifier) @skip)
(package_declaration (_) @skip)
(element_value_pair key: (identifier) @skip)
(identifier) @read
