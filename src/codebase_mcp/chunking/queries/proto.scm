(message (message_name) @name) @struct
(enum (enum_name) @name) @enum
(service (service_name) @name) @interface
(rpc (rpc_name) @name) @method
(field (identifier) @name) @field
(enum_field (identifier) @name) @enumerator

(comment) @comment
