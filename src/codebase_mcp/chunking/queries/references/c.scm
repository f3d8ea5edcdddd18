(call_expression function: (identifier) @call)
(call_expression function: (field_expression field: (field_identifier) @call))
(preproc_include path: [(system_lib_string) (string_literal)] @import)
(type_identifier) @type
(argument_list (identifier) @use)
(argument_list (pointer_expression argument: (identifier) @use))
(initializer_pair value: (identifier) @use)
(initializer_list (identifier) @use)
(assignment_expression right: (identifier) @use)
