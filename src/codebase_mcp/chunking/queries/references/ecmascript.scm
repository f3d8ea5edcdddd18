; What a name gets from a call: an object of a class, or the result of a function.
(variable_declarator
  name: (identifier) @declared
  value: (new_expression constructor: (identifier) @new))
(assignment_expression
  left: (member_expression object: (this) property: (property_identifier) @declared)
  right: (new_expression constructor: (identifier) @new))
(variable_declarator
  name: (identifier) @declared
  value: [
    (call_expression function: (identifier) @call)
    (await_expression (call_expression function: (identifier) @call))
  ])
(new_expression constructor: (identifier) @new)
(new_expression constructor: (member_expression property: (property_identifier) @new))
(call_expression function: (identifier) @call)
(call_expression function: (member_expression property: (property_identifier) @call))
(call_expression function: (member_expression property: (private_property_identifier) @call))
(call_expression function: (import) arguments: (arguments (string) @import))

(import_statement source: (string) @from) @statement
(import_statement . (string) @import)
(import_clause (identifier) @import)
(namespace_import "*" @import (identifier) @alias)
(import_specifier name: (_) @import alias: (identifier) @alias)
(import_specifier name: (_) @import)
(export_statement source: (string) @from) @statement
(export_statement "*" @import source: (string))
(export_specifier name: (_) @export alias: (_) @alias)
(export_specifier name: (_) @export)
(variable_declarator
  value: (call_expression
    function: (identifier) @keyword
    arguments: (arguments . (string) @from .))
  (#one-of? @keyword "require")) @statement
(variable_declarator
  name: (identifier) @import
  value: (call_expression function: (identifier) @keyword)
  (#one-of? @keyword "require"))
(object_pattern (shorthand_property_identifier_pattern) @part)
(object_pattern (pair_pattern key: (property_identifier) @part value: (identifier) @alias))

(decorator (identifier) @use)
(member_expression object: (identifier) @use)
(arguments (identifier) @use)
(arguments (member_expression property: (property_identifier) @use))
(pair value: (identifier) @use)
(shorthand_property_identifier) @use
(array (identifier) @use)
(variable_declarator value: (identifier) @use)
(assignment_expression right: (identifier) @use)
(return_statement (identifier) @use)
(export_statement value: (identifier) @use)
(binary_expression operator: "instanceof" right: (identifier) @use)
(assignment_pattern right: (identifier) @use)
(binary_expression (identifier) @use)
(unary_expression (identifier) @use)
(ternary_expression (identifier) @use)
(parenthesized_expression (identifier) @use)
(template_substitution (identifier) @use)
(subscript_expression (identifier) @use)
(spread_element (identifier) @use)
(await_expression (identifier) @use)
(switch_case value: (identifier) @use)
(computed_property_name (identifier) @use)
(for_in_statement right: (identifier) @use)
(arrow_function body: (identifier) @use)
(augmented_assignment_expression (identifier) @use)
(update_expression (identifier) @use)
(assignment_expression left: (identifier) @use)

(member_expression property: [(property_identifier) (private_property_identifier)] @member)
(pair key: (property_identifier) @key)

(variable_declarator name: (identifier) @local)
(array_pattern (identifier) @local)
(rest_pattern (identifier) @local)
(assignment_pattern left: (identifier) @local)
(shorthand_property_identifier_pattern) @local
(pair_pattern value: (identifier) @local)
(catch_clause parameter: (identifier) @local)
(arrow_function parameter: (identifier) @local)
(for_in_statement kind: _ left: (identifier) @local)
