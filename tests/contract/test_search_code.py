"""``search_code`` as the contract and the documents behind it describe it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@pytest.fixture
async def indexed(app: App, make_repo: MakeRepo, project_id: str) -> AsyncIterator[str]:
    """A project with the sample application in it."""
    report = await app.index(make_repo(), project_id)
    assert report.run.status == "success"
    yield project_id


async def test_a_result_has_the_documented_fields(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="authentication function", project_id=indexed)
    first = reply["results"][0]
    ids = [first["chunk_id"], *reply["repositories"]]
    assert {uuid.UUID(identity).version for identity in ids} == {5}
    assert first["file_path"] == "src/auth.py"
    assert first["content"].startswith("# User authentication module\n")
    assert "def authenticate(user, password):" in first["content"]
    assert (first["start_line"], first["end_line"]) == (1, 14)
    assert first["context_before"] == first["context_after"] == ""
    assert first["language"] == "python"
    assert reply["total_count"] >= len(reply["results"])
    assert reply["project_id"] == indexed
    assert reply["schema_name"].startswith("project_test_")
    assert reply["project_source"] == "explicit"
    assert reply["latency_ms"] > 0
    assert reply["repositories"][first["repository_id"]]["name"] == "repo"
    index = reply["index"]
    assert (index["state"], index["files_pending"], index["files_failed"]) == ("ready", 0, 0)
    assert index["files_skipped"] == 3  # a picture, build/ and a log
    assert index["indexed_at"] is not None


async def test_the_first_result_says_where_it_is_used(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({
        "pay.py": "def charge(card):\n    return card.charge()\n",
        "back.py": "def refund(card):\n    pass\n",
        "shop.py": "from pay import charge\n\n\ndef sell(card):\n    return charge(card)\n",
        "tests/test_pay.py": "from pay import charge\n\n\ndef test_it():\n    charge(1)\n",
    })  # fmt: skip
    await app.index(root, project_id)
    reply = await call.ok("search_code", query="charge", project_id=project_id)
    [first, *others] = reply["results"]
    assert first["usage"] == {
        "how": "called",
        "places": [{"file_path": "shop.py", "line": 5, "symbol": "sell"}],
        "more": 0,
        "in_tests": 1,
        "is_all": True,
    }
    assert others
    assert not any("usage" in one for one in others)
    reply = await call.ok("search_code", query="refund", project_id=project_id)
    assert reply["results"][0]["symbol"] == "refund"
    assert "usage" not in reply["results"][0]
    one = {"query": "charge", "project_id": project_id, "limit": 1, "context_lines": 0}
    size = len(json.dumps(await call.ok("search_code", **one), separators=(",", ":")))
    small = await call.ok("search_code", **one, max_chars=size - 30)
    assert "usage" not in small["results"][0]


async def test_scores_lie_between_0_and_1_and_never_rise(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="parse json", project_id=indexed)
    scores = [result["similarity_score"] for result in reply["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


async def test_each_file_comes_once_before_any_comes_twice(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="authenticate", project_id=indexed, limit=2)
    paths = [result["file_path"] for result in reply["results"]]
    assert paths == ["src/auth.py", "tests/test_auth.py"]


async def test_the_implementation_ranks_above_its_test(call: Any, indexed: str) -> None:
    query = "authenticate refuses an empty password"
    reply = await call.ok("search_code", query=query, project_id=indexed)
    assert reply["results"][0]["file_path"] == "src/auth.py"


async def test_a_synonym_finds_the_definition(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="user login", project_id=indexed)
    assert reply["results"][0]["file_path"] == "src/auth.py"


async def test_a_query_about_something_else_finds_nothing(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="quantum entanglement algorithm", project_id=indexed)
    assert (reply["results"], reply["total_count"]) == ([], 0)


@pytest.mark.parametrize("ignored", ["authenticate_generated", "authenticate failed"])
async def test_ignored_files_are_not_found(call: Any, indexed: str, ignored: str) -> None:
    reply = await call.ok("search_code", query=ignored, project_id=indexed)
    paths = {result["file_path"] for result in reply["results"]}
    assert not paths & {"build/generated.py", "debug.log"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"file_type": "py", "directory": "src/parsers"}, {"src/parsers/"}),
        ({"directory": "src"}, {"src/"}),
        ({"directory": "src/"}, {"src/"}),
        ({"directory": "src/*"}, {"src/"}),
        ({"directory": "**/parsers"}, {"src/parsers/"}),
        ({"file_type": "TS"}, {"lib/"}),
        ({"filter": {"languages": ["typescript"]}}, {"lib/"}),
        ({"filter": {"file_extensions": [".ts"]}}, {"lib/"}),
        ({"filter": {"languages": ["Python"], "file_extensions": ["py"]}}, {"src", "tests/"}),
    ],
)
async def test_filters_restrict_the_results(
    call: Any, indexed: str, filters: dict[str, Any], expected: set[str]
) -> None:
    query = "retry backoff parse authenticate password"
    reply = await call.ok("search_code", query=query, project_id=indexed, **filters)
    paths = [result["file_path"] for result in reply["results"]]
    assert paths
    assert all(path.startswith(tuple(expected)) for path in paths)


async def test_a_directory_means_whole_segments_and_case(call: Any, indexed: str) -> None:
    for directory in ("src", "SRC", "sr", "src2"):
        reply = await call.ok(
            "search_code", query="other_parser split", project_id=indexed, directory=directory
        )
        found = {result["file_path"] for result in reply["results"]}
        assert ("src2/other.py" in found) == (directory == "src2")
        assert directory not in ("SRC", "sr") or not found


async def test_an_unknown_repository_gives_no_results(call: Any, indexed: str) -> None:
    unknown = str(uuid.uuid4())
    arguments = {"query": "authenticate", "project_id": indexed, "repository_id": unknown}
    reply = await call.ok("search_code", **arguments)
    assert (reply["results"], reply["total_count"]) == ([], 0)


async def test_total_count_does_not_depend_on_the_limit(call: Any, indexed: str) -> None:
    counts = {
        (await call.ok("search_code", query="parse", project_id=indexed, limit=limit))[
            "total_count"
        ]
        for limit in (1, 2, 50)
    }
    assert len(counts) == 1


async def test_context_lines_surround_the_chunk(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    body = "".join(f"def step_{n}():\n    return '{'x' * 900}'\n\n\n" for n in range(5))
    await app.index(make_repo({"steps.py": body}), project_id)
    arguments = {"query": "step_2", "project_id": project_id, "limit": 1}
    reply = await call.ok("search_code", **arguments, context_lines=3)
    [hit] = reply["results"]
    lines = body.splitlines(keepends=True)
    assert hit["content"] == "".join(lines[hit["start_line"] - 1 : hit["end_line"]])
    assert hit["context_before"] == "".join(lines[hit["start_line"] - 4 : hit["start_line"] - 1])
    assert hit["context_after"] == "".join(lines[hit["end_line"] : hit["end_line"] + 3])


async def test_max_chars_bounds_the_whole_reply_and_takes_context_first(
    client: Client[Any], call: Any, crowded: str
) -> None:
    arguments = {"query": "how is the session cookie signed", "project_id": crowded, "limit": 50}
    whole = await call.ok("search_code", **arguments)
    size = len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")))
    assert "truncated" not in whole
    assert "truncated" not in await call.ok("search_code", **arguments, max_chars=size + 100)
    for budget in (200, 500, 900, 2_000, 5_000, size - 200):
        result = await client.call_tool("search_code", {**arguments, "max_chars": budget})
        assert len(result.content[0].text) <= budget
        small = result.structured_content
        assert small == json.loads(result.content[0].text)
        assert small["truncated"] is True
        assert small["total_count"] == whole["total_count"]
        for ours, theirs in zip(small["results"], whole["results"], strict=False):
            assert theirs["content"].startswith(ours["content"])
            assert ours["end_line"] == ours["start_line"] + ours["content"].count("\n") - 1
    assert len(small["results"]) == len(whole["results"])
    assert small["results"][-1]["context_before"] == ""
    assert small["results"][0]["context_after"] == whole["results"][0]["context_after"]


async def test_max_chars_bounds_help_and_the_brief_form_too(
    client: Client[Any], indexed: str
) -> None:
    for arguments in (
        {"query": "museum opening hours on Sunday", "project_id": indexed},
        {"query": "authenticate user", "collection": indexed, "limit": 100},
    ):
        result = await client.call_tool("search_code", {**arguments, "max_chars": 200})
        assert len(result.content[0].text) <= 200


async def test_explain_names_the_signals(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="authenticate", project_id=indexed, explain=True)
    assert {"body", "definition"} <= reply["results"][0]["signals"].keys()


async def test_a_caller_that_names_a_collection_gets_the_brief_form(
    call: Any, indexed: str
) -> None:
    reply = await call.ok("search_code", query="authenticate user", collection=indexed, limit=100)
    assert reply.keys() == {"results", "count", "query_time_ms"}
    assert reply["results"][0].keys() == {"file", "content", "relevance_score", "line_number"}
    assert reply["count"] == len(reply["results"])
    error = await call.error("search_code", query="x", collection=indexed, limit=101)
    assert error["message"] == "Limit must be between 1 and 100, got 101"


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"query": ""}, "query", "Search query cannot be empty"),
        ({"query": " \n\t"}, "query", "Search query cannot be empty"),
        ({"query": "x", "limit": 100}, "limit", "Limit must be between 1 and 50, got 100"),
        ({"query": "x", "limit": 0}, "limit", "Limit must be between 1 and 50, got 0"),
        ({"query": "x", "limit": "ten"}, "limit", 'Limit must be of type integer, got "ten"'),
        (
            {"query": "x", "repository_id": "abc"},
            "repository_id",
            "Repository ID is not a valid UUID: abc",
        ),
        (
            {"query": "x", "file_type": ".py"},
            "file_type",
            'File type must not include a leading dot: use "py" instead of ".py"',
        ),
        (
            {"query": "x", "directory": "/src"},
            "directory",
            "Directory must be relative to the repository root, without a leading slash: /src",
        ),
        (
            {"query": "x", "directory": "d" * 501},
            "directory",
            "Directory must be at most 500 characters, got 501",
        ),
        (
            {"query": "x", "ref": " \n"},
            "ref",
            "Not a branch, a tag or a commit: ' \\n'",
        ),
        (
            {"query": "x", "context_lines": 51},
            "context_lines",
            "Context lines must be between 0 and 50, got 51",
        ),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(
    call: Any, arguments: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("search_code", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == field
    assert error["message"] == message


async def test_unknown_parameters_are_refused_by_name(call: Any) -> None:
    error = await call.error("search_code", query="x", querry="y")
    assert error["message"] == "Unknown parameter: querry"
    error = await call.error("search_code", query="x", filter={"lang": ["py"]})
    assert error["message"] == "Unknown parameter: filter.lang"
    assert error["details"]["field"] == "filter.lang"


async def test_500_characters_are_a_query_and_501_are_not(call: Any, indexed: str) -> None:
    await call.ok("search_code", query="x" * 500, project_id=indexed)
    await call.ok("search_code", query=" " + "x" * 500 + " ", project_id=indexed)
    error = await call.error("search_code", query="x" * 501, project_id=indexed)
    assert error["message"] == "Search query must be at most 500 characters, got 501"


@pytest.mark.parametrize(
    "query",
    ["'; DROP TABLE chunk; --", '"quoted"', "%s %(x)s {}", "emoji 🎉 auth", "a\0b", "\\", "{1:2}/3",
     "日本語の認証", "authenticate\nuser", "\ud800x".encode("utf-8", "replace").decode()],
)  # fmt: skip
async def test_any_query_text_is_accepted(call: Any, indexed: str, query: str) -> None:
    reply = await call.ok("search_code", query=query, project_id=indexed)
    assert reply["total_count"] >= 0


async def test_a_project_never_indexed_is_not_found(call: Any) -> None:
    error = await call.error("search_code", query="x", project_id="never-indexed")
    assert (error["code"], error["type"]) == ("PROJECT_NOT_FOUND", "NotFound")
    assert error["message"] == "Project has not been indexed or does not exist"
    assert "index_repository" in error["hint"]


async def test_a_whole_number_may_be_written_as_a_fraction_of_zero(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="parse", project_id=indexed, limit=1.0)
    assert len(reply["results"]) == 1


async def test_an_object_written_as_text_is_understood(call: Any, indexed: str) -> None:
    wanted = '{"languages": ["rust"]}'
    reply = await call.ok("search_code", query="parse", project_id=indexed, filter=wanted)
    assert not reply["results"]


@pytest.fixture
async def crowded(app: App, make_repo: MakeRepo, project_id: str) -> str:
    """One long file about sessions among short ones that mention them."""
    methods = "".join(
        f"    def session_{what}(self, session):\n"
        f'        """Sign the session cookie: {what}."""\n'
        f"        return self.signer.{what}(session, {'x' * 600!r})\n\n"
        for what in ("open", "save", "load", "refresh", "expire", "rotate", "delete", "verify")
    )
    files = {"src/sessions.py": f"class SessionStore:\n{methods}"}
    files |= {f"src/app{n}.py": f"def view_{n}(session):\n    return {n}\n" for n in range(3)}
    await app.index(make_repo(files), project_id)
    return project_id


@pytest.mark.parametrize("query", ["how is the session cookie signed", "session", "SessionStore"])
async def test_a_place_has_one_score_stands_where_it_puts_it_and_comes_once(
    call: Any, crowded: str, query: str
) -> None:
    scores: dict[tuple[str, int], set[float]] = {}
    for limit in (1, 3, 5, 10, 50):
        reply = await call.ok("search_code", query=query, project_id=crowded, limit=limit)
        results = reply["results"]
        assert len(results) == min(limit, reply["total_count"])
        listed = [(r["file_path"], r["start_line"], r["similarity_score"]) for r in results]
        assert [score for *_, score in listed] == sorted((s for *_, s in listed), reverse=True)
        listed += [
            (result["file_path"], place["start_line"], place["score"])
            for result in results
            for place in result.get("more_in_file", ())
        ]
        assert len({place[:2] for place in listed}) == len(listed)
        for path, line, score in listed:
            scores.setdefault((path, line), set()).add(score)
    assert all(len(of_place) == 1 for of_place in scores.values())
    assert len(scores) > 5
