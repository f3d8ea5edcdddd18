"""``index_repository`` as the contract and the documents behind it describe it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.index.batches import BATCH_FILES

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
FILES = 2 * BATCH_FILES + 1


async def test_a_first_run_answers_with_the_documented_fields(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    reply = await call.ok("index_repository", repo_path=str(make_repo()), project_id=project_id)
    uuid.UUID(reply["repository_id"])
    assert reply["status"] == "success"
    assert reply["files_indexed"] == 8
    assert reply["chunks_created"] >= 8
    assert reply["duration_seconds"] > 0
    assert reply["project_id"] == project_id
    assert reply["schema_name"] == "project_" + project_id.replace("-", "_")
    assert reply["project_source"] == "explicit"
    assert reply["files_unchanged"] == reply["files_removed"] == 0
    assert reply["files_skipped"]["binary"] == 1
    assert "errors" not in reply


async def test_the_default_workspace_replies_with_a_null_project(
    call: Any, make_repo: MakeRepo
) -> None:
    for arguments in ({}, {"project_id": "default"}, {"project_id": None}):
        reply = await call.ok("index_repository", repo_path=str(make_repo()), **arguments)
        assert reply["project_id"] is None
        assert reply["schema_name"] == "project_default"


async def test_the_same_path_has_the_same_id_for_ever(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    arguments = {"repo_path": str(make_repo()), "project_id": project_id}
    first = await call.ok("index_repository", **arguments)
    again = await call.ok("index_repository", **arguments, force_reindex=True)
    assert again["repository_id"] == first["repository_id"]
    assert again["files_indexed"] == first["files_indexed"]


async def test_a_source_file_that_is_not_text_makes_the_run_partial(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(
        {
            "good.py": "x = 1\n",
            "binary.py": b"\0\1\2",
            "large.json": "[" + "1," * 600_000 + "1]",
            "noise.c": bytes(range(1, 256)),
        }
    )
    reply = await call.ok("index_repository", repo_path=str(root), project_id=project_id)
    assert reply["status"] == "partial"
    assert reply["files_indexed"] == 1
    assert reply["errors"] == [
        "Failed to process binary.py: Binary file not supported",
        "Failed to process large.json: File exceeds size limit",
        "Failed to process noise.c: File is not valid UTF-8",
    ]


@pytest.mark.parametrize("written", ["repo_path", "path", "repository_path"])
async def test_the_names_of_the_older_documents_are_accepted(
    call: Any, make_repo: MakeRepo, project_id: str, written: str
) -> None:
    arguments = {written: str(make_repo()), "collection": project_id}
    reply = await call.ok("index_repository", **arguments, name="My Application")
    assert reply["project_id"] == project_id


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "Repository path cannot be empty"),
        ("relative/path", "Repository path must be absolute: relative/path"),
        ("/nonexistent/path", "Repository path does not exist: /nonexistent/path"),
        ("/" + "x" * 4096, "Repository path must be at most 4096 characters"),
        ("/tmp/a\0b", "Repository path must not hold a NUL character"),
    ],
)
async def test_a_bad_path_is_refused_with_the_documented_message(
    call: Any, path: str, message: str
) -> None:
    error = await call.error("index_repository", repo_path=path)
    assert (error["code"], error["type"]) == ("VALIDATION_ERROR", "InvalidInput")
    assert error["message"] == message
    assert error["details"]["field"] == "repo_path"
    assert error["details"]["jsonrpc_code"] == -32602


@pytest.mark.parametrize("path", ["~/shop", ".", "src/shop"])
async def test_an_incomplete_path_is_refused_without_guessing(call: Any, path: str) -> None:
    error = await call.error("index_repository", repo_path=path)
    assert error["hint"] == "Pass the whole path, from / on: ~ and . mean nothing here."


async def test_a_path_of_a_file_is_refused(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("x = 1\n")
    error = await call.error("index_repository", repo_path=str(file))
    assert error["message"] == f"Repository path must be a directory: {file}"


@pytest.mark.parametrize(
    "project", ["My_Project", "-a", "a-", "a--b", "a b", "", "x" * 51, "é", "a_-b"]
)
async def test_a_bad_project_id_is_refused_with_a_valid_one_as_hint(
    call: Any, make_repo: MakeRepo, project: str
) -> None:
    arguments = {"repo_path": str(make_repo()), "project_id": project}
    error = await call.error("index_repository", **arguments)
    assert error["message"] == (
        "Invalid project_id: Project identifier must be lowercase alphanumeric with hyphens or "
        "underscores"
    )
    assert error["details"]["field"] == "project_id"


async def test_two_ids_of_one_schema_do_not_share_it(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    root = str(make_repo())
    await call.ok("index_repository", repo_path=root, project_id=project_id)
    twin = project_id.replace("-", "_")
    error = await call.error("index_repository", repo_path=root, project_id=twin)
    assert error["code"] == "CONFLICT"


async def test_all_problems_are_reported_at_once(call: Any) -> None:
    error = await call.error("index_repository", repo_path="rel", project_id="Bad!", nmae="x")
    assert error["message"] == "Parameter validation failed"
    fields = {field["field"] for field in error["details"]["fields"]}
    assert fields == {"repo_path", "project_id", "nmae"}


async def test_an_alias_with_another_value_is_refused(call: Any, make_repo: MakeRepo) -> None:
    root = str(make_repo())
    error = await call.error("index_repository", repo_path=root, path=root + "/src")
    assert error["details"]["field"] == "repo_path"
    same = await call.ok("index_repository", repo_path=root, path=root)
    assert same["status"] == "success"


async def test_a_missing_path_is_named(call: Any) -> None:
    error = await call.error("index_repository")
    assert (error["message"], error["details"]["field"]) == (
        "Field required: repo_path",
        "repo_path",
    )


@pytest.mark.parametrize("name", ["", " ", "x" * 201, 5])
async def test_a_bad_display_name_is_refused(call: Any, make_repo: MakeRepo, name: Any) -> None:
    error = await call.error("index_repository", repo_path=str(make_repo()), name=name)
    assert error["details"]["field"] == "name"


@pytest.fixture
def frequent_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress at once: a fast machine indexes these files within the usual interval."""
    monkeypatch.setattr("codebase_mcp.tools.code.PROGRESS_INTERVAL_S", 0.005)


