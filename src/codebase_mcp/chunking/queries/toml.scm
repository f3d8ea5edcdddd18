(document (pair . (_) @name) @key)
(table . (_) @name) @key
(table_array_element . (_) @name) @key

(comment) @comment
