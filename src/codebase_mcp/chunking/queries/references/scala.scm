(call_expression function: (identifier) @call)
(call_expression function: (field_expression field: (identifier) @call))
(call_expression function: (generic_function function: [
  (identifier) @call
  (field_expression field: (identifier) @call)
]))
(infix_expression operator: (identifier) @call)
(instance_expression [
  (type_identifier) @new
  (generic_type type: (type_identifier) @new)
  (stable_type_identifier (type_identifier) @new .)
])

(import_declaration (identifier) @from . (namespace_selectors)) @statement
(import_declaration (namespace_wildcard) @import)
(import_declaration (identifier) @import .)
(namespace_selectors (identifier) @import)
(namespace_selectors (arrow_renamed_identifier name: (_) @import alias: (_) @alias))
(namespace_selectors (namespace_wildcard) @import)

(extends_clause [
  (type_identifier) @inherit
  (generic_type type: (type_identifier) @inherit)
  (stable_type_identifier (type_identifier) @inherit .)
])
(type_parameters name: (identifier) @skip)
(type_identifier) @type

(field_expression value: (identifier) @use)
(arguments (identifier) @use)
(field_expression field: (identifier) @member)
