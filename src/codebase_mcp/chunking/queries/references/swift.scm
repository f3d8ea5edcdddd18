(call_expression . (simple_identifier) @call)
(call_expression
  . (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @call)))
(call_expression . (prefix_expression target: (simple_identifier) @call))

(import_declaration (identifier) @import)

(inheritance_specifier inherits_from: (user_type (type_identifier) @inherit .))
(inheritance_specifier inherits_from: (user_type (type_identifier) @inherit . (type_arguments)))
(type_parameter . (type_identifier) @skip)
(type_identifier) @type

(navigation_expression target: (simple_identifier) @use)
(value_argument value: (simple_identifier) @use)
(navigation_suffix suffix: (simple_identifier) @member)
