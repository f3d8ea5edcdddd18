(call
  target: (identifier) @keyword
  (arguments . (alias) @name)
  (do_block)
  (#one-of? @keyword "defmodule")) @module
(call
  target: (identifier) @keyword
  (arguments . (alias) @name)
  (do_block)
  (#one-of? @keyword "defprotocol")) @interface
(call
  target: (identifier) @keyword
  (arguments . (alias) @name)
  (do_block)
  (#one-of? @keyword "defimpl")) @extension

; The head of a definition is a name, a call, an operator, or one of them before a guard.
(call
  target: (identifier) @keyword
  (arguments .
    [
      (identifier) @name
      (call target: (identifier) @name)
      (binary_operator left: (call target: (identifier) @name) operator: "when")
      (binary_operator left: (identifier) @name operator: "when")
    ])
  (#one-of? @keyword "def" "defp" "defdelegate" "defn" "defnp")) @function
(call
  target: (identifier) @keyword
  (arguments .
    [
      (identifier) @name
      (call target: (identifier) @name)
      (binary_operator left: (call target: (identifier) @name) operator: "when")
      (binary_operator left: (identifier) @name operator: "when")
    ])
  (#one-of? @keyword "defmacro" "defmacrop" "defguard" "defguardp")) @macro

(unary_operator
  operand: (call
    target: (identifier) @keyword
    (arguments [(string) (sigil)] @comment))
  (#one-of? @keyword "doc" "moduledoc" "typedoc" "shortdoc"))
(unary_operator
  operand: (call target: (identifier) @keyword)
  (#one-of? @keyword "doc" "spec" "impl" "typedoc" "deprecated" "dialyzer" "since" "tag")) @lead
(comment) @comment
