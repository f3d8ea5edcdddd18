(section (title) @name) @section

(comment) @comment
