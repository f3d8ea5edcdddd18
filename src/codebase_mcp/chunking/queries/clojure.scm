(list_lit
  . (sym_lit) @keyword
  . (sym_lit name: (sym_name) @name)
  (#one-of? @keyword "defn" "defn-" "defmulti" "defmethod" "deftest")) @function
(list_lit
  . (sym_lit) @keyword
  . (sym_lit name: (sym_name) @name)
  (#one-of? @keyword "def" "defonce")) @variable
(list_lit
  . (sym_lit) @keyword
  . (sym_lit name: (sym_name) @name)
  (#one-of? @keyword "defmacro")) @macro
(list_lit
  . (sym_lit) @keyword
  . (sym_lit name: (sym_name) @name)
  (#one-of? @keyword "defprotocol" "definterface")) @interface
(list_lit
  . (sym_lit) @keyword
  . (sym_lit name: (sym_name) @name)
  (#one-of? @keyword "defrecord" "deftype")) @struct

(list_lit
  . (sym_lit) @keyword
  . (sym_lit)
  . (str_lit) @comment
  (#one-of? @keyword "defn" "defn-" "defmulti" "defmacro" "defprotocol" "ns"))
(comment) @comment
