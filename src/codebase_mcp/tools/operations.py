"""Which parameters does this operation of a tool take?

A tool with operations has one schema, in which only ``operation`` is required; what each of them
needs and takes is checked here, with the same messages as the other checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.arguments import combined
from codebase_mcp.tools.problems import error_value
from codebase_mcp.tools.toolset import Arguments

_OF_ALL = frozenset({"operation", "project_id", "collection"})


@dataclass(frozen=True, slots=True)
class Operation:
    """The parameters that an operation must have, and those that it may have."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.required + self.optional


def check_operation(operations: Mapping[str, Operation], name: str, arguments: Arguments) -> None:
    """See that an operation has what it needs and no other parameter; null counts as absent.

    Raises:
        InvalidInput: with the one problem, or with all of them under ``details.fields``.
    """
    operation = operations[name]
    values = arguments.model_dump(mode="json", include=arguments.model_fields_set)
    given = {field: value for field, value in values.items() if value is not None}
    problems = [
        InvalidInput.of(field, None, f"Field required: {field}", rule="required")
        for field in operation.required
        if field not in given
    ]
    takes = ", ".join(operation.parameters)
    problems += [
        InvalidInput.of(
            field,
            error_value(value),
            f"{field} is not a parameter of the operation {name}",
            rule=f"{name} takes: {takes}",
            hint=f"Leave {field} out.",
        )
        for field, value in given.items()
        if field not in _OF_ALL and field not in operation.parameters
    ]
    if problems:
        raise combined(problems)
