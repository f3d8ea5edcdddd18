"""Which changes of a schema are there, and which of them break what may be there already?"""

from __future__ import annotations

from typing import Any

import pytest

from codebase_mcp.records.schemas.compatibility import changes_between
from codebase_mcp.records.schemas.documents import accept_schema

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def at_2020(**keywords: Any) -> dict[str, Any]:
    return {"$schema": DRAFT_2020, "type": "object", **keywords}


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, bool]]:
    found = changes_between(accept_schema(old), accept_schema(new))
    return [(change.path, change.change, change.breaking) for change in found]


def breaks(old: dict[str, Any], new: dict[str, Any]) -> bool:
    found = changes(old, new)
    assert found
    return any(breaking for _, _, breaking in found)


# Named by the contract: path and words too.
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (of(a=TEXT), of(a=TEXT), []),
        ({"type": "object", "minProperties": 1}, {"minProperties": 1.0, "type": "object"}, []),
        (of(a=TEXT), of(a=TEXT, b=TEXT), [("/properties/b", 'optional field "b" added', False)]),
        (
            {**of(a=TEXT), "additionalProperties": False},
            {**of(a=TEXT, b=TEXT), "additionalProperties": False},
            [("/properties/b", 'optional field "b" added', False)],
        ),
        (
            of(a=TEXT),
            {**of(a=TEXT, b=TEXT), "required": ["b"]},
            [("/properties/b", 'required field "b" added', True)],
        ),
        (
            {**of(a=TEXT), "required": ["b"]},
            {**of(a=TEXT, b=TEXT), "required": ["b"]},
            [("/properties/b", 'required field "b" added', True)],
        ),
        (of(a=TEXT), of(a=TEXT, b=False), [("/properties/b", 'forbidden field "b" added', True)]),
        (of(a=TEXT, b=TEXT), of(a=TEXT), [("/properties/b", 'field "b" removed', True)]),
        (
            of(a=TEXT),
            of(b=TEXT),
            [
                ("/properties/a", 'field "a" removed', True),
                ("/properties/b", 'optional field "b" added', False),
            ],
        ),
        (
            of(a=TEXT),
            {**of(a=TEXT), "required": ["a"]},
            [("/properties/a", 'field "a" is now required', True)],
        ),
        (
            of(a=TEXT),
            {**of(a=TEXT), "required": ["x"]},
            [("/required", 'field "x" is now required', True)],
        ),
        (
            {**of(a=TEXT), "required": ["a"]},
            of(a=TEXT),
            [("/properties/a", 'field "a" is no longer required', False)],
        ),
        (
            {**of(a=TEXT), "required": ["a"]},
            of(),
            [("/properties/a", 'field "a" removed', True)],
        ),
        (
            of(a=TEXT),
            of(a=NUMBER),
            [("/properties/a/type", "changed from string to number", True)],
        ),
        (
            of(a={"type": "integer"}),
            of(a=NUMBER),
            [("/properties/a/type", "changed from integer to number", False)],
        ),
        (
            of(a=NUMBER),
            of(a={"type": "integer"}),
            [("/properties/a/type", "changed from number to integer", True)],
        ),
        (
            of(a=TEXT),
            of(a={"type": ["null", "string"]}),
            [("/properties/a/type", "changed from string to null or string", False)],
        ),
        (
            of(a={"type": ["null", "string"]}),
            of(a=TEXT),
            [("/properties/a/type", "changed from null or string to string", True)],
        ),
        (
            of(a=TEXT),
            of(a={}),
            [("/properties/a/type", "no longer restricted (was string)", False)],
        ),
        (of(a={}), of(a=TEXT), [("/properties/a/type", "restricted to string", True)]),
        (
            of(a={"enum": ["x", 1]}),
            of(a={"enum": [1.0, "x", None]}),
            [("/properties/a/enum", "added null", False)],
        ),
        (
            of(a={"enum": ["x", "y", "z"]}),
            of(a={"enum": ["x", "w"]}),
            [("/properties/a/enum", 'added "w"; removed "y", "z"', True)],
        ),
        (of(a={}), of(a={"enum": [1]}), [("/properties/a/enum", "restricted to 1", True)]),
        (
            of(a={"enum": [1]}),
            of(a={}),
            [("/properties/a/enum", "values no longer restricted", False)],
        ),
        (
            of(a={"enum": [1, 2]}),
            of(a={"enum": [2, 1]}),
            [("/properties/a/enum", "order changed", False)],
        ),
        (
            of(a={"const": 1}),
            of(a={"enum": [1, 2]}),
            [("/properties/a/enum", "added 2", False)],
        ),
        (
            of(a={"enum": [1, 2]}),
            of(a={"const": 1}),
            [("/properties/a/enum", "removed 2", True)],
        ),
        (
            of(a={"maxLength": 5}),
            of(a={"maxLength": 9}),
            [("/properties/a/maxLength", "changed from 5 to 9", False)],
        ),
        (
            of(a={"title": "A"}),
            of(a={"title": "B", "description": "b"}),
            [
                ("/properties/a/title", 'changed from "A" to "B"', False),
                ("/properties/a/description", 'added: "b"', False),
            ],
        ),
        (
            of(a={}),
            {**of(a={}), "$schema": DRAFT_2020},
            [("/$schema", "version changed from Draft 7 to Draft 2020-12", True)],
        ),
        (
            of(a={}),
            {**of(a={}), "patternProperties": {}},
            [("", "the same rules, written differently", False)],
        ),
    ],
)
def test_a_change_is_reported_with_its_path(
    old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str, bool]]
) -> None:
    assert changes(old, new) == expected


