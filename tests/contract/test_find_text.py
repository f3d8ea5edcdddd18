"""The tool ``find_text``, as a client calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastmcp import Client
from tests.contract.conftest import Caller

from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio

FILES = {
    "src/retry.py": """\
MAX_RETRIES = 5


class Retry:
    def wait(self):
        if self.count > MAX_RETRIES:
            raise TimeoutError
        self.count = min(self.count, MAX_RETRIES)
        return self.count > MAX_RETRIES
""",
    "src/same.py": "def f():\n    go(MAX_RETRIES)\n    go(MAX_RETRIES)\n",
    "tests/test_retry.py": "def test_it():\n    assert MAX_RETRIES\n",
    "docs/guide.md": "# Guide\n\nSet `MAX_RETRIES`.\n",
}


@pytest.fixture
def toolsets() -> list[str]:
    return ["find"]


@pytest.fixture
async def indexed(app: App, make_repo: Callable[..., Path], project_id: str) -> str:
    await app.index(make_repo(FILES), project_id)
    return project_id


async def test_lines_are_grouped_by_file_with_their_definition(call: Caller, indexed: str) -> None:
    reply = await call.ok("find_text", pattern="MAX_RETRIES", project_id=indexed)
    assert (reply["total_count"], reply["files_count"]) == (8, 4)
    assert [result["file_path"] for result in reply["results"]] == list(FILES)
    first = reply["results"][0]
    assert (first["count"], first["file_kind"], first["language"]) == (4, "code", "python")
    assert first["matches"][0] == {
        "line": 1,
        "text": "MAX_RETRIES = 5",
        "symbol": "MAX_RETRIES",
        "symbol_lines": [1, 1],
        "is_definition": True,
    }
    assert first["matches"][1]["symbol"] == "Retry.wait"
    assert reply["index"]["state"] == "ready"
    assert reply["project_id"] == indexed


async def test_filters_regex_and_context(call: Caller, indexed: str) -> None:
    reply = await call.ok(
        "find_text",
        pattern=r"> max_\w+$",
        regex=True,
        ignore_case=True,
        kinds=["code"],
        file_type="py",
        directory="src",
        context_lines=1,
        project_id=indexed,
    )
    [result] = reply["results"]
    assert [match["line"] for match in result["matches"]] == [9]
    assert sorted(map(int, result["context"])) == [8, 9]


async def test_counts_alone(call: Caller, indexed: str) -> None:
    counts = await call.ok("find_text", pattern="MAX_RETRIES", count_only=True, project_id=indexed)
    assert counts["by_folder"] == {"src": 6, "tests": 1, "docs": 1}
    assert counts["results"] == []
    files = await call.ok("find_text", pattern="MAX_RETRIES", files_only=True, project_id=indexed)
    assert [(r["file_path"], r["count"], "matches" in r) for r in files["results"]] == [
        ("src/retry.py", 4, False),
        ("src/same.py", 2, False),
        ("tests/test_retry.py", 1, False),
        ("docs/guide.md", 1, False),
    ]


@pytest.mark.parametrize("options", [{"limit": 3}, {"max_chars": 1_100}])
async def test_what_is_cut_is_said(call: Caller, indexed: str, options: dict[str, int]) -> None:
    reply = await call.ok("find_text", pattern="MAX_RETRIES", project_id=indexed, **options)
    assert (reply["truncated"], reply["total_count"]) == (True, 8)
    assert sum(len(result["matches"]) for result in reply["results"]) < 8


@pytest.mark.parametrize("ref", [None, "HEAD"])
async def test_an_unknown_repository_has_no_matches(
    call: Caller, indexed: str, ref: str | None
) -> None:
    arguments = {"pattern": "Retry", "project_id": indexed, "repository_id": str(uuid4())}
    reply = await call.ok("find_text", **arguments, **({"ref": ref} if ref else {}))
    assert (reply["results"], reply["total_count"]) == ([], 0)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"pattern": ""}, "pattern"),
        ({"pattern": "x" * 1_001}, "pattern"),
        ({"pattern": "(", "regex": True}, "pattern"),
        ({"pattern": "a", "kinds": ["module"]}, "kinds.0"),
        ({"pattern": "a", "limit": 501}, "limit"),
        ({"pattern": "a", "directory": "/abs"}, "directory"),
        ({"pattern": "a", "ref": "no-such-branch"}, "ref"),
    ],
)
async def test_wrong_arguments_are_named(
    call: Caller, indexed: str, arguments: dict[str, Any], field: str
) -> None:
    error = await call.error("find_text", project_id=indexed, **arguments)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)


class TestText:
    """The same for a coding agent."""

    @pytest.fixture
    def settings(self, settings: Any) -> Any:
        from dataclasses import replace  # noqa: PLC0415

        return replace(settings, replies="text")

    @staticmethod
    async def ask(client: Client[Any], pattern: str, **options: Any) -> str:
        reply = await client.call_tool("find_text", {"pattern": pattern, **options})
        return str(reply.content[0].text)

    async def test_a_definition_is_a_line_and_what_repeats_is_folded(
        self, client: Client[Any], indexed: str
    ) -> None:
        assert (
            await self.ask(client, "MAX_RETRIES", project_id=indexed)
            == """\
MAX_RETRIES: 8 lines in 4 files
repo/src/retry.py
  1  MAX_RETRIES = 5  (defined here)
  Retry.wait 5-9:
    6  if self.count > MAX_RETRIES:
    8  self.count = min(self.count, MAX_RETRIES)
    9  return self.count > MAX_RETRIES
repo/src/same.py
  f 1-3: 2, 3  go(MAX_RETRIES)
tests: 1 in repo/tests/test_retry.py
docs: 1 in repo/docs/guide.md"""
        )

    async def test_tests_are_shown_where_nothing_else_matches(
        self, client: Client[Any], indexed: str
    ) -> None:
        assert (
            await self.ask(client, "assert", project_id=indexed)
            == """\
assert: 1 line in 1 file
repo/tests/test_retry.py
  test_it 1-2: 2  assert MAX_RETRIES"""
        )

    async def test_nothing_says_what_to_try(self, client: Client[Any], indexed: str) -> None:
        assert await self.ask(client, r"MAX_\w+S", project_id=indexed) == (
            "MAX_\\w+S: no line matches\nFor a regular expression pass regex=true."
        )

    async def test_what_does_not_fit_is_counted(self, client: Client[Any], indexed: str) -> None:
        text = await self.ask(client, "MAX_RETRIES", project_id=indexed, max_chars=300)
        assert text.splitlines()[1:3] == [
            "repo/src/retry.py: MAX_RETRIES 1; Retry.wait 6,8,9",
            "repo/src/same.py: f 2,3",
        ]
        text = await self.ask(client, "MAX_RETRIES", project_id=indexed, max_chars=200)
        assert len(text) <= 200
        assert "more (max_chars): 2 in repo/src/ (1 file)" in text
        text = await self.ask(client, "MAX_RETRIES", project_id=indexed, limit=2)
        assert "MAX_RETRIES = 5" in text
        assert "more (limit): 4 in repo/src/ (2 files)" in text
        assert await self.ask(client, "MAX_RETRIES", project_id=indexed, count_only=True) == (
            "MAX_RETRIES: 8 lines in 4 files\n"
            "6 in repo/src/ (2 files), 1 in repo/tests/ (1 file), 1 in repo/docs/ (1 file)"
        )
