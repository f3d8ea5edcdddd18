; The declarator of a function lies under those of its result: pointers, references.
(function_definition declarator: (function_declarator declarator: (_) @name)) @function
(function_definition
  declarator: (_ (function_declarator declarator: (_) @name))) @function
(function_definition
  declarator: (_ (_ (function_declarator declarator: (_) @name)))) @function
(struct_specifier name: (type_identifier) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @struct
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition type: (struct_specifier !name) declarator: (type_identifier) @name) @struct
(type_definition type: (union_specifier !name) declarator: (type_identifier) @name) @struct
(type_definition type: (enum_specifier !name) declarator: (type_identifier) @name) @enum
(type_definition declarator: (type_identifier) @name) @type
(type_definition
  declarator: (function_declarator
    declarator: (parenthesized_declarator
      (pointer_declarator declarator: (type_identifier) @name)))) @type
(preproc_def name: (_) @name value: (_)) @macro
(preproc_function_def name: (_) @name) @macro
(translation_unit (declaration declarator: (function_declarator declarator: (identifier) @name)) @function)
(translation_unit
  (declaration
    declarator: (pointer_declarator (function_declarator declarator: (identifier) @name))) @function)
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(translation_unit
  (declaration
    declarator: (init_declarator declarator: (_ declarator: (identifier) @name))) @variable)
(translation_unit
  (declaration
    declarator: (init_declarator
      declarator: (_ declarator: (_ declarator: (identifier) @name)))) @variable)
(field_declaration declarator: (field_identifier) @name) @field
(field_declaration declarator: (_ declarator: (field_identifier) @name)) @field
(field_declaration declarator: (_ declarator: (_ declarator: (field_identifier) @name))) @field
(enumerator name: (_) @name) @enumerator

(comment) @comment
