"""Schemas that nobody thought of: our verdicts are the library's, harmless changes harm nothing."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.schemas import accept_schema, changes_between

TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
PATTERNS = ["^a", "b$", "[a-c]", "^.$", "a|b", "^[^a]*$"]

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

names = st.sampled_from(["a", "b", "c", "ab"])
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 6),
    st.sampled_from([0.5, 1.0, 2.5, -0.0, 0.25]),
    st.sampled_from(["", "a", "b", "ab", "abc", "é", "1"]),
)
values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=8,
)
_small = st.integers(0, 3)
_bound = st.integers(-2, 3)
_references = st.sampled_from(["#/definitions/x", "#/definitions/y", "#/$defs/z"])
_name_lists = st.lists(names, max_size=2, unique=True)


def _keywords(inner: st.SearchStrategy[Any], is_draft_7: bool) -> dict[str, st.SearchStrategy[Any]]:
    one, many = inner, st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(
            st.sampled_from(TYPES),
            st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        ),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        **dict.fromkeys(BOUNDS, _bound),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _small),
        **dict.fromkeys(("minProperties", "maxProperties"), _small),
        "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        "pattern": st.sampled_from(PATTERNS),
        "uniqueItems": st.booleans(),
        "required": _name_lists,
        "properties": st.dictionaries(names, one, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), one, max_size=2),
        **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), one),
        **dict.fromkeys(("not", "if", "then", "else"), one),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), many),
    }
    if is_draft_7:
        dependencies = st.dictionaries(names, st.one_of(one, _name_lists), max_size=2)
        return keywords | {
            "items": st.one_of(one, many),
            "additionalItems": one,
            "dependencies": dependencies,
        }
    return keywords | {
        "items": one,
        "prefixItems": many,
        "minContains": _small,
        "maxContains": _small,
        "dependentRequired": st.dictionaries(names, _name_lists, max_size=2),
        "dependentSchemas": st.dictionaries(names, one, max_size=2),
        "unevaluatedProperties": one,
        "unevaluatedItems": one,
        "$ref": _references,
    }


def _schemas(is_draft_7: bool, *, refers: bool) -> st.SearchStrategy[Any]:
    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        keywords = _keywords(inner, is_draft_7)
        if not refers:
            keywords.pop("$ref", None)
        chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
        plain = chosen.flatmap(lambda some: st.fixed_dictionaries({k: keywords[k] for k in some}))
        reference = _references.map(lambda place: {"$ref": place})
        return st.one_of(reference, plain) if refers else plain

    return st.recursive(st.booleans(), extend, max_leaves=8 if refers else 4)


def documents(is_draft_7: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Whole schemas of objects with a property ``p``, and definitions that are referred to."""
    uri = (
        "http://json-schema.org/draft-07/schema#"
        if is_draft_7
        else "https://json-schema.org/draft/2020-12/schema"
    )
    plain, referring = (_schemas(is_draft_7, refers=refers) for refers in (False, True))
    return st.builds(
        lambda p, x, y, z: {
            "$schema": uri,
            "type": "object",
            "properties": {"p": p},
            "definitions": {"x": x, "y": y},
            "$defs": {"z": z},
        },
        referring.filter(lambda schema: isinstance(schema, dict)), plain, plain, referring,
    )  # fmt: skip


def parts(document: Any) -> list[dict[str, Any]]:
    """All objects in a document, whether they are schemas or not."""
    if isinstance(document, list):
        return [part for inner in document for part in parts(inner)]
    if not isinstance(document, dict):
        return []
    return [document, *parts(list(document.values()))]


def changed(document: dict[str, Any], donor: dict[str, Any], choose: random.Random) -> Any:
    """The document with one or two keywords removed, taken from the donor, or changed a little."""
    new = copy.deepcopy(document)
    for _ in range(choose.randint(1, 2)):
        part, other = choose.choice(parts(new)), choose.choice(parts(donor))
        keyword = choose.choice(sorted(part) or ["title"])
        what = choose.random()
        if what < 0.35:
            part.pop(keyword, None)
        elif what < 0.6 and other:
            keyword = choose.choice(sorted(other))
            part[keyword] = copy.deepcopy(other[keyword])
        else:
            change_a_little(part, keyword, choose)
    return new


def change_a_little(part: dict[str, Any], keyword: str, choose: random.Random) -> None:
    """A limit by one, a list by an item, a type by another, a truth to its opposite."""
    value = part.get(keyword)
    if isinstance(value, bool):
        part[keyword] = not value
    elif isinstance(value, int | float):
        least = -9 if keyword in BOUNDS else 0
        part[keyword] = max(least, value + choose.choice([-1, 1]))
    elif isinstance(value, list) and value:
        value.pop(choose.randrange(len(value)))
    elif keyword == "type" and isinstance(value, str):
        part[keyword] = [value, choose.choice([t for t in TYPES if t != value])]


def for_many(test: Callable[..., None], *drawn: st.SearchStrategy[Any], examples: int) -> None:
    """Run a test with what is drawn, the same each time."""
    checks = list(HealthCheck)
    options = settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=checks
    )
    options(given(*drawn)(test))()


@pytest.mark.parametrize("is_draft_7", [True, False])
def test_results_agree_with_the_reference_implementation(is_draft_7: bool) -> None:
    library = Draft7Validator if is_draft_7 else Draft202012Validator
    verdicts: set[bool] = set()

    def check(document: dict[str, Any], value: Any) -> None:
        try:
            schema = accept_schema(document)
        except InvalidInput as refusal:
            assert "endlessly" in refusal.message
            return
        try:
            fits = library(document, registry=Registry()).is_valid({"p": value})
        except TypeError:  # the library stumbles over additionalItems beside "items": false
            return
        verdicts.add(fits)
        assert (not schema.problems({"p": value})) is fits

    for_many(check, documents(is_draft_7), values, examples=200)
    assert verdicts == {True, False}


@pytest.mark.parametrize("is_draft_7", [True, False])
def test_valid_data_stays_valid_after_compatible_changes(is_draft_7: bool) -> None:
    harmless, many = [], list[Any]()

    def collect(value: Any) -> None:
        many.append(value)

    for_many(collect, values, examples=60)

    def check(old: dict[str, Any], donor: dict[str, Any], choose: random.Random) -> None:
        try:
            before, after = accept_schema(old), accept_schema(changed(old, donor, choose))
        except InvalidInput:
            return
        changes = changes_between(before, after)
        # Data may hold such a field already, where unknown ones are allowed.
        is_field_new = any(change.change.startswith("optional field") for change in changes)
        if not changes or is_field_new or any(change.breaking for change in changes):
            return
        harmless.append(changes)
        for value in many:
            assert before.problems({"p": value}) or not after.problems({"p": value})

    documents_ = documents(is_draft_7)
    chances = st.integers(0, 2**32).map(random.Random)
    for_many(check, documents_, documents_, chances, examples=150)
    assert len(harmless) > 10
