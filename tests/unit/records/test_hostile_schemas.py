"""No schema and no value keeps us busy: what would is refused, or given up after a while."""

from __future__ import annotations

from typing import Any

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.schemas.documents import accept_schema

OBJECT = {"type": "object"}
OBJECT_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}


def of(**properties: Any) -> dict[str, Any]:
    """An object schema with these properties."""
    return {"type": "object", "properties": properties}


def said(schema: dict[str, Any], data: Any) -> list[str]:
    """What is wrong with data, a problem a line."""
    return [str(problem) for problem in accept_schema(schema).problems(data)]


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def doubling(levels: int) -> dict[str, Any]:
    """Each definition twice the next one, for the same value."""
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(levels)
    }
    return {
        "type": "object",
        "allOf": [{"$ref": "#/definitions/d0"}],
        "definitions": definitions | {f"d{levels}": {}},
    }


@pytest.mark.parametrize(
    "schema",
    [
        doubling(30),
        {
            **of(a={"$ref": "#/definitions/d0"}),
            "definitions": {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(1000)}
            | {"d1000": {}},
        },
        of(**{f"p{n}": {"pattern": f"[a-z]{{4000}}{n}"} for n in range(20)}),
        {**OBJECT, "required": [n if n % 2 else str(n) for n in range(8_000)]},
        {**OBJECT, "anyOf": [{"$ref": "#/nothing"}] * 2_000},
    ],
    ids=["doubling", "chain", "patterns", "mixed list", "references"],
)
def test_a_schema_of_exponential_size_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        accept_schema(schema)


DOUBLING_BY_DEPTH = {
    **OBJECT, "properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}},
}  # fmt: skip
SEEN_TWICE = dict(
    OBJECT_2020,
    properties={"a": {"$ref": "#/$defs/d0"}},
    **{
        "$defs": {
            f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}], "unevaluatedProperties": False}
            for n in range(25)
        }
        | {"d25": {"properties": {"b": {}}}}
    },
)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (DOUBLING_BY_DEPTH, nested(62)),
        (SEEN_TWICE, {"a": {"b": 1}}),
        (
            of(a={"items": {"anyOf": [{"const": n} for n in range(3_000)]}}),
            {"a": [[]] * 50_000},
        ),
        (of(a={"allOf": [{"enum": [[n]]} for n in range(3_000)]}), {"a": [list(range(40_000))]}),
        (of(a={"pattern": "x[01]{900}y"}), {"a": "01" * 100_000}),
        (
            of(a={"items": {"allOf": [{"multipleOf": 0.1}] * 1_000}}),
            {"a": [10**4_000 + n for n in range(60)]},
        ),
        (of(a={"items": {"allOf": [True] * 5_000}}), {"a": [1] * 100_000}),
        (
            of(a={"items": {"patternProperties": {f"^{n}$": {} for n in range(2_000)}}}),
            {"a": [{}] * 80_000},
        ),
        (
            of(a={"items": {"required": [f"f{n}" for n in range(5_000)], "not": {}}}),
            {"a": [dict.fromkeys("abc")] * 10_000},
        ),
    ],
    ids=[
        "doubling by depth", "seen twice", "many alternatives", "long lists", "pattern",
        "long numbers", "many schemas", "many patterns", "many required",
    ],
)  # fmt: skip
def test_an_expensive_validation_is_aborted(schema: dict[str, Any], data: Any) -> None:
    problems = said(schema, data)
    assert (
        problems[0]
        == "the value is too expensive to validate:"
        " with this schema it takes more than 1,000,000 steps"
        or len(problems) == 20
    )


@pytest.mark.parametrize(
    ("schema", "data", "count"),
    [
        (of(a={"uniqueItems": True}), {"a": [str(n) if n % 2 else n for n in range(30_000)]}, 0),
        (of(a={"uniqueItems": True}), {"a": [n * (2**61 - 1) for n in range(10_000)]}, 0),
        (of(a={"items": {"enum": list(range(8_000))}}), {"a": [7_999] * 80_000}, 0),
        (of(a={"pattern": "^(a+)+$"}), {"a": "a" * 200_000 + "!"}, 1),
        (of(a={"anyOf": [{"type": "null"}] * 3_000}), {"a": "x" * 200_000}, 1),
        (of(a={"items": {"type": "integer", "minimum": 0, "maximum": 9}}), {"a": [1] * 100_000}, 0),
    ],
    ids=["mixed items", "equal hashes", "enum", "backtracking", "long messages", "large"],
)
def test_large_values_are_checked(schema: dict[str, Any], data: Any, count: int) -> None:
    assert len(said(schema, data)) == count
