"""Schemas that nobody thought of: our verdicts are the library's, harmless changes harm nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.schemas.compatibility import changes_between
from codebase_mcp.records.schemas.documents import accept_schema

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


def document_of(p: Any, is_draft_7: bool) -> dict[str, Any]:
    """A schema of objects with a property ``p``."""
    uri = (
        "http://json-schema.org/draft-07/schema#"
        if is_draft_7
        else "https://json-schema.org/draft/2020-12/schema"
    )
    return {"$schema": uri, "type": "object", "properties": {"p": p}}


def documents(is_draft_7: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Whole schemas of objects with a property ``p``, and definitions that are referred to."""
    plain, referring = (_schemas(is_draft_7, refers=refers) for refers in (False, True))
    return st.builds(
        lambda p, x, y, z: document_of(p, is_draft_7)
        | {"definitions": {"x": x, "y": y}, "$defs": {"z": z}},
        referring.filter(lambda schema: isinstance(schema, dict)), plain, plain, referring,
    )  # fmt: skip


def rules(is_draft_7: bool) -> st.SearchStrategy[tuple[str, Any, Any]]:
    """A keyword with two of its values, in which other schemas have one keyword at most."""
    inner = st.one_of(
        st.booleans(),
        st.builds(lambda name: {"type": name}, st.sampled_from(TYPES)),
        st.builds(lambda least: {"minimum": least}, _bound),
        st.builds(lambda most: {"maxLength": most}, _small),
        st.builds(lambda fields: {"required": fields}, _name_lists),
    )
    keywords = _keywords(inner, is_draft_7)
    keywords.pop("$ref", None)
    return st.sampled_from(sorted(keywords)).flatmap(
        lambda keyword: st.tuples(st.just(keyword), keywords[keyword], keywords[keyword])
    )


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

    def check(rule: tuple[str, Any, Any], beside: tuple[str, Any, Any]) -> None:
        keyword, one, other = rule
        rest = {beside[0]: beside[1]} if beside[0] != keyword else {}
        versions = [rest, rest | {keyword: one}, rest | {keyword: other}]
        try:
            accepted = [accept_schema(document_of(version, is_draft_7)) for version in versions]
        except InvalidInput:
            return
        for before, after in permutations(accepted, 2):
            changes = changes_between(before, after)
            # Data may hold such a field already, where unknown ones are allowed.
            is_field_new = any(change.change.startswith("optional field") for change in changes)
            if not changes or is_field_new or any(change.breaking for change in changes):
                continue
            harmless.append(changes)
            for value in many:
                assert before.problems({"p": value}) or not after.problems({"p": value})

    for_many(check, rules(is_draft_7), rules(is_draft_7), examples=200)
    assert len(harmless) > 100
