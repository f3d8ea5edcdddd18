"""What each operation of ``memory`` takes and refuses, in which words."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolsets() -> list[str]:
    return ["memory"]


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        (
            {"operation": "forget"},
            "operation",
            "Operation must be one of 'store', 'search', 'timeline', 'get', 'inject', "
            'got "forget"',
        ),
        ({}, "operation", "Field required: operation"),
        (
            {"operation": "store", "observation_type": "Insight"},
            "content",
            "Field required: content",
        ),
        (
            {"operation": "store", "content": "x"},
            "observation_type",
            "Field required: observation_type",
        ),
        (
            {"operation": "store", "content": " \n", "observation_type": "Insight"},
            "content",
            "Content cannot be empty",
        ),
        (
            {"operation": "store", "content": "x" * 20_001, "observation_type": "Insight"},
            "content",
            "Content must have 1 to 20000 characters, got 20001",
        ),
        (
            {"operation": "store", "content": "x\0", "observation_type": "Insight"},
            "content",
            "content must be valid Unicode without NUL characters",
        ),
        (
            {"operation": "store", "content": 5, "observation_type": "Insight"},
            "content",
            "Content must be of type null or string, got 5",
        ),
        (
            {"operation": "store", "content": "x", "observation_type": "insight"},
            "observation_type",
            "Observation type must be one of 'Decision', 'Execution', 'Summary', 'Insight', "
            "'Pattern', got \"insight\"",
        ),
        ({"operation": "search"}, "query", "Field required: query"),
        ({"operation": "search", "query": " "}, "query", "Search query cannot be empty"),
        (
            {"operation": "search", "query": "x" * 501},
            "query",
            "Search query must be at most 500 characters, got 501",
        ),
        (
            {"operation": "search", "query": "x", "limit": 101},
            "limit",
            "Limit must be between 1 and 100, got 101",
        ),
        (
            {"operation": "search", "query": "x", "limit": 0},
            "limit",
            "Limit must be between 1 and 100, got 0",
        ),
        (
            {"operation": "search", "query": "x", "detail": "brief"},
            "detail",
            "Detail must be one of 'full', 'preview', got \"brief\"",
        ),
        (
            {"operation": "search", "query": "x", "tags": ["t"] * 21},
            "tags",
            "Tags must have 0 to 20 items, got 21",
        ),
        (
            {"operation": "search", "query": "x", "tags": ["ok", " "]},
            "tags.1",
            "Tags.1 cannot be empty",
        ),
        (
            {"operation": "search", "query": "x", "tags": ["t" * 101]},
            "tags.0",
            "Tags.0 must have 1 to 100 characters, got 101",
        ),
        (
            {"operation": "search", "query": "x", "tags": ["t" * 101, 1]},
            "tags.0",
            "Tags.0 must have 1 to 100 characters, got 101",
        ),
        (
            {"operation": "search", "query": "x", "tags": [1, "t" * 101]},
            "tags.0",
            "tags.0 must be of type string, got 1",
        ),
        (
            {"operation": "search", "query": "x", "session_id": "s" * 201},
            "session_id",
            "Session id must have 1 to 200 characters, got 201",
        ),
        (
            {"operation": "timeline", "anchor_id": "abc"},
            "anchor_id",
            "Observation ID is not a valid UUID: abc",
        ),
        (
            {"operation": "timeline", "depth_before": 51},
            "depth_before",
            "Depth before must be between 0 and 50, got 51",
        ),
        (
            {"operation": "timeline", "depth_after": -1},
            "depth_after",
            "Depth after must be between 0 and 50, got -1",
        ),
        ({"operation": "get"}, "ids", "Field required: ids"),
        ({"operation": "get", "ids": []}, "ids", "Ids must be 1 to 100, got 0"),
        ({"operation": "get", "ids": ["x"] * 101}, "ids", "Ids must be 1 to 100, got 101"),
        (
            {"operation": "get", "ids": ["abc"]},
            "ids.0",
            "Observation ID is not a valid UUID: abc",
        ),
        (
            {"operation": "inject", "max_tokens": 0},
            "max_tokens",
            "Max tokens must be between 1 and 100000, got 0",
        ),
        (
            {"operation": "inject", "max_tokens": 100_001},
            "max_tokens",
            "Max tokens must be between 1 and 100000, got 100001",
        ),
        (
            {"operation": "store", "content": "x", "observation_type": "Insight", "anchors": [{}]},
            "anchors.0",
            "An anchor must name a file, a symbol or a commit",
        ),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(
    call: Any, arguments: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("memory", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("arguments", "field", "takes"),
    [
        (
            {"operation": "store", "content": "x", "observation_type": "Insight", "limit": 10},
            "limit",
            "store takes: content, observation_type, tags, session_id, anchors, detail",
        ),
        (
            {"operation": "search", "query": "x", "content": "y"},
            "content",
            "search takes: query, tags, observation_type, session_id, limit, detail",
        ),
        (
            {"operation": "timeline", "query": "x"},
            "query",
            "timeline takes: anchor_id, depth_before, depth_after, session_id, detail",
        ),
        ({"operation": "get", "ids": [str(uuid.uuid4())], "tags": ["x"]}, "tags", "get takes: ids"),
        (
            {"operation": "inject", "anchors": [{"file": "a.py"}]},
            "anchors",
            "inject takes: session_id, query, tags, max_tokens",
        ),
    ],
)
async def test_a_parameter_of_another_operation_is_refused(
    call: Any, arguments: dict[str, Any], field: str, takes: str
) -> None:
    error = await call.error("memory", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    operation = arguments["operation"]
    assert error["message"] == f"{field} is not a parameter of the operation {operation}"
    assert (error["details"]["field"], error["details"]["constraint"]) == (field, takes)


async def test_all_problems_of_an_operation_are_named_together(call: Any) -> None:
    error = await call.error("memory", operation="store", limit=5, query="y")
    assert error["message"] == "Parameter validation failed"
    fields = [problem["field"] for problem in error["details"]["fields"]]
    assert sorted(fields) == ["content", "limit", "observation_type", "query"]
