"""Which schemas are accepted, what fits them, and that no schema or value keeps us busy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.schemas.documents import accept_schema, require_size, stored_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
OBJECT = {"type": "object"}


def of(**properties: Any) -> dict[str, Any]:
    """An object schema with these properties."""
    return {"type": "object", "properties": properties}


def of_2020(**keywords: Any) -> dict[str, Any]:
    return {"$schema": DRAFT_2020, "type": "object", **keywords}


def said(schema: dict[str, Any], data: Any) -> list[str]:
    """What is wrong with data, a problem a line."""
    return [str(problem) for problem in accept_schema(schema).problems(data)]


@pytest.mark.parametrize(
    "schema",
    [
        OBJECT,
        {"type": ["object"]},
        {"properties": {"a": {}}},
        {"$schema": DRAFT_7, **OBJECT},
        {"$schema": DRAFT_7.rstrip("#"), **OBJECT},
        {"$schema": "https://json-schema.org/draft-07/schema#", **OBJECT},
        {"$schema": DRAFT_2020, **OBJECT},
        {"$schema": DRAFT_2020 + "#", **OBJECT},
        {"$ref": "#/definitions/a", "definitions": {"a": OBJECT}},
        {"allOf": [{"minProperties": 1}, {"$ref": "#/$defs/a"}], "$defs": {"a": OBJECT}},
        {"$id": "https://example.org/a.json", **of(a={"$ref": "https://example.org/a.json"})},
        {"$id": "https://example.org/a.json", **of(a={"$ref": "a.json#/properties/b"}, b={})},
        {**of(a={"$ref": "#name"}), "definitions": {"x": {"$id": "#name"}}},
        of_2020(properties={"a": {"$ref": "#name"}}, **{"$defs": {"x": {"$anchor": "name"}}}),
        of_2020(properties={"a": {"$dynamicRef": "#n"}}, **{"$dynamicAnchor": "n"}),
        of(**{"a/b~c": {}, "d": {"$ref": "#/properties/a~1b~0c"}}),
        of(**{"ä b": {}, "d": {"$ref": "#/properties/%C3%A4%20b"}}),
        of(children={"type": "array", "items": {"$ref": "#"}}),
        of(a={"const": {"$ref": "http://example.org", "$schema": 5, "pattern": "("}}),
        of(a={"format": "no such format", "x-unknown": {"$ref": 5}}),
        of(**{"$ref": {"type": "string"}, "$schema": {}, "pattern": {"type": "integer"}}),
    ],
)
def test_a_self_contained_object_schema_is_accepted(schema: dict[str, Any]) -> None:
    accept_schema(schema)


VERSIONS = f"{DRAFT_7} or {DRAFT_2020}"


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({}, "", 'Schema must describe an object: add "type": "object" at its root'),
        ({"type": "array"}, "", 'Schema must describe an object: add "type": "object" at its root'),
        (
            {"type": ["object", "null"], "properties": {}},
            "",
            'Schema must describe an object: add "type": "object" at its root',
        ),
        (
            {"$ref": "#/definitions/a", "type": "object", "definitions": {"a": {}}},
            "",
            'Schema must describe an object: add "type": "object" at its root',
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", **OBJECT},
            "/$schema",
            'Schema has an unsupported $schema version: "http://json-schema.org/draft-04/schema#"',
        ),
        ({"$schema": 7}, "/$schema", "Schema has an unsupported $schema version: 7"),
        (
            {"type": "objekt"},
            "/type",
            'Schema is not valid Draft 7: /type must be one of "array", "boolean", "integer", '
            '"null", "number", "object", "string", got "objekt"',
        ),
        (
            of(age={"type": "integer", "minimum": "0"}),
            "/properties/age/minimum",
            'Schema is not valid Draft 7: /properties/age/minimum must be of type number, got "0"',
        ),
        (
            {**OBJECT, "required": "name"},
            "/required",
            'Schema is not valid Draft 7: /required must be of type array, got "name"',
        ),
        (
            {**OBJECT, "required": ["a", "a"]},
            "/required/1",
            "Schema is not valid Draft 7: /required/1 must not be the same as item 0",
        ),
        (
            of(a=5),
            "/properties/a",
            "Schema is not valid Draft 7: /properties/a must be of type object or boolean, got 5",
        ),
        (
            {**OBJECT, "$defs": {"a": 5}},
            "/$defs/a",
            "Schema is not valid Draft 7: /$defs/a must be of type object or boolean, got 5",
        ),
        (
            of_2020(items=[{}]),
            "/items",
            "Schema is not valid Draft 2020-12: /items must be of type object or boolean, got an "
            "array",
        ),
        (
            {"minProperties": -1, "type": "objekt"},
            "/minProperties",
            "Schema is not valid Draft 7: /minProperties must be at least 0, got -1 (and 1 more)",
        ),
        (
            of(a={"$ref": "http://127.0.0.1:1/a.json"}),
            "/properties/a/$ref",
            'Schema has an external reference: "http://127.0.0.1:1/a.json" at /properties/a/$ref',
        ),
        (
            {"$id": "http://127.0.0.1:1/a/b.json", **of(a={"$ref": "c.json#/x"})},
            "/properties/a/$ref",
            'Schema has an external reference: "c.json#/x" at /properties/a/$ref',
        ),
        (
            of(a={"$ref": "file:///etc/passwd"}),
            "/properties/a/$ref",
            'Schema has an external reference: "file:///etc/passwd" at /properties/a/$ref',
        ),
        (
            of(a={"$ref": "#/definitions/b"}),
            "/properties/a/$ref",
            'Schema has a reference that cannot be resolved: "#/definitions/b" at '
            "/properties/a/$ref",
        ),
        (
            of(a={"$ref": "#/properties"}),
            "/properties/a/$ref",
            'Schema has a reference that cannot be resolved: "#/properties" at /properties/a/$ref',
        ),
        (
            of(a={"$ref": "#/properties/b/default"}, b={"default": {"pattern": "("}}),
            "/properties/a/$ref",
            'Schema has a reference that cannot be resolved: "#/properties/b/default" at '
            "/properties/a/$ref",
        ),
        (
            of_2020(properties={"a": {"$dynamicRef": "#b"}}),
            "/properties/a/$dynamicRef",
            'Schema has a reference that cannot be resolved: "#b" at /properties/a/$dynamicRef',
        ),
        (
            of(a={"$schema": DRAFT_7}),
            "/properties/a",
            "Schema has an $id or $schema below its root, at /properties/a",
        ),
        (
            of(a={"$id": "b.json"}),
            "/properties/a",
            "Schema has an $id or $schema below its root, at /properties/a",
        ),
        (
            of_2020(properties={"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}),
            "/properties/b",
            'Schema uses the anchor "x" twice',
        ),
        ({"$ref": "#"}, "", "Schema refers to itself endlessly: its root"),
        ({**OBJECT, "allOf": [{"$ref": "#"}]}, "", "Schema refers to itself endlessly: its root"),
        (
            of(a={"anyOf": [{"not": {"$ref": "#/properties/a"}}]}),
            "/properties/a",
            "Schema refers to itself endlessly: /properties/a",
        ),
        (
            {
                **of(a={"$ref": "#/definitions/a"}),
                "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            },
            "/definitions/b",
            "Schema refers to itself endlessly: /definitions/b",
        ),
        (
            of(a={"if": {"$ref": "#/properties/b"}}, b={"else": {"$ref": "#/properties/a"}}),
            "/properties/b",
            "Schema refers to itself endlessly: /properties/b",
        ),
        (
            of(a={"dependencies": {"x": {"$ref": "#/properties/a"}}}),
            "/properties/a",
            "Schema refers to itself endlessly: /properties/a",
        ),
        (
            of(a={"pattern": "(?!x)"}),
            "/properties/a/pattern",
            "Schema has a pattern that is not a valid regular expression: invalid perl operator: "
            '(?!: "(?!x)" at /properties/a/pattern',
        ),
        (
            {**OBJECT, "patternProperties": {"(": {}}},
            "/patternProperties",
            "Schema has a pattern that is not a valid regular expression: missing ): (: "
            '"(" at /patternProperties',
        ),
    ],
)
def test_any_other_schema_is_refused_with_the_path_of_the_problem(
    schema: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        accept_schema(schema, "new_schema")
    assert caught.value.message == message
    assert (caught.value.details["field"], caught.value.details["path"]) == ("new_schema", path)
    assert caught.value.details["constraint"]


def test_all_problems_of_a_schema_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        accept_schema({"type": "objekt", "minProperties": -1, "required": [1]})
    problems = caught.value.details["problems"]
    assert [p["path"] for p in problems] == ["/type", "/minProperties", "/required/0"]


def nested(depth: int, inner: Any = True) -> Any:
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def test_the_size_and_depth_of_a_schema_are_limited() -> None:
    def long(chars: int) -> dict[str, Any]:
        return {"type": "object", "description": "é" * chars}

    room = 64 * 1024 - len(json.dumps(long(0), separators=(",", ":")))
    accept_schema(long(room // 2 - 1))
    with pytest.raises(InvalidInput, match=r"^Schema must be at most 65,536 bytes as JSON, got "):
        accept_schema(long(room // 2 + 1))
    accept_schema({"type": "object", "default": nested(31)})
    with pytest.raises(InvalidInput, match=r"^Schema must not nest deeper than 32 levels$"):
        accept_schema({"type": "object", "default": nested(32)})
    with pytest.raises(InvalidInput, match=r"^Schema must not nest deeper than 32 levels$"):
        accept_schema({"type": "object", "default": nested(100_000)})


def test_sizes_are_those_of_the_text_that_postgresql_writes() -> None:
    require_size("data", "Data", [1e300], 303, 2)
    with pytest.raises(InvalidInput, match=r"^Data must be at most 300 bytes as JSON, got 303$"):
        require_size("data", "Data", [1e300], 300, 2)
    with pytest.raises(InvalidInput, match=r"^Data has a number of more than 4,200 digits$"):
        require_size("data", "Data", [10**5000], 10_000, 2)


@pytest.mark.parametrize(
    ("schema", "data", "problems"),
    [
        (of(a={"type": "integer"}), {"a": "x"}, ['/a must be of type integer, got "x"']),
        (of(a={"type": "integer"}), {"a": True}, ["/a must be of type integer, got true"]),
        (of(a={"type": "integer"}), {"a": 2.0}, []),
        (of(a={"type": "integer"}), {"a": 2**70}, []),
        (of(a={"type": ["string", "null"]}), {"a": None}, []),
        (
            of(a={"type": ["string", "null"]}),
            {"a": []},
            ["/a must be of type string or null, got an array"],
        ),
        ({**OBJECT, "required": ["b", "c"]}, {"b": 1}, ["/c is required"]),
        (
            {**of(a={}, b={}), "additionalProperties": False},
            {"c": 1},
            ["/c is not a field of the schema (fields: a, b)"],
        ),
        (of(a=False), {"a": 1}, ["/a is not allowed"]),
        (of(a={"enum": ["x", 1]}), {"a": 1.0}, []),
        (of(a={"enum": ["x", 1]}), {"a": True}, ['/a must be one of "x", 1, got true']),
        (of(a={"enum": [[1, {"b": 2}]]}), {"a": [1.0, {"b": 2}]}, []),
        (of(a={"const": "x"}), {"a": "y"}, ['/a must be "x", got "y"']),
        (of(a={"minimum": 1}), {"a": 0.5}, ["/a must be at least 1, got 0.5"]),
        (of(a={"exclusiveMaximum": 1}), {"a": 1}, ["/a must be less than 1, got 1"]),
        (of(a={"multipleOf": 0.1}), {"a": 0.3}, []),
        (of(a={"multipleOf": 0.01}), {"a": 1e300}, []),
        (of(a={"multipleOf": 3}), {"a": 10**400}, ["/a must be a multiple of 3, got a number of"]),
        (of(a={"minLength": 2}), {"a": "🎉"}, ["/a must have at least 2 characters, got 1"]),
        (of(a={"pattern": "^x"}), {"a": "y"}, ['/a must match the pattern ^x, got "y"']),
        (of(a={"format": "email"}), {"a": "not an address"}, []),
        (
            of(a={"uniqueItems": True}),
            {"a": [1, True, 1.0]},
            ["/a/2 must not be the same as item 0"],
        ),
        (
            of(a={"items": {"type": "string"}}),
            {"a": ["x", 1]},
            ["/a/1 must be of type string, got 1"],
        ),
        (
            of(a={"items": [{"type": "string"}], "additionalItems": False}),
            {"a": ["x", 1]},
            ["/a/1 is not allowed"],
        ),
        (
            of(a={"contains": {"const": 1}}),
            {"a": [2]},
            ["/a must have at least 1 matching items, got 0"],
        ),
        (
            {**OBJECT, "propertyNames": {"maxLength": 2}},
            {"abc": 1},
            ["/abc has a name that must have at most 2 characters, got 3"],
        ),
        (
            {**OBJECT, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"a": 1, "c": 1},
            ['/b is required if "a" is present', "/d is required"],
        ),
        (
            {**OBJECT, "minProperties": 1},
            {},
            ["the value must have at least 1 fields, got 0"],
        ),
        (
            of(a={"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 1}]}),
            {"a": "xy"},
            ["/a must have at most 1 characters, got 2"],
        ),
        (
            of(a={"anyOf": [{"minimum": 5}, {"maximum": 1}]}),
            {"a": 3},
            ["/a matches none of the 2 alternatives"],
        ),
        (
            of(a={"oneOf": [{"minimum": 1}, {"maximum": 5}]}),
            {"a": 3},
            ["/a must match exactly one alternative, matches 2"],
        ),
        (
            of(a={"not": {"type": "null"}}),
            {"a": None},
            ['/a must not match the schema under "not"'],
        ),
        (
            of(a={"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"const": 1}}),
            {"a": ""},
            ["/a must have at least 1 characters, got 0"],
        ),
        (of(**{"a/b~": {"type": "null"}}), {"a/b~": 1}, ["/a~1b~0 must be of type null, got 1"]),
        (
            of_2020(properties={"a": {"prefixItems": [{"const": 1}], "items": False}}),
            {"a": [1, 2]},
            ["/a/1 is not allowed"],
        ),
        (
            of_2020(properties={"a": {"contains": {"const": 1}, "maxContains": 1}}),
            {"a": [1, 1]},
            ["/a must have at most 1 matching items, got 2"],
        ),
        (
            of_2020(dependentRequired={"a": ["b"]}, dependentSchemas={"a": {"required": ["c"]}}),
            {"a": 1},
            ['/b is required if "a" is present', "/c is required"],
        ),
        (
            of_2020(allOf=[{"properties": {"a": {}}}], unevaluatedProperties=False),
            {"a": 1, "b": 2},
            ["/b is not allowed"],
        ),
        (
            of_2020(
                **{"$ref": "#/$defs/x", "$defs": {"x": {"required": ["a"]}}, "required": ["b"]}
            ),
            {},
            ["/a is required", "/b is required"],
        ),
        (
            of(a={"$ref": "#/definitions/x", "const": 5})
            | {"definitions": {"x": {"type": "null"}}},
            {"a": None},
            [],
        ),
    ],
)
def test_data_is_validated_by_every_keyword(
    schema: dict[str, Any], data: Any, problems: list[str]
) -> None:
    found = said(schema, data)
    assert len(found) == len(problems)
    for one, expected in zip(sorted(found), sorted(problems), strict=True):
        assert one.startswith(expected)


def test_up_to_twenty_problems_are_reported() -> None:
    schema = of(a={"items": {"type": "integer"}})
    assert len(said(schema, {"a": ["x"] * 7})) == 7
    assert len(said(schema, {"a": ["x"] * 70})) == 20


def test_long_values_are_shortened_in_messages() -> None:
    [problem] = said(of(a={"type": "integer"}), {"a": "x" * 10_000})
    assert problem == f'/a must be of type integer, got "{"x" * 60}…"'


def test_a_recursive_schema_accepts_data_up_to_the_depth_limit() -> None:
    schema = {"$ref": "#/definitions/node", "definitions": {"node": {
        "type": "object", "additionalProperties": False, "required": ["name"],
        "properties": {"name": {"type": "string"},
                       "child": {"allOf": [{"$ref": "#/definitions/node"}]}},
    }}}  # fmt: skip
    tree: dict[str, Any] = {"name": "leaf"}
    for _ in range(62):
        tree = {"name": "x", "child": tree}
    assert said(schema, tree) == []
    tree["child"]["child"]["name"] = 5
    assert said(schema, tree) == ["/child/child/name must be of type string, got 5"]


def test_a_stored_schema_is_compiled_once() -> None:
    text = json.dumps(of(a={"type": "integer"}))
    assert stored_schema(text) is stored_schema(text)
    assert [str(p) for p in stored_schema(text).problems({"a": "x"})] == [
        '/a must be of type integer, got "x"'
    ]


def test_long_names_are_shortened_in_paths() -> None:
    schema = accept_schema({"type": "object", "additionalProperties": {"type": "integer"}})
    [problem] = schema.problems({"k" * 100_000: "x"})
    assert str(problem) == f'/{"k" * 60} must be of type integer, got "x"'
