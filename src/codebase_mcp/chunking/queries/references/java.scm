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
(type_identifier) @type
(marker_annotation name: (identifier) @type)
(annotation name: (identifier) @type)

(method_reference (identifier) @use .)
(method_reference . (identifier) @use)
(method_invocation object: (identifier) @use)
(field_access object: (identifier) @use)
(field_access object: (field_access field: (identifier) @holder))
(method_invocation object: (field_access field: (identifier) @holder))
