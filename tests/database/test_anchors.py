"""Which place an anchor means when it is set; and what happens to records set at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from codebase_mcp.database.connection import Transaction
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.records.anchors import set_anchors
from codebase_mcp.records.following import refresh_anchors

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
MakeProject = Callable[..., Any]

SESSION = "class Session:\n    def close(self): pass\n"


def where(anchor: Anchor) -> tuple[str | None, str | None, str, str | None]:
    return anchor.file, anchor.symbol, anchor.state, anchor.reason


def lines(anchor: Anchor) -> tuple[int | None, int | None]:
    return anchor.start_line, anchor.end_line


# Where a place is


async def test_a_symbol_is_found_by_the_last_parts_of_its_name(anchored: Any) -> None:
    for name in ("close", "Session.close", "Session::close()"):
        anchor = await anchored.only(await anchored.anchor(CodeReference(symbol=name)))
        assert where(anchor) == ("src/session.py", "Session.close", "current", None)
        assert lines(anchor) == (6, 9)
        assert anchor.repository_id is not None


async def test_a_file_is_found_by_its_path_relative_or_absolute(anchored: Any) -> None:
    for path in ("src/retry.py", str(anchored.root / "src/retry.py")):
        anchor = await anchored.only(await anchored.anchor(CodeReference(file=path)))
        assert where(anchor) == ("src/retry.py", None, "current", None)
        assert lines(anchor) == (None, None)


async def test_an_absolute_path_belongs_to_the_innermost_repository(anchored: Any) -> None:
    inner = await anchored.index(root=anchored.root / "src")
    anchor = await anchored.only(
        await anchored.anchor(CodeReference(str(anchored.root / "src/retry.py")))
    )
    assert (anchor.file, anchor.repository_id) == ("retry.py", inner)


async def test_an_absolute_path_outside_every_repository_is_refused(anchored: Any) -> None:
    error = await anchored.refused(
        CodeReference(commit="a" * 40), CodeReference(file="/somewhere/else.py")
    )
    assert error.details["field"] == "anchors.1.file"
    assert error.message == "File is in no indexed repository: /somewhere/else.py"


async def test_a_commit_alone_is_kept_and_never_looked_for(anchored: Any) -> None:
    record = await anchored.anchor(CodeReference(commit="a" * 40))
    anchored.write("src/retry.py", "")
    await anchored.index()
    anchor = await anchored.only(record)
    assert (anchor.commit, anchor.state, anchor.repository_id) == ("a" * 40, "current", None)


async def test_anchors_keep_their_order(anchored: Any) -> None:
    places = [
        CodeReference(file="src/retry.py"),
        CodeReference(commit="b" * 40),
        CodeReference(symbol="connect"),
    ]
    anchors = await anchored.anchors(await anchored.anchor(*places))
    assert [anchor.file for anchor in anchors] == ["src/retry.py", None, "src/session.py"]


async def test_a_name_with_several_definitions_lists_them(
    make_project: MakeProject,
) -> None:
    project = make_project({"a.py": SESSION, "b.py": "class Door:\n    def close(self): pass\n"})
    await project.index()
    error = await project.refused(CodeReference(symbol="close"))
    assert error.details["field"] == "anchors.0.symbol"
    assert [(p["file"], p["symbol"], p["start_line"]) for p in error.details["places"]] == [
        ("a.py", "Session.close", 2),
        ("b.py", "Door.close", 2),
    ]
    assert "Door.close in b.py:2" in (error.hint or "")
    for place in (CodeReference(symbol="Door.close"), CodeReference(file="b.py", symbol="close")):
        anchor = await project.only(await project.anchor(place))
        assert (anchor.file, anchor.symbol) == ("b.py", "Door.close")


async def test_a_name_with_very_many_definitions_lists_ten(
    make_project: MakeProject,
) -> None:
    project = make_project({f"m{n:02}.py": "def main(): pass\n" for n in range(12)})
    await project.index()
    error = await project.refused(CodeReference(symbol="main"))
    assert len(error.details["places"]) == 10
    assert (error.hint or "").endswith("and more.")


async def test_a_whole_name_goes_before_one_that_ends_so(
    make_project: MakeProject,
) -> None:
    project = make_project({"a.py": SESSION, "b.py": "def close(): pass\n"})
    await project.index()
    anchor = await project.only(await project.anchor(CodeReference(symbol="close")))
    assert (anchor.file, anchor.symbol) == ("b.py", "close")


async def test_a_whole_name_is_found_among_very_many_that_end_so(
    make_project: MakeProject,
) -> None:
    methods = "".join(f"class C{n}:\n    def run(self): pass\n" for n in range(60))
    project = make_project({"a.py": methods, "b.py": "def run(): pass\n"})
    await project.index()
    anchor = await project.only(await project.anchor(CodeReference(symbol="run")))
    assert (anchor.file, anchor.symbol) == ("b.py", "run")


async def test_code_goes_before_headings(make_project: MakeProject) -> None:
    project = make_project({"a.py": SESSION, "README.md": "# Session\n\nHow to close.\n"})
    await project.index()
    anchor = await project.only(await project.anchor(CodeReference(symbol="Session")))
    assert anchor.file == "a.py"


async def test_overloads_of_a_name_are_one_place(make_project: MakeProject) -> None:
    text = """\
