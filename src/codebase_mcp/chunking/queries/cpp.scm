; A qualified name is nearly always that of a method, defined outside of its class.
(function_definition
  declarator: (function_declarator declarator: (qualified_identifier) @name)) @method
(function_definition
  declarator: (_ (function_declarator declarator: (qualified_identifier) @name))) @method
(class_specifier name: [(type_identifier) (qualified_identifier)] @name body: (_)) @class
(struct_specifier name: (qualified_identifier) @name body: (_)) @struct
; A specialization adds to the template: uses of the name mean the template.
(class_specifier name: (template_type name: (_) @name) body: (_)) @extension
(struct_specifier name: (template_type name: (_) @name) body: (_)) @extension
(namespace_definition name: (_) @name) @module
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @trait
(function_definition declarator: (operator_cast) @name) @method
(declaration_list (declaration declarator: (function_declarator declarator: (identifier) @name)) @function)
(declaration_list (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(field_declaration_list
  (field_declaration declarator: (function_declarator declarator: (_) @name)) @method)
(field_declaration_list
  (field_declaration declarator: (_ (function_declarator declarator: (_) @name))) @method)
(field_declaration_list
  (declaration declarator: (function_declarator declarator: (_) @name)) @method)
