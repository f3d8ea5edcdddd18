(class_heritage (identifier) @inherit)
(class_heritage (member_expression property: (property_identifier) @inherit))
(formal_parameters (identifier) @local)
