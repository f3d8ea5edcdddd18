(call_expression . (identifier) @call)
(call_expression . (navigation_expression (identifier) @call .))

(import "*" @import)
(import (qualified_identifier) @import (identifier) @alias)
(import (qualified_identifier) @import)

(delegation_specifier [
  (user_type (identifier) @inherit .)
  (user_type (identifier) @inherit . (type_arguments))
  (constructor_invocation (user_type (identifier) @inherit .))
  (constructor_invocation (user_type (identifier) @inherit . (type_arguments)))
  (explicit_delegation (user_type (identifier) @inherit .))
])
(class_parameter (identifier) @declared . [
    (user_type (identifier) @type .)
    (user_type (identifier) @type . (type_arguments))
    (nullable_type (user_type (identifier) @type .))
  ])
(parameter . (identifier) @declared . [
    (user_type (identifier) @type .)
    (user_type (identifier) @type . (type_arguments))
    (nullable_type (user_type (identifier) @type .))
  ])
(variable_declaration (identifier) @declared . [
    (user_type (identifier) @type .)
    (user_type (identifier) @type . (type_arguments))
    (nullable_type (user_type (identifier) @type .))
  ])
(function_declaration name: (identifier) @declared (function_value_parameters) . [
    (user_type (identifier) @result .)
    (user_type (identifier) @result . (type_arguments))
    (nullable_type (user_type (identifier) @result .))
  ])
(user_type (identifier) @type .)
(user_type (identifier) @type . (type_arguments))

(callable_reference (identifier) @use .)
(navigation_expression . (identifier) @use)
(value_argument (identifier) @use .)
(navigation_expression (identifier) @member .)
(call_expression
  . (identifier) @owner
  (value_arguments (value_argument . (identifier) @key . "=")))
(value_argument . (identifier) @skip "=")
(binary_expression (identifier) @use)
