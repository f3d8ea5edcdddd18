(script_element (raw_text) @embedded.javascript)
(style_element (raw_text) @embedded.css)
(comment) @comment
