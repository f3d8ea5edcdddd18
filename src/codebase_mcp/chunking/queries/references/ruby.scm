(call
  receiver: [(constant) @new (scope_resolution name: (constant) @new)]
  method: (identifier) @keyword
  (#one-of? @keyword "new"))
(call
  method: (identifier) @keyword
  arguments: (argument_list [(constant) @inherit (scope_resolution name: (constant) @inherit)])
  (#one-of? @keyword "include" "extend" "prepend"))
(superclass [(constant) @inherit (scope_resolution name: (constant) @inherit)])
(call
  method: (identifier) @keyword
  arguments: (argument_list . (string) @import)
  (#one-of? @keyword "require" "require_relative" "load"))
(call method: [(identifier) (constant)] @call)
(constant) @use
(argument_list (identifier) @use)
(instance_variable) @member
