"""Checks the arguments of a call: pydantic finds all problems, and this module words them.

A caller may send megabytes that are wrong throughout, so values are cut and problems are limited.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.rules import apply_rule
from codebase_mcp.tools.schemas import input_schema, types_in
from codebase_mcp.values import require_storable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from codebase_mcp.tools.toolset import Operation

# Names in the older documents, accepted by every tool that has the canonical name.
ALIASES: Mapping[str, str] = {
    "path": "repo_path",
    "repository_path": "repo_path",
    "collection": "project_id",
    "action": "operation",
    "base_branch": "branch_a",
    "target_branch": "branch_b",
}

MAX_PROBLEMS = 10
"""Problems of one parameter that an error lists."""
MAX_UNKNOWN = 5
_SHOWN_CHARS = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
_OF_EVERY_OPERATION = frozenset({"operation", "project_id", "collection"})


class ArgumentPart(BaseModel):
    """An object inside a parameter."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_most_unknown_names(cls, value: Any) -> Any:
        """Drop most unknown names, as errors for a hundred thousand of them would take a second.

        pydantic stops at a name that UTF-8 cannot hold.
        """
        if not isinstance(value, dict):
            return value
        names = {field.alias or name for name, field in cls.model_fields.items()}
        given = names & value.keys()
        if len(value) == len(given):
            return value
        unknown = {_encodable(name): value[name] for name in _first_unknown(value, names)}
        return {name: value[name] for name in given} | unknown

    @field_validator("*")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:
        return apply_rule(_storable, value)


class Arguments(ArgumentPart):
    """The parameters of a tool; clients see their JSON Schema."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def checked(cls, arguments: Mapping[str, Any]) -> Self:
        """The valid arguments of a call.

        Raises:
            InvalidInput: an argument is invalid; several problems are in ``details.fields``.
        """
        schema = input_schema(cls)
        given, problems = _canonical(schema["properties"], arguments)
        try:
            values = cls.model_validate(given)
        except ValidationError as error:
            problems += _problems(schema, given, error)
        if problems:
            raise combined(problems)
        return values


def _storable(value: Any, field: str) -> Any:
    require_storable(field, value)
    return value


def aliases_in(properties: Collection[str]) -> dict[str, str]:
    """The aliases of a tool's parameters; its own name of a parameter may be an alias elsewhere."""
    # Where two parameters are such names, the aliases mean the first.
    own = {ALIASES.get(name, name): name for name in reversed([*properties])}
    aliases = {alias: own[name] for alias, name in ALIASES.items() if name in own}
    aliases |= {name: mine for name, mine in own.items() if name != mine}
    return {alias: name for alias, name in aliases.items() if alias not in properties}


def check_operation(operations: Mapping[str, Operation], arguments: Arguments) -> None:
    """Check that an operation has its required parameters, and no parameters of others.

    A parameter that is null counts as absent.

    Raises:
        InvalidInput: it has not; several problems are in ``details.fields``.
    """
    name: str = getattr(arguments, "operation", "")
    if name not in operations:
        return
    operation = operations[name]
    values = arguments.model_dump(mode="json", include=arguments.model_fields_set)
    given = {field: value for field, value in values.items() if value is not None}
    problems = [_missing(field) for field in operation.required if field not in given]
    problems += [
        InvalidInput.of(
            field,
            error_value(value),
            f"{field} is not a parameter of the operation {name}",
            rule=f"{name} takes: {', '.join(operation.parameters)}",
            hint=f"Leave {field} out.",
        )
        for field, value in given.items()
        if field not in _OF_EVERY_OPERATION and field not in operation.parameters
    ]
    if problems:
        raise combined(problems)


def combined(problems: list[InvalidInput]) -> InvalidInput:
    """The problem, or an error that lists all problems."""
    if len(problems) == 1:
        return problems[0]
    fields = [
        {**problem.details, "message": problem.message}
        | ({"hint": problem.hint} if problem.hint else {})
        for problem in problems
    ]
    return InvalidInput("Parameter validation failed", details={"fields": fields})


def parsed(schema: Mapping[str, Any], value: Any) -> Any:
    """The content of a JSON text, for a parameter that is not a text."""
    if not isinstance(value, str) or "string" in types_in(schema):
        return value
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(content, str) else content


def text_of_value(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = ""
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > _SHOWN_CHARS:
            break
    return _cut(text)


def error_value(value: Any) -> Any:
    """A value for an error; long values are cut."""
    text = text_of_value(value)
    return value if len(text) < _SHOWN_CHARS else text


def _canonical(
    properties: Mapping[str, Any], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], list[InvalidInput]]:
    """The arguments under the tool's own names, and those that are given twice."""
    given: dict[str, Any] = {}
    problems = []
    aliases = aliases_in(properties)
    for written, value in arguments.items():
        name = aliases.get(written, written)
        if name in given and given[name] != value:
            message = f"{name} is given twice, under two names and with different values"
            problems.append(
                InvalidInput.of(
                    name, error_value(value), message, rule="one value", hint=f"Pass only {name}."
                )
            )
        given[name] = value
    return {name: _as_sent(properties.get(name, {}), given[name]) for name in given}, problems


