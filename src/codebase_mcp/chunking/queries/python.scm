(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(module (expression_statement (assignment left: (identifier) @name)) @variable)
(type_alias_statement left: (type (identifier) @name)) @type
(class_definition body: (block (expression_statement (assignment left: (identifier) @name) @field)))
(assignment
  left: (attribute object: (identifier) @keyword attribute: (identifier) @name)
  (#one-of? @keyword "self")) @attribute

(comment) @comment
(expression_statement . (string) @comment .)