# What a looser schema is: the new one, or with the two turned round what breaks.
@pytest.mark.parametrize(
    ("strict", "loose"),
    [
        ({"maximum": 5}, {"maximum": 6}),
        ({"maximum": 5}, {}),
        ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 5.5}),
        ({"minimum": 5}, {"minimum": 4}),
        ({"exclusiveMinimum": 5}, {}),
        ({"minLength": 5}, {"minLength": 4}),
        ({"maxLength": 5}, {}),
        ({"minItems": 1}, {"minItems": 0}),
        ({"maxItems": 1}, {"maxItems": 2}),
        ({"minProperties": 1}, {}),
        ({"maxProperties": 1}, {"maxProperties": 2}),
        ({"multipleOf": 4}, {}),
        ({"uniqueItems": True}, {"uniqueItems": False}),
        ({"uniqueItems": True}, {}),
        ({"pattern": "^a"}, {}),
        ({"additionalProperties": False}, {"additionalProperties": True}),
        ({"additionalProperties": False}, {"additionalProperties": TEXT}),
        ({"additionalProperties": False}, {}),
        ({"additionalProperties": TEXT}, {"additionalProperties": {"type": ["string", "null"]}}),
        ({"additionalProperties": TEXT}, {"additionalProperties": {}}),
        ({"items": TEXT}, {}),
        ({"items": {"maxLength": 1}}, {"items": {"maxLength": 2}}),
        ({"items": [TEXT]}, {"items": [{}]}),
        ({"items": [TEXT], "additionalItems": False}, {"items": [TEXT]}),
        ({"propertyNames": {"maxLength": 1}}, {"propertyNames": {"maxLength": 2}}),
        ({"contains": {"maximum": 1}}, {"contains": {"maximum": 2}}),
        ({"contains": {}}, {}),
        ({"allOf": [{"maximum": 1}, {}]}, {"allOf": [{"maximum": 2}, {}]}),
        ({"anyOf": [{"maximum": 1}]}, {"anyOf": [{"maximum": 2}]}),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, NUMBER]}),
        ({"if": TEXT, "then": {"maxLength": 1}}, {"if": TEXT, "then": {"maxLength": 2}}),
        ({"if": TEXT, "else": {"maximum": 1}}, {"if": TEXT}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b"]}}),
        ({"dependencies": {"a": {"maximum": 1}}}, {"dependencies": {"a": {"maximum": 2}}}),
        ({"dependencies": {"a": {"maximum": 1}}}, {"dependencies": {}}),
        ({"patternProperties": {"^a": TEXT}}, {"patternProperties": {"^a": {}}}),
        ({"properties": {"b": {"maximum": 1}}}, {"properties": {"b": {"maximum": 2}}}),
        ({"properties": {"b": False}}, {"properties": {"b": TEXT}}),
        ({"const": [1, {"a": 2}]}, {"enum": [[1.0, {"a": 2}], 3]}),
    ],
)
def test_loosening_is_compatible_and_tightening_is_breaking(
    strict: dict[str, Any], loose: dict[str, Any]
) -> None:
    assert not breaks(of(a=strict), of(a=loose))
    assert breaks(of(a=loose), of(a=strict))
    definitions = [{"type": "object", "definitions": {"x": one}} for one in (strict, loose)]
    assert not breaks(*definitions)
    assert breaks(*reversed(definitions))


