"""Are these arguments what the tool's published schema asks for?

One check for all tools: aliases become canonical names, unknown names are refused, every value is
held against the schema that clients see, and all problems are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.limits import Rule
from codebase_mcp.tools.problems import error_value, problems_in, type_of, types_in
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
    problems += problems_in("", _only_names(schema), given)
    checked: dict[str, Any] = {}
    for name in [name for name in given if name in properties]:
        rule, value = rules.get(name), _unquoted(properties[name], given[name])
        wrong = problems_in(name, type_of(properties[name]) if rule else properties[name], value)
        try:
            checked[name] = value if wrong else _checked_value(name, value, rule)
        except InvalidInput as problem:
            wrong = [problem]
        problems += wrong
    if problems:
        raise combined(problems)
    return checked


def aliases_in(properties: Collection[str]) -> dict[str, str]:
    """The other names of a tool's parameters; its own name of one may be an alias elsewhere."""
    # Where two of them are such names, the first is meant by the others.
    own = {ALIASES.get(name, name): name for name in reversed([*properties])}
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
                    error_value(value),
                    f"{name} is given twice, under two names and with different values",
                    rule="one value",
                    hint=f"Pass only {name}.",
                )
            )
        given[name] = value
    return given


def parsed(schema: Mapping[str, Any], value: Any) -> Any:
    """What a text is as JSON, where the schema does not ask for a text."""
    if not isinstance(value, str) or "string" in types_in(schema):
        return value
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(content, str) else content


def _unquoted(schema: Mapping[str, Any], value: Any) -> Any:
    """A list or an object that a client wrote as text, as what it is.

    Claude Code does so at times (anthropics/claude-code#93179), never with numbers and booleans.
    """
    content = parsed(schema, value)
    return content if isinstance(content, list | dict) else value


def _only_names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema says about which parameters there are."""
    names = dict.fromkeys(schema.get("properties", ()), True)
    return {**schema, "properties": names, "additionalProperties": False}


def _checked_value(name: str, value: Any, rule: Rule | None) -> Any:
    """The value to use in place of one that the schema allows; null needs no rule."""
    if rule is not None and value is not None:
        fitting = rule(value, name)
        if isinstance(value, str):  # NUL is for the rule to judge
            require_storable(name, value.replace("\0", ""))
        return fitting
    require_storable(name, value)
    return value


def combined(problems: list[InvalidInput]) -> InvalidInput:
    """The one problem, or all of them in one error."""
    if len(problems) == 1:
        return problems[0]
    fields = [
        {**problem.details, "message": problem.message}
        | ({"hint": problem.hint} if problem.hint else {})
        for problem in problems
    ]
    return InvalidInput("Parameter validation failed", details={"fields": fields})
