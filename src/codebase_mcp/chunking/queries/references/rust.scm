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
(type_identifier) @type

(scoped_identifier path: (identifier) @use)
(scoped_identifier path: (scoped_identifier name: (identifier) @holder))
(scoped_type_identifier path: (identifier) @use)
(arguments (identifier) @use)
(arguments (scoped_identifier name: (identifier) @use))
(field_initializer value: (identifier) @use)
(array_expression (identifier) @use)
