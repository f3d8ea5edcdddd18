(object_type_definition (name) @name) @type
(interface_type_definition (name) @name) @interface
(enum_type_definition (name) @name) @enum
(input_object_type_definition (name) @name) @struct
(field_definition (name) @name) @field
(enum_value_definition (enum_value (name) @name)) @enumerator

(comment) @comment
