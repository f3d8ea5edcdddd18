(config_file
  (body
    (block
      (string_lit (template_literal) @receiver)
      .
      (string_lit (template_literal) @name)
      .
      (block_start)) @key))
(config_file (body (block (string_lit (template_literal) @name) . (block_start)) @key))
(config_file (body (block . (identifier) @name . (block_start)) @key))
(config_file (body (attribute . (identifier) @name) @key))

(comment) @comment
