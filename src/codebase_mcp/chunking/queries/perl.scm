(package_statement (package_name) @name) @module
(function_definition name: (_) @name) @function

(comments) @comment
(pod_statement) @comment
