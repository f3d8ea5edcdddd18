(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name) @struct
(union_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(trait_item name: (_) @name) @trait
(mod_item name: (_) @name) @module
(type_item name: (_) @name) @type
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @variable
(macro_definition name: (_) @name) @macro
(impl_item
  type: [
    (type_identifier) @name
    (generic_type type: (_) @name)
    (scoped_type_identifier) @name
    (reference_type type: (_) @name)
    (dynamic_type trait: (_) @name)
    (primitive_type) @name
  ]) @extension
(field_declaration name: (_) @name) @field
(enum_variant name: (_) @name) @enumerator

(line_comment) @comment
(block_comment) @comment
(attribute_item) @lead