async def test_progress_is_reported(
    client: Client[Any], make_repo: MakeRepo, project_id: str, frequent_progress: None
) -> None:
    heard: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    files = {f"m{i}.py": f"def f{i}():\n    return {i}\n" * 200 for i in range(150)}
    arguments = {"repo_path": str(make_repo(files)), "project_id": project_id}
    result = await client.call_tool("index_repository", arguments, progress_handler=hear)
    assert result.structured_content is not None
    assert result.structured_content["status"] == "success"
    assert heard
    assert all(total in (1, 150) and done <= (total or 0) for done, total in heard)


async def test_text_and_structured_content_are_the_same_compact_json(
    client: Client[Any], make_repo: MakeRepo, project_id: str
) -> None:
    arguments = {"repo_path": str(make_repo()), "project_id": project_id}
    result = await client.call_tool("index_repository", arguments)
    [block] = result.content
    assert json.loads(block.text) == result.structured_content
    assert '": ' not in block.text.replace(str(make_repo()), "")


async def test_a_cancelled_call_keeps_what_was_stored_and_the_next_finishes(
    client: Client[Any], make_repo: MakeRepo, project_id: str, frequent_progress: None
) -> None:
    files = {f"m{n}.py": f"def number_{n}():\n    return {n}\n" * 60 for n in range(FILES)}
    arguments = {"repo_path": str(make_repo(files)), "project_id": project_id}
    stored = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if progress:
            stored.set()

    call = asyncio.create_task(
        client.call_tool("index_repository", arguments, progress_handler=hear)
    )
    is_stored = asyncio.create_task(stored.wait())
    await asyncio.wait({call, is_stored}, return_when=asyncio.FIRST_COMPLETED)
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    finished = await client.call_tool("index_repository", arguments)
    assert finished.structured_content is not None
    reply = finished.structured_content
    assert reply["status"] == "success"
    assert reply["files_indexed"] + reply["files_unchanged"] == FILES
    assert reply["files_unchanged"] > 0
