(declarations (function name: (_) @name) @function)
(declarations (function (infix operator: (_) @name)) @function)
(declarations (bind name: (_) @name) @function)
(local_binds (function name: (_) @name) @function)
(data_type name: (_) @name) @type
(newtype name: (_) @name) @type
(type_synomym name: (_) @name) @type
(type_family name: (_) @name) @type
(data_family name: (_) @name) @type
(class name: (_) @name) @trait
(class_declarations (signature name: (_) @name) @method)
(pattern_synonym) @lead
(instance patterns: (type_patterns . (_) @name)) @extension
(instance_declarations (function name: (_) @name) @method)
(instance_declarations (bind name: (_) @name) @method)

(declarations (signature) @lead)
(comment) @comment
(haddock) @comment
(pragma) @lead
