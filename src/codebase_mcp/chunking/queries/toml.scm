(document (pair . (_) @name) @key)
(table . (_) @name) @key
(table_array_element . (_) @name) @key
(pair . (_) @name) @entry

(comment) @comment
