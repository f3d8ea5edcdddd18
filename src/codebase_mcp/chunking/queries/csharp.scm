(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(struct_declaration name: (_) @name) @struct
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(delegate_declaration name: (_) @name) @type
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(destructor_declaration name: (_) @name) @method
(local_function_statement name: (_) @name) @function
(property_declaration name: (_) @name) @property
(event_declaration name: (_) @name) @property
(event_field_declaration (variable_declaration (variable_declarator name: (_) @name))) @property
(field_declaration
  (modifier) @keyword
  (variable_declaration (variable_declarator name: (_) @name))
  (#one-of? @keyword "const")) @constant
(field_declaration (variable_declaration (variable_declarator name: (_) @name))) @field
(enum_member_declaration name: (_) @name) @enumerator
(record_declaration (parameter_list (parameter name: (_) @name) @field))

(comment) @comment
