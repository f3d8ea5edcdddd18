(fun_decl clause: (function_clause name: (_) @name)) @function
(record_decl name: (_) @name) @struct
(type_alias name: (type_name name: (_) @name)) @type
(opaque name: (type_name name: (_) @name)) @type
(pp_define lhs: (macro_lhs name: (_) @name)) @macro

(spec) @lead
(comment) @comment
