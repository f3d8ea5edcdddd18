(function_def (function_command (argument_list . (argument) @name))) @function
(macro_def (macro_command (argument_list . (argument) @name))) @macro
(source_file
  (normal_command
    (identifier) @keyword
    (argument_list . (argument) @name)
    (#one-of? @keyword "set" "option" "add_library" "add_executable" "add_custom_target")) @variable)

(line_comment) @comment
(bracket_comment) @comment
