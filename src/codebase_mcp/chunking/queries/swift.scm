(class_declaration declaration_kind: "class" name: (_) @name) @class
(class_declaration declaration_kind: "actor" name: (_) @name) @class
(class_declaration declaration_kind: "struct" name: (_) @name) @struct
(class_declaration declaration_kind: "enum" name: (_) @name) @enum
(class_declaration declaration_kind: "extension" name: (_) @name) @extension
(protocol_declaration name: (_) @name) @interface
(function_declaration name: (simple_identifier) @name) @function
(protocol_function_declaration name: (simple_identifier) @name) @method
(init_declaration "init" @name) @method
(deinit_declaration "deinit" @name) @method
(subscript_declaration "subscript" @name) @method
(typealias_declaration name: (type_identifier) @name) @type
(source_file
  (property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @variable)
(class_body
  (property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @property)
(protocol_body
  (protocol_property_declaration
    name: (pattern bound_identifier: (simple_identifier) @name)) @property)
(enum_entry name: (simple_identifier) @name) @enumerator

(comment) @comment
(multiline_comment) @comment
