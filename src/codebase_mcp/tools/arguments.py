"""Are these arguments what the tool's published schema asks for?

One check for all tools: aliases become canonical names, unknown names are refused, every value is
held against the schema that clients see, and all problems are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from codebase_mcp.errors import InvalidInput
from codebase_mcp.values import require_storable

# Names that clients of the older documents use, accepted in every tool that has the canonical one.
ALIASES: Mapping[str, str] = {
    "path": "repo_path",
    "repository_path": "repo_path",
    "collection": "project_id",
    "action": "operation",
    "base_branch": "branch_a",
    "target_branch": "branch_b",
}

Rule = Callable[[Any], Any]
"""Checks one value, and returns the value to use.

Raises:
    InvalidInput: it does not fit.
"""


def check_arguments(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], rules: Mapping[str, Rule]
) -> dict[str, Any]:
    """The arguments under their canonical names, each of them valid.

    ``rules`` stand in for the schema's limits of the fields that they name, where the contract has
    words of its own.

    Raises:
        InvalidInput: with the one problem, or with all of them under ``details.fields``.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    problems: list[InvalidInput] = []
    given = _canonical(properties, arguments, problems)
    known = f"one of: {', '.join(properties)}"
    problems += [
        InvalidInput.of(name, given.pop(name), f"Unknown parameter: {name}", rule=known)
        for name in sorted(given.keys() - properties.keys())
    ]
    values = {name: _coerced(properties[name], value) for name, value in given.items()}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        try:
            checked[name] = _checked(name, properties[name], value, rules.get(name))
        except InvalidInput as problem:
            problems.append(problem)
    for name in schema.get("required", ()):
        if name not in values:
            problems.append(InvalidInput.of(name, None, f"Field required: {name}", rule="required"))
    if problems:
        raise together(problems)
    return checked


def aliases_in(properties: Collection[str]) -> dict[str, str]:
    """The other names of a tool's parameters; its own name of one may be an alias elsewhere."""
    own = {ALIASES.get(name, name): name for name in properties}
    others = {alias: own[name] for alias, name in ALIASES.items() if name in own}
    others |= {name: mine for name, mine in own.items() if name != mine}
    return {alias: name for alias, name in others.items() if alias not in properties}


def _canonical(
    properties: Mapping[str, Any], arguments: Mapping[str, Any], problems: list[InvalidInput]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    aliases = aliases_in(properties)
    for written, value in arguments.items():
        name = aliases.get(written, written)
        if name in given and given[name] != value:
            problems.append(
                InvalidInput.of(
                    name,
                    value,
                    f"{name} is given twice, under two names and with different values",
                    rule="one value",
                    hint=f"Pass only {name}.",
                )
            )
        given[name] = value
    return given


def _coerced(schema: Mapping[str, Any], value: Any) -> Any:
    """Numbers, booleans, lists and objects that a client wrote as text, as what they are."""
    if not isinstance(value, str):
        return value
    kinds = _types(schema)
    if "string" in kinds:
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(parsed, str) else parsed


def _types(schema: Mapping[str, Any]) -> set[str]:
    options = schema.get("anyOf", [schema])
    return {option.get("type", "") for option in options}


def _checked(name: str, schema: Mapping[str, Any], value: Any, rule: Rule | None) -> Any:
    errors = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda e: str(e.path))
    if rule is not None and not any(_is_type_error(error) for error in errors):
        fitting = rule(value)
        if isinstance(value, str):  # NUL is for the rule to judge
            require_storable(name, value.replace("\0", ""))
        return fitting
    if errors:
        raise _problem(name, value, errors[0])
    require_storable(name, value)
    return value


def _is_type_error(error: ValidationError) -> bool:
    if error.validator == "anyOf":
        return all(_is_type_error(part) for part in error.context or ())
    return bool(error.validator == "type")


def _problem(name: str, value: Any, error: ValidationError) -> InvalidInput:
    """A sentence about one broken rule of a schema."""
    if error.validator == "anyOf":  # a value or null: what is wrong with the value counts
        wrong = [part for part in error.context or () if not _is_type_error(part)]
        if wrong:
            return _problem(name, value, wrong[0])
    label = name.replace("_", " ").capitalize()
    where = ".".join(str(step) for step in error.absolute_path)
    field = f"{name}.{where}" if where else name
    rule = error.validator_value
    match error.validator:
        case "minimum" | "maximum":
            low, high = error.schema.get("minimum", "-∞"), error.schema.get("maximum", "∞")
            message = f"{label} must be between {low} and {high}, got {error.instance}"
            rule = f"{low}..{high}"
        case "minLength" | "maxLength":
            low, high = error.schema.get("minLength", 0), error.schema.get("maxLength", "∞")
            message = f"{label} must have {low} to {high} characters, got {len(error.instance)}"
            rule = f"{low}..{high} characters"
        case "minItems" | "maxItems":
            low, high = error.schema.get("minItems", 0), error.schema.get("maxItems", "∞")
            message = f"{label} must have {low} to {high} items, got {len(error.instance)}"
            rule = f"{low}..{high} items"
        case "enum":
            message = f"{label} must be one of {', '.join(map(repr, rule))}"
        case "type" | "anyOf":
            rule = " or ".join(sorted(_types(error.schema)))
            message = f"{label} must be of type {rule}, got {_short(error.instance)}"
        case "additionalProperties":
            known = ", ".join(error.schema.get("properties", {}))
            message, rule = f"{label}: {error.message}", f"only: {known}"
        case _:
            message = f"{label}: {error.message}"
    return InvalidInput.of(field, shown(value), message, rule=str(rule))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def shown(value: Any) -> Any:
    """A value to put into an error: long ones are cut."""
    return value if len(_short(value)) < 80 else _short(value)


def together(problems: list[InvalidInput]) -> InvalidInput:
    """The one problem, or all of them in one error."""
    if len(problems) == 1:
        return problems[0]
    fields = [
        {**problem.details, "message": problem.message}
        | ({"hint": problem.hint} if problem.hint else {})
        for problem in problems
    ]
    return InvalidInput("Parameter validation failed", details={"fields": fields})
