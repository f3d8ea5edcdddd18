(binary_operator lhs: (identifier) @name rhs: (function_definition)) @function
(program (binary_operator lhs: (identifier) @name) @variable)

(comment) @comment
