(create_table (object_reference) @name) @table
(create_view (object_reference) @name) @view
(create_materialized_view (object_reference) @name) @view
(create_function . (_) (object_reference) @name) @function
(create_type (object_reference) @name) @type
(create_trigger . (_) (object_reference) @name) @function
(column_definition name: (_) @name) @field

(comment) @comment
(marginalia) @comment
