; What a name gets from a call: an object of a class, or the result of a function.
(assignment
  left: [(identifier) @declared (attribute attribute: (identifier) @declared)]
  right: [
    (call function: (identifier) @call)
    (await (call function: (identifier) @call))
  ])
(assignment
  left: (identifier) @declared
  right: [
    (call function: (attribute object: (identifier) @keyword attribute: (identifier) @call))
    (await
      (call function: (attribute object: (identifier) @keyword attribute: (identifier) @call)))
  ]
  (#one-of? @keyword "self" "cls"))
(as_pattern
  (call function: (identifier) @call)
  alias: (as_pattern_target (identifier) @declared))
(call function: (identifier) @call)
(call function: (attribute attribute: (identifier) @call))
(class_definition superclasses: (argument_list (identifier) @inherit))
(class_definition superclasses: (argument_list (attribute attribute: (identifier) @inherit)))
(class_definition superclasses: (argument_list (subscript value: (identifier) @inherit)))
(class_definition
  superclasses: (argument_list (subscript value: (attribute attribute: (identifier) @inherit))))

(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import alias: (identifier) @alias))
(import_from_statement module_name: (_) @from) @statement
(import_from_statement name: (dotted_name) @import)
(import_from_statement
  name: (aliased_import name: (dotted_name) @import alias: (identifier) @alias))
(import_from_statement (wildcard_import) @import)

; The type that a name is declared to have, alone or with None.
(decorated_definition
  (decorator [(identifier) @keyword (attribute attribute: (identifier) @keyword)])
  definition: (function_definition
    name: (identifier) @declared
    return_type: (type [
      (identifier) @type
      (attribute attribute: (identifier) @type)
      (generic_type (identifier) @type)
      (binary_operator
        left: [(identifier) @type (attribute attribute: (identifier) @type)]
        right: (none))
    ]))
  (#one-of? @keyword "property" "cached_property"))
(function_definition
  name: (identifier) @declared
  return_type: (type [
    (identifier) @result
    (attribute attribute: (identifier) @result)
    (generic_type (identifier) @result)
    (binary_operator
        left: [(identifier) @result (attribute attribute: (identifier) @result)]
        right: (none))
  ]))
(typed_parameter
  . (identifier) @declared
  type: (type [
    (identifier) @type
    (attribute attribute: (identifier) @type)
    (generic_type (identifier) @type)
    (binary_operator
        left: [(identifier) @type (attribute attribute: (identifier) @type)]
        right: (none))
  ]))
(typed_default_parameter
  name: (identifier) @declared
  type: (type [
    (identifier) @type
    (attribute attribute: (identifier) @type)
    (generic_type (identifier) @type)
    (binary_operator
        left: [(identifier) @type (attribute attribute: (identifier) @type)]
        right: (none))
  ]))
(assignment
  left: [(identifier) @declared (attribute attribute: (identifier) @declared)]
  type: (type [
    (identifier) @type
    (attribute attribute: (identifier) @type)
    (generic_type (identifier) @type)
    (binary_operator
        left: [(identifier) @type (attribute attribute: (identifier) @type)]
        right: (none))
  ]))

; The parts of an annotation. A union nests to the left; names in a string are not parsed.
(type [
  (identifier) @type
  (attribute attribute: (identifier) @type)
  (generic_type (identifier) @type)
  (subscript value: [(identifier) @type (attribute attribute: (identifier) @type)])
  (subscript subscript: [(identifier) @type (attribute attribute: (identifier) @type)])
  (list (identifier) @type)
  (binary_operator [
    (identifier) @type
    (attribute attribute: (identifier) @type)
    (subscript (identifier) @type)
    (binary_operator [
      (identifier) @type
      (attribute attribute: (identifier) @type)
      (subscript (identifier) @type)
      (binary_operator [(identifier) @type (attribute attribute: (identifier) @type)])
    ])
  ])
])

(decorator (identifier) @use)
(decorator (attribute attribute: (identifier) @use))
(except_clause (identifier) @type)
(except_clause (attribute attribute: (identifier) @type))
(except_clause (as_pattern (identifier) @type))
(except_clause (as_pattern (attribute attribute: (identifier) @type)))
(except_clause (tuple [(identifier) @type (attribute attribute: (identifier) @type)]))
(except_clause
  (as_pattern (tuple [(identifier) @type (attribute attribute: (identifier) @type)])))
(raise_statement (identifier) @use)
(class_pattern (dotted_name (identifier) @type .))

; Names that are handed on: a callback, an entry of a table, a result.
(argument_list (identifier) @use)
(keyword_argument value: (identifier) @use)
(argument_list (attribute attribute: (identifier) @use))
(keyword_argument value: (attribute attribute: (identifier) @use))
(pair value: (identifier) @use)
(list (identifier) @use)
(tuple (identifier) @use)
(assignment right: (identifier) @use)
(default_parameter value: (identifier) @use)
(typed_default_parameter value: (identifier) @use)
(attribute object: (identifier) @use)
(return_statement (identifier) @use)
(subscript (identifier) @use)
(binary_operator (identifier) @use)
(comparison_operator (identifier) @use)
(boolean_operator (identifier) @use)
(not_operator (identifier) @use)
(conditional_expression (identifier) @use)
(for_statement right: (identifier) @use)
(for_in_clause right: (identifier) @use)
(if_statement condition: (identifier) @use)
(while_statement condition: (identifier) @use)
(set (identifier) @use)
(pair key: (identifier) @use)
(interpolation (identifier) @use)
(expression_list (identifier) @use)
(list_splat (identifier) @use)
(dictionary_splat (identifier) @use)
(unary_operator (identifier) @use)
(augmented_assignment (identifier) @use)
(slice (identifier) @use)
(lambda body: (identifier) @use)
(await (identifier) @use)
(yield (identifier) @use)
(with_item value: (identifier) @use)

(attribute attribute: (identifier) @member)
(call
  function: [(identifier) @owner (attribute attribute: (identifier) @owner)]
  arguments: (argument_list (keyword_argument name: (identifier) @key)))
(keyword_pattern . (identifier) @key)

(parameters (identifier) @local)
(parameters [(default_parameter name: (identifier) @local) (typed_default_parameter name: (identifier) @local)])
(parameters (typed_parameter . (identifier) @local))
(lambda_parameters (identifier) @local)
(assignment left: (identifier) @local)
(assignment left: (pattern_list (identifier) @local))
(for_statement left: (identifier) @local)
(for_statement left: (pattern_list (identifier) @local))
(as_pattern_target (identifier) @local)
