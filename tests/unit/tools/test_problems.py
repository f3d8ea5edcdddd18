"""Whether an error names the place that is wrong, the value there and the rule, and stays short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.catalog import all_tools

LONG = "x" * 2_000_000
UNKNOWN = {f"unknown_{number}": LONG[:3] for number in range(100_000)}
DEEP: list[Any] = []
for _ in range(800):
    DEEP = [DEEP]


def refusal(tool: str, arguments: dict[str, Any]) -> InvalidInput:
    """The error with which a tool refuses these arguments."""
    spec = next(spec for spec in all_tools() if spec.name == tool)
    with pytest.raises(InvalidInput) as caught:
        spec.arguments.checked(arguments)
    return caught.value


@pytest.mark.parametrize(
    ("tool", "given", "field", "value", "message"),
    [
        (
            "search_code",
            {"filter": {"languages": "python"}},
            "filter.languages",
            "python",
            'filter.languages must be of type array or null, got "python"',
        ),
        (
            "search_code",
            {"filter": {"languages": ["python", 1]}},
            "filter.languages.1",
            1,
            "filter.languages.1 must be of type string, got 1",
        ),
        (
            "search_code",
            {"filter": "python"},
            "filter",
            "python",
            'Filter must be of type null or object, got "python"',
        ),
        (
            "search_code",
            {"max_chars": 10},
            "max_chars",
            10,
            "Max chars must be between 200 and 10000000, got 10",
        ),
        (
            "create_task",
            {"planning_references": [1]},
            "planning_references.0",
            1,
            "planning_references.0 must be of type string, got 1",
        ),
        (
            "create_task",
            {"anchors": [{"file": "a.py"}, {"file": 5}]},
            "anchors.1.file",
            5,
            "anchors.1.file must be of type null or string, got 5",
        ),
        (
            "create_task",
            {"anchors": ["a.py"]},
            "anchors.0",
            "a.py",
            'anchors.0 must be of type object, got "a.py"',
        ),
        (
            "create_task",
            {"anchors": [{"file": "a.py", "line": 3}]},
            "anchors.0.line",
            3,
            "Unknown parameter: anchors.0.line",
        ),
        (
            "create_task",
            {"anchors": [{"commit": "main"}]},
            "anchors.0.commit",
            "main",
            'anchors.0.commit must match ^[a-f0-9]{40}$, got "main"',
        ),
        (
            "memory",
            {"ids": [7]},
            "ids.0",
            7,
            "ids.0 must be of type string, got 7",
        ),
    ],
)
def test_an_error_names_the_place_inside_arrays_and_objects(
    tool: str, given: dict[str, Any], field: str, value: object, message: str
) -> None:
    needed = {"query": "q"} if tool == "search_code" else {"title": "t"}
    needed = {"operation": "get"} if tool == "memory" else needed
    error = refusal(tool, {**needed, **given})
    assert error.message == message
    assert (error.details["field"], error.details["value"]) == (field, value)
    assert error.details["constraint"]


def test_several_wrong_places_of_one_parameter_are_told_at_once() -> None:
    given = {"query": "q", "filter": {"languages": 1, "lang": 2, "file_extensions": [3]}}
    fields = refusal("search_code", given).details["fields"]
    assert {problem["field"] for problem in fields} == {
        "filter.languages", "filter.lang", "filter.file_extensions.0",
    }  # fmt: skip


def test_of_many_unknown_parameters_a_few_are_named_and_the_rest_counted() -> None:
    for given, place in (({**UNKNOWN, "query": "q"}, ""), ({"query": "q", "filter": UNKNOWN}, "f")):
        fields = refusal("search_code", given).details["fields"]
        prefix = "filter." if place else ""
        assert [problem["field"] for problem in fields] == [
            f"{prefix}unknown_{number}" for number in range(5)
        ]
        assert fields[-1]["message"] == f"Unknown parameter: {prefix}unknown_4 and 99,995 more"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("search_code", UNKNOWN),
        ("search_code", {LONG: 1}),
        ("search_code", {f"{number}{LONG[:200_000]}": LONG[:200_000] for number in range(9)}),
        ("search_code", {"filter": UNKNOWN}),
        ("search_code", {"filter": {LONG: 1}}),
        ("search_code", {"query": "q", "filter": {"languages": [1] * 100_000}}),
        ("search_code", {"query": "q", "filter": {"languages": [""] * 100_000}}),
        ("create_task", {"title": "t", "anchors": [{}] * 100_000}),
        ("search_code", {"filter": LONG}),
        ("search_code", {"filter": [LONG]}),
        ("search_code", {"filter": DEEP}),
        ("search_code", {"query": UNKNOWN, "limit": LONG, "ref": LONG, "explain": UNKNOWN}),
        ("search_code", {"project_id": LONG, "repository_id": LONG, "directory": LONG}),
        ("search_code", {"file_type": LONG, "query": LONG}),
        ("search_code", {"project_id": "a", "collection": LONG}),
        ("create_task", {"anchors": [UNKNOWN] * 3, "title": LONG, "planning_references": LONG}),
        ("create_task", {"anchors": [LONG] * 20, "title": "t"}),
        ("create_task", {"anchors": [{"file": LONG, "commit": LONG}], "title": "\ud800"}),
        ("memory", {"operation": LONG}),
        ("memory", {"operation": "store", "tags": [LONG, "\0"], "ids": [LONG] * 100}),
        ("create_entity", {"entity_type": "T", "name": "n", "data": {LONG + "\0": "\0"}}),
        ("create_project", {"name": LONG, "project_id": "日本" * 100_000}),
        ("index_repository", {"repo_path": LONG}),
    ],
)
def test_an_error_is_short_whatever_was_sent(tool: str, given: dict[str, Any]) -> None:
    error = refusal(tool, given).as_dict()
    assert len(json.dumps(error, ensure_ascii=False).encode()) < 4_096
    assert error["code"] == "VALIDATION_ERROR"


def test_what_is_left_out_of_an_error_is_counted() -> None:
    problems = [{"field": f"line {number}", "message": "m" * 100} for number in range(50)]
    details = InvalidInput("Wrong", details={"fields": problems}).as_dict()["details"]
    assert details["fields"] == problems[: len(details["fields"])]
    assert 0 < len(details["fields"]) == 50 - details["fields_left_out"]
    schema = {"properties": {f"p{number}": {} for number in range(1_000)}}
    error = InvalidInput("Wrong", details={"field": "data", "schema": schema, "value": "x" * 900})
    assert error.as_dict()["details"] == {"field": "data", "value": "x" * 597 + "..."}


def test_every_list_that_clients_may_send_has_a_limit() -> None:
    """So that a list of a million entries is refused before it is looked through."""
    parts: list[Any] = [tool.input_schema() for tool in all_tools()]
    lists = 0
    while parts:
        part = parts.pop()
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and part.get("type") == "array":
            lists += 1
            assert "maxItems" in part, part
    assert lists > 10


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_has_not_is_repeated_as_text(number: float) -> None:
    error = refusal("search_code", {"query": "x", "limit": number}).as_dict()
    assert error["details"]["value"] == str(number)
    json.dumps(error, allow_nan=False)
