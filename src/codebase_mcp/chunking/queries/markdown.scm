(section (atx_heading heading_content: (_) @name)) @section
(setext_heading heading_content: (_) @name) @section
