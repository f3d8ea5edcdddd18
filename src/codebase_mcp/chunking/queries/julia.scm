(module_definition name: (_) @name) @module
(function_definition (signature (call_expression . (_) @name))) @function
(macro_definition (signature (call_expression . (_) @name))) @macro
(assignment . (call_expression . (identifier) @name)) @function
(struct_definition (type_head . (identifier) @name)) @struct
(struct_definition (type_head (binary_expression . (identifier) @name))) @struct
(abstract_definition (type_head . (identifier) @name)) @type
(const_statement (assignment . (identifier) @name)) @constant

(line_comment) @comment
(block_comment) @comment
(source_file (string_literal) @comment)
(module_definition (block (string_literal) @comment))
