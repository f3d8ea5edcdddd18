(from_instruction as: (image_alias) @name) @section

(comment) @comment
