(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @method
(singleton_method name: (_) @name) @method
(assignment left: (constant) @name) @constant
(assignment left: (scope_resolution) @name) @constant
(call
  method: (identifier) @keyword
  arguments: (argument_list (simple_symbol) @name @field)
  (#one-of? @keyword "attr_accessor" "attr_reader" "attr_writer"))
(assignment left: (instance_variable) @name) @attribute

(comment) @comment