@pytest.mark.parametrize(
    ("strict", "loose"),
    [
        ({"minContains": 2, "contains": {}}, {"contains": {}}),
        ({"contains": {}}, {"minContains": 0, "contains": {}}),
        ({"maxContains": 2, "contains": {}}, {"contains": {}}),
        ({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": []}}),
        ({"dependentSchemas": {"a": TEXT}}, {"dependentSchemas": {}}),
        ({"unevaluatedProperties": False}, {"unevaluatedProperties": True}),
        ({"unevaluatedItems": False}, {}),
        ({"prefixItems": [TEXT]}, {"prefixItems": [{}]}),
        ({"unevaluatedProperties": False, "anyOf": [TEXT]}, {"anyOf": [TEXT, NUMBER]}),
    ],
)
def test_the_same_holds_for_keywords_of_2020_12(
    strict: dict[str, Any], loose: dict[str, Any]
) -> None:
    old, new = (at_2020(properties={"a": one}) for one in (strict, loose))
    assert not breaks(old, new)
    assert breaks(new, old)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"not": {"maximum": 1}}, {"not": {"maximum": 2}}),
        ({"not": TEXT}, {}),
        ({"if": {"maximum": 1}, "then": False}, {"if": {"maximum": 2}, "then": False}),
        ({"oneOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}),
        ({"oneOf": [TEXT, {"maximum": 1}]}, {"oneOf": [TEXT, {"maximum": 2}]}),
        ({"allOf": [TEXT]}, {"allOf": [TEXT, {"maxLength": 5}]}),
        ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [NUMBER, TEXT]}),
        ({"items": TEXT}, {"items": [TEXT]}),
        ({"items": [TEXT]}, {"items": [TEXT, {}]}),
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"multipleOf": 2}, {"multipleOf": 3}),
        ({"patternProperties": {"a": {}}}, {"patternProperties": {}}),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": {"required": ["b"]}}}),
        ({"$ref": "#/definitions/x"}, {"$ref": "#/definitions/y"}),
        ({"$ref": "#/definitions/x"}, {}),
        ({"x-unit": "s"}, {"x-unit": "ms"}),
        ({"x-unit": "s"}, {}),
    ],
)
def test_undecidable_changes_are_breaking_in_both_directions(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    shared = {"definitions": {"x": TEXT, "y": TEXT}}
    assert breaks(of(a=one) | shared, of(a=other) | shared)
    assert breaks(of(a=other) | shared, of(a=one) | shared)


@pytest.mark.parametrize(
    "keyword",
    [
        "title", "description", "default", "examples", "$comment", "format", "readOnly",
        "writeOnly", "contentEncoding", "contentMediaType",
    ],
)  # fmt: skip
def test_annotation_changes_are_always_compatible(keyword: str) -> None:
    values = [True, False] if keyword in ("readOnly", "writeOnly") else ["a", "b"]
    one, other = ([value] if keyword == "examples" else value for value in values)
    for old, new in (
        ({}, {keyword: one}),
        ({keyword: one}, {keyword: other}),
        ({keyword: one}, {}),
    ):
        assert not breaks(of(a=old), of(a=new))
        assert not breaks(of(a={"not": {"not": old}}), of(a={"not": {"not": new}}))


def test_adding_or_removing_a_definition_is_compatible_but_tightening_it_is_breaking() -> None:
    old = {**of(a={"$ref": "#/definitions/x"}), "definitions": {"x": {"maximum": 1}}}
    more = {**old, "definitions": {"x": {"maximum": 1}, "y": {}}}
    assert changes(old, more) == [("/definitions/y", "definition added", False)]
    assert changes(more, old) == [("/definitions/y", "definition removed", False)]
    looser = {**old, "definitions": {"x": {"maximum": 2}}}
    assert not breaks(old, looser)
    assert breaks(looser, old)


@pytest.mark.parametrize("keyword", ["not", "if", "oneOf"])
def test_loosening_a_definition_is_breaking_if_that_rejects_more(keyword: str) -> None:
    inside = {"allOf": [{"$ref": "#/definitions/x"}]}
    used = {keyword: [inside, {}] if keyword == "oneOf" else inside}
    old, looser = (
        {**of(a=used), "definitions": {"x": {"items": {"$ref": "#/definitions/y"}}, "y": limit}}
        for limit in ({"maximum": 1}, {"maximum": 2})
    )
    assert changes(old, looser) == [
        ("/definitions/y", "changed in a schema used by not, if, oneOf or maxContains", True)
    ]


def test_loosening_a_schema_counted_by_max_contains_is_breaking() -> None:
    old, looser = (
        at_2020(properties={"a": {"contains": {"maximum": n}, "maxContains": 1}}) for n in (1, 2)
    )
    assert breaks(old, looser)


def test_removing_a_schema_is_breaking_if_unevaluated_parts_are_restricted() -> None:
    old = at_2020(properties={"a": {"additionalProperties": True, "unevaluatedProperties": False}})
    new = at_2020(properties={"a": {"unevaluatedProperties": False}})
    assert breaks(old, new)


def test_the_id_of_a_subschema_is_not_an_annotation() -> None:
    def named(name: str, other: str) -> dict[str, Any]:
        parts = {"x": {**TEXT, "$id": name}, "y": {**NUMBER, "$id": other}}
        return {**of(a={"$ref": "#n"}), "definitions": parts}

    assert breaks(named("#n", "#m"), named("#m", "#n"))


def test_nested_changes_are_reported_with_their_path() -> None:
    def deep(limit: int) -> dict[str, Any]:
        return of(**{"a/b": {"items": of(c={"anyOf": [{"maximum": limit}]})}})

    assert changes(deep(2), deep(1)) == [
        ("/properties/a~1b/items/properties/c/anyOf/0/maximum", "changed from 2 to 1", True)
    ]
