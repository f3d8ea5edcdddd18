(function_statement (function_name) @name) @function
(class_statement . (simple_name) @name) @class

(comment) @comment
