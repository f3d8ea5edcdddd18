(rule (targets . (word) @name)) @function
(variable_assignment name: (_) @name) @variable
(define_directive name: (_) @name) @macro

(comment) @comment
