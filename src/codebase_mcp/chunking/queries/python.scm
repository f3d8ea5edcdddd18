(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(module (expression_statement (assignment left: (identifier) @name)) @variable)
(type_alias_statement left: (type (identifier) @name)) @type

(comment) @comment
(expression_statement . (string) @comment .)