def _as_sent(schema: Mapping[str, Any], value: Any) -> Any:
    """A value as its client means it.

    Claude Code writes lists and objects as text at times (anthropics/claude-code#93179), never
    numbers and booleans. JSON does not tell 3.0 from 3.
    """
    if isinstance(value, float) and value.is_integer() and "integer" in types_in(schema):
        return int(value)
    content = parsed(schema, value)
    return content if isinstance(content, list | dict) else value


def _problems(
    schema: dict[str, Any], given: dict[str, Any], failed: ValidationError
) -> list[InvalidInput]:
    """The problems that pydantic has found, at most ten of each parameter."""
    problems: dict[str, InvalidInput] = {}
    counts: Counter[int | str] = Counter()
    for error in sorted(failed.errors(include_url=False), key=_rank):
        location = error["loc"]
        counts[location[0]] += 1
        field = ".".join(_cut(str(step)) for step in location)
        if counts[location[0]] <= MAX_PROBLEMS and field not in problems:
            problems[field] = _problem(field, error, schema, given)
    return list(problems.values())


def _rank(error: ErrorDetails) -> int:
    """Unknown and missing parameters come first."""
    return {"extra_forbidden": 0, "missing": 1}.get(error["type"], 2)


def _problem(
    field: str, error: ErrorDetails, schema: dict[str, Any], given: dict[str, Any]
) -> InvalidInput:
    """A sentence about a broken limit."""
    if error["type"] == "missing":
        return _missing(field)
    value, location = error["input"], error["loc"]
    if error["type"] == "extra_forbidden":
        return _unknown(field, error, schema, given)
    rule = error.get("ctx", {}).get("rule")
    if error["type"] == "string_unicode":
        rule = _storable
    if rule is not None:
        try:
            rule(value, field)
        except InvalidInput as problem:
            return problem
    says, constraint = _broken_limit(error, _schema_at(schema, location))
    label = field if len(location) > 1 else field.replace("_", " ").capitalize()
    return InvalidInput.of(field, error_value(value), f"{label} must {says}", rule=constraint)


def _broken_limit(error: ErrorDetails, schema: Mapping[str, Any]) -> tuple[str, str]:
    """What a value must be and is, and the limit in short."""
    value = error["input"]
    got = text_of_value(value)
    allowed = next((o for o in schema.get("anyOf", ()) if o.get("type") != "null"), schema)
    match error["type"]:
        case "greater_than_equal" | "less_than_equal":
            says, rule = _range(allowed, "minimum", "maximum", "between {} and {}")
            return f"be {says}, got {got}", rule
        case "string_too_short" | "string_too_long":
            says, rule = _range({"minLength": 0, **allowed}, "minLength", "maxLength", "{} to {}")
            return f"have {says} characters, got {len(value)}", f"{rule} characters"
        case "too_short" | "too_long":
            says, rule = _range({"minItems": 0, **allowed}, "minItems", "maxItems", "{} to {}")
            return f"have {says} items, got {len(value)}", f"{rule} items"
        case "literal_error" if isinstance(value, str) or "anyOf" not in schema:
            names = allowed["enum"]
            return f"be one of {', '.join(map(repr, names))}, got {got}", str(names)
        case "string_pattern_mismatch":
            return f"match {allowed['pattern']}, got {got}", allowed["pattern"]
        case _:
            types = " or ".join(sorted(types_in(schema)))
            return f"be of type {types}, got {got}", types


def _range(schema: Mapping[str, Any], low: str, high: str, both: str) -> tuple[str, str]:
    least, most = schema.get(low), schema.get(high)
    if least is None or most is None:
        only = f"at most {most}" if least is None else f"at least {least}"
        return only, only
    return both.format(least, most), f"{least}..{most}"


def _missing(field: str) -> InvalidInput:
    return InvalidInput.of(field, None, f"Field required: {field}", rule="required")


def _unknown(
    field: str, error: ErrorDetails, schema: dict[str, Any], given: dict[str, Any]
) -> InvalidInput:
    """A name that the tool does not have; the last that is reported says how many more came."""
    location = error["loc"]
    names = _schema_at(schema, location[:-1]).get("properties", {})
    owner: Any = given
    for step in location[:-1]:
        owner = owner[step]
    unknown = _first_unknown(owner, names)
    rest = len(owner) - sum(name in owner for name in names) - len(unknown)
    is_last = rest > 0 and location[-1] == _encodable(unknown[-1])
    message = f"Unknown parameter: {field}" + (f" and {rest:,} more" if is_last else "")
    rule = f"one of: {', '.join(names)}"
    return InvalidInput.of(field, error_value(error["input"]), message, rule=rule)


def _encodable(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()


def _first_unknown(owner: Mapping[str, Any], names: Collection[str]) -> list[str]:
    return list(islice((name for name in owner if name not in names), MAX_UNKNOWN))


def _schema_at(schema: dict[str, Any], location: tuple[int | str, ...]) -> dict[str, Any]:
    """The part of a JSON Schema that a value at this location is checked against."""
    for step in location:
        options = [schema, *schema.get("anyOf", ())]
        key = "items" if isinstance(step, int) else "properties"
        part: dict[str, Any] = next((option[key] for option in options if key in option), {})
        schema = part if isinstance(step, int) else part.get(step, {})
    return schema


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