class Box:
    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        self._size = value
"""
    project = make_project({"box.py": text})
    await project.index()
    record = await project.anchor(CodeReference(symbol="Box.size"))
    assert lines(await project.only(record)) == (3, 8)
    project.write("box.py", text.replace("= value", "= int(value)"))
    await project.index()
    assert (await project.only(record)).reason == "Box.size changed"


async def test_a_file_of_several_repositories_needs_the_repository(
    anchored: Any, make_repo: MakeRepo
) -> None:
    other = make_repo({"src/retry.py": "def backoff(): pass\n"}, name="other")
    first, second = await anchored.index(), await anchored.index(root=other)
    error = await anchored.refused(CodeReference(file="src/retry.py"))
    assert error.details["field"] == "anchors.0.repository_id"
    assert {place["repository_id"] for place in error.details["places"]} == {
        str(first),
        str(second),
    }
    error = await anchored.refused(CodeReference(symbol="backoff"))
    assert error.details["field"] == "anchors.0.repository_id"
    for place in (
        CodeReference(file="src/retry.py", repository_id=second),
        CodeReference(symbol="backoff", repository_id=second),
        CodeReference(file=str(other / "src/retry.py")),
    ):
        anchor = await anchored.only(await anchored.anchor(place))
        assert (anchor.file, anchor.repository_id) == ("src/retry.py", second)


async def test_setting_again_replaces_all_anchors(anchored: Any) -> None:
    record = await anchored.anchor(CodeReference(file="README.md"), CodeReference(symbol="close"))
    await anchored.anchor(CodeReference(symbol="open"), record_id=record)
    assert (await anchored.only(record)).symbol == "Session.open"
    await anchored.anchor(record_id=record)
    assert await anchored.anchors(record) == ()


async def test_a_refused_place_leaves_the_old_ones(anchored: Any) -> None:
    record = await anchored.anchor(CodeReference(symbol="close"))
    with pytest.raises(InvalidInput):
        await anchored.anchor(
            CodeReference(symbol="open"), CodeReference(file="/nowhere"), record_id=record
        )
    assert (await anchored.only(record)).symbol == "Session.close"


# Several at once


async def test_anchors_set_at_the_same_moment_are_those_of_one_caller(anchored: Any) -> None:
    record = uuid4()
    choices: Sequence[Sequence[CodeReference]] = (
        [CodeReference(symbol="close"), CodeReference(symbol="open")],
        [CodeReference(file="README.md")],
        [CodeReference(commit=digit * 40) for digit in "abc"],
    )
    for _ in range(5):
        await asyncio.gather(*(anchored.anchor(*places, record_id=record) for places in choices))
        found = [(anchor.symbol, anchor.commit) for anchor in await anchored.anchors(record)]
        assert found in (
            [("Session.close", None), ("Session.open", None)],
            [(None, None)],
            [(None, digit * 40) for digit in "abc"],
        )


async def is_waited_for(tx: Transaction) -> bool:
    """Does anyone wait for an advisory lock that this transaction holds?"""
    query = """
        SELECT EXISTS (
            SELECT
            FROM pg_locks
            WHERE locktype = 'advisory' AND NOT granted
              AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
        )
    """
    [(is_waited,)] = await tx.fetch_all(query)
    return bool(is_waited)


async def test_a_refresh_waits_for_anchors_that_are_being_set(anchored: Any) -> None:
    """Else what was read of the old text would be stored after the refresh had passed."""
    repository_id = await anchored.index()
    record = uuid4()

    async def refresh() -> int:
        async with anchored.app.enter(anchored.project_id) as here:
            return await refresh_anchors(here.tx, repository_id)

    async with anchored.app.enter(anchored.project_id) as here:
        await set_anchors(here.tx, "task", record, [CodeReference(file="src/retry.py")])
        await here.tx.execute("UPDATE anchor SET blob_id = 0, state = 'needs_review'")
        refreshing = asyncio.create_task(refresh())
        while not refreshing.done() and not await is_waited_for(here.tx):
            await asyncio.sleep(0.01)
        assert not refreshing.done()
    assert await refreshing == 1
    assert (await anchored.only(record)).state == "current"


async def test_refreshes_and_settings_at_once_end(anchored: Any) -> None:
    repository_id = await anchored.index()
    records = [
        await anchored.anchor(CodeReference(symbol="close"), CodeReference("README.md"))
        for _ in range(4)
    ]

    async def refresh() -> None:
        async with anchored.app.enter(anchored.project_id) as here:
            await refresh_anchors(here.tx, repository_id)

    session = anchored.read("src/session.py")
    anchored.write("src/session.py", session.replace("closed", "shut"))
    await asyncio.gather(
        anchored.index(),
        *(refresh() for _ in range(4)),
        *(
            anchored.anchor(CodeReference(symbol="open"), record_id=record)
            for record in records[:2]
        ),
    )
    for record in records[:2]:
        assert (await anchored.only(record)).state == "current"
    for record in records[2:]:
        assert [a.state for a in await anchored.anchors(record)] == ["needs_review", "current"]
