(script_element (raw_text) @embedded.typescript)
(style_element (raw_text) @embedded.scss)
(comment) @comment
