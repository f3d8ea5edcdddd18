(mixin_statement (name) @name) @macro
(function_statement (name) @name) @function
(stylesheet (declaration (variable_name) @name) @variable)

(single_line_comment) @comment
