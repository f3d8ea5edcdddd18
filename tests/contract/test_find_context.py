"""The tool ``find_context``, as a client calls it; which files it finds is tested elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
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
class Retry:
    def wait(self):
        \"\"\"Wait before the next attempt, for twice as long as before it.\"\"\"
        self.delay = min(2 * self.delay, MAX_DELAY)
        return self.delay
""",
    "src/client.py": "def fetch(url):\n    retry = Retry()\n    return retry.wait()\n",
    "tests/test_retry.py": "def test_wait():\n    assert Retry().wait()\n",
    "docs/guide.md": "# Guide\n\nRetry.wait waits before the next attempt.\n",
}
TASK = "Retry.wait waits too long before the next attempt"


@pytest.fixture
def toolsets() -> list[str]:
    return ["find"]


@pytest.fixture
async def indexed(app: App, make_repo: Callable[..., Path], project_id: str) -> str:
    await app.index(make_repo(FILES), project_id)
    return project_id


async def test_files_have_a_role_a_probability_reasons_and_definitions(
    call: Caller, indexed: str
) -> None:
    reply = await call.ok("find_context", task=TASK, project_id=indexed, given=[])
    files = {file["file_path"]: file for file in reply["files"]}
    assert "src/retry.py" in files
    assert files.keys() <= FILES.keys()
    for file in reply["files"]:
        assert file["role"] in {"change", "read", "test"}
        assert 0 <= file["probability"] <= 1
        assert all(file["reasons"])
        lines = FILES[file["file_path"]].count("\n")
        for definition in file.get("definitions", ()):
            assert 1 <= definition["start_line"] <= definition["end_line"] <= lines
    assert files["src/retry.py"]["language"] == "python"
    assert reply["total_count"] >= len(files)
    assert reply["index"]["state"] == "ready"
    assert (reply["project_id"], reply["project_source"]) == (indexed, "explicit")
    assert reply["scope"]["kind"] == "workspace"
    assert "truncated" not in reply


async def test_only_the_roles_that_are_wanted(call: Caller, indexed: str) -> None:
    reply = await call.ok("find_context", task=TASK, want=["test", "test"], project_id=indexed)
    assert {file["role"] for file in reply["files"]} <= {"test"}


async def test_what_is_given_is_not_listed_and_what_is_unknown_is_named(
    call: Caller, indexed: str, tmp_path: Path
) -> None:
    whole = str(tmp_path / "repo" / "src" / "client.py")
    given = ["src/retry.py:2-3", whole, "src/gone.py:7"]
    reply = await call.ok("find_context", task=TASK, given=given, project_id=indexed)
    paths = [file["file_path"] for file in reply["files"]]
    assert not {"src/retry.py", "src/client.py"} & set(paths)
    assert reply["given_unknown"] == ["src/gone.py:7"]


async def test_the_limit_is_of_files(call: Caller, indexed: str) -> None:
    reply = await call.ok("find_context", task=TASK, limit=1, project_id=indexed)
    assert len(reply["files"]) == 1
    assert reply["total_count"] >= 1


async def test_content_is_cut_before_files(call: Caller, indexed: str) -> None:
    asked = {"task": TASK, "project_id": indexed}
    whole = await call.ok("find_context", **asked)
    fewer = await call.ok("find_context", **asked, max_chars=size(whole) - 50)
    assert fewer["truncated"] is True
    assert len(fewer["files"]) == len(whole["files"])
    assert "content" not in str(fewer["files"][-1])
    least = await call.ok("find_context", **asked, max_chars=200)
    assert (least["files"], least["truncated"]) == ([], True)
    for most in range(600, size(whole), 97):
        assert size(await call.ok("find_context", **asked, max_chars=most)) <= most


def size(reply: dict[str, Any]) -> int:
    return len(json.dumps(reply, ensure_ascii=False, separators=(",", ":")))


async def test_an_unknown_repository_has_no_files(call: Caller, indexed: str) -> None:
    reply = await call.ok("find_context", task=TASK, project_id=indexed, repository_id=str(uuid4()))
    assert (reply["files"], reply["total_count"]) == ([], 0)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "task"),
        ({"task": " \n"}, "task"),
        ({"task": "x" * 50_001}, "task"),
        ({"task": "a", "given": "src/a.py"}, "given"),
        ({"task": "a", "given": [" "]}, "given.0"),
        ({"task": "a", "given": ["a"] * 101}, "given"),
        ({"task": "a", "want": ["write"]}, "want.0"),
        ({"task": "a", "limit": 101}, "limit"),
        ({"task": "a", "max_chars": 199}, "max_chars"),
        ({"task": "a", "ref": "no-such-branch"}, "ref"),
        ({"task": "a", "repository_id": "one"}, "repository_id"),
    ],
)
async def test_wrong_arguments_are_named(
    call: Caller, indexed: str, arguments: dict[str, Any], field: str
) -> None:
    error = await call.error("find_context", project_id=indexed, **arguments)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)


async def test_a_task_may_be_long(call: Caller, indexed: str) -> None:
    lines = "\n".join(f'  File "/home/me/repo/src/retry.py", line {n}, in wait' for n in range(900))
    assert await call.ok("find_context", task=f"{TASK}\n{lines}", project_id=indexed)


class TestText:
    """The same for a coding agent."""

    @pytest.fixture
    def settings(self, settings: Any) -> Any:
        return replace(settings, replies="text")

    @staticmethod
    async def ask(client: Client[Any], **options: Any) -> str:
        reply = await client.call_tool("find_context", {"task": TASK, **options})
        return str(reply.content[0].text)

    async def test_each_file_has_a_line_and_the_first_one_code(
        self, client: Client[Any], indexed: str
    ) -> None:
        text = await self.ask(client, project_id=indexed, given=["src/gone.py"])
        lines = text.splitlines()
        assert lines[0] == "Not in the index: src/gone.py."
        assert lines[1].startswith("1. repo/")
        assert any("def wait(self):" in line for line in lines)
        assert len(text) <= 4_000

    @pytest.mark.parametrize("max_chars", [200, 300, 500, 800])
    async def test_what_does_not_fit_is_counted(
        self, client: Client[Any], indexed: str, max_chars: int
    ) -> None:
        text = await self.ask(client, project_id=indexed, max_chars=max_chars)
        assert len(text) <= max_chars
        assert text.startswith("1. repo/")
        shown = sum(f"repo/{path}" in text for path in FILES)
        assert shown == len(FILES) or "more (max_chars): " in text
