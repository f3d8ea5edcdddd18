(object_type_definition (name) @name) @type
(interface_type_definition (name) @name) @interface
(enum_type_definition (name) @name) @enum
(input_object_type_definition (name) @name) @struct

(comment) @comment
