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
(attribute object: (identifier) @use attribute: (identifier) @own)
(return_statement (identifier) @use)
(subscript (identifier) @use)
