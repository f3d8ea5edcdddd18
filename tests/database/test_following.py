"""Anchors follow the code through real index runs, and say so when they cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.records.anchoring import Anchor, CodeReference

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
MakeProject = Callable[..., Any]


def where(anchor: Anchor) -> tuple[str | None, str | None, str, str | None]:
    return anchor.file, anchor.symbol, anchor.state, anchor.reason


def lines(anchor: Anchor) -> tuple[int | None, int | None]:
    return anchor.start_line, anchor.end_line


# Files


async def test_an_anchor_follows_a_renamed_file(anchored: Any) -> None:
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"), CodeReference(symbol="backoff")
    )
    anchored.move("src/retry.py", "src/net/waiting.py")
    await anchored.index()
    for anchor in await anchored.anchors(record):
        assert (anchor.file, anchor.state) == ("src/net/waiting.py", "current")
        assert (anchor.reason, anchor.moved_from) == (None, "src/retry.py")


async def test_a_file_renamed_with_edits_is_followed_and_needs_review(anchored: Any) -> None:
    session = anchored.read("src/session.py")
    record = await anchored.anchor(
        CodeReference(file="src/session.py"), CodeReference(symbol="open")
    )
    (anchored.root / "src/session.py").unlink()
    anchored.write("src/sessions.py", session.replace("return session\n", "return [session]\n"))
    await anchored.index()
    file, symbol = await anchored.anchors(record)
    assert where(file) == (
        "src/sessions.py",
        None,
        "needs_review",
        "the file was moved and changed",
    )
    assert file.moved_from == symbol.moved_from == "src/session.py"
    assert where(symbol) == ("src/sessions.py", "Session.open", "current", None)


async def test_a_changed_file_is_followed_too_when_it_is_renamed(anchored: Any) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(CodeReference(file="src/retry.py"))
    anchored.write("src/retry.py", retry.replace("30", "60"))
    await anchored.index()
    anchored.move("src/retry.py", "src/waiting.py")
    await anchored.index()
    reason = "the file was moved and changed"
    assert where(await anchored.only(record)) == ("src/waiting.py", None, "needs_review", reason)
    anchored.write("src/waiting.py", retry)
    await anchored.index()
    assert where(await anchored.only(record)) == ("src/waiting.py", None, "current", None)


async def test_an_empty_file_is_not_followed_to_another(
    make_project: MakeProject,
) -> None:
    project = make_project({"a/__init__.py": "", "b/__init__.py": "", "c.py": "c = 1\n"})
    await project.index()
    record = await project.anchor(CodeReference(file="a/__init__.py"))
    (project.root / "a/__init__.py").unlink()
    await project.index()
    assert (await project.only(record)).reason == "the file is gone"


async def test_a_file_that_was_there_before_is_no_renamed_one(
    make_project: MakeProject,
) -> None:
    text = "def load(path):\n    return path.read_text()\n"
    project = make_project({"a.py": text, "b.py": text + "\n\nlimit = 3\n"})
    await project.index()
    record = await project.anchor(CodeReference(file="a.py"))
    (project.root / "a.py").unlink()
    project.write("new.py", "new = 1\n")
    await project.index()
    assert where(await project.only(record)) == ("a.py", None, "needs_review", "the file is gone")


async def test_a_changed_file_needs_review_until_it_is_confirmed(anchored: Any) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(CodeReference(file="src/retry.py"))
    anchored.write("src/retry.py", retry.replace("30", "60"))
    await anchored.index()
    anchor = await anchored.only(record)
    assert where(anchor) == ("src/retry.py", None, "needs_review", "the file changed")
    await anchored.anchor(CodeReference(file="src/retry.py"), record_id=record)
    assert (await anchored.only(record)).state == "current"
    await anchored.index()
    assert (await anchored.only(record)).state == "current"


async def test_a_change_that_is_undone_needs_no_review(anchored: Any) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"), CodeReference(symbol="backoff")
    )
    for text, state in ((retry.replace("30", "60"), "needs_review"), (retry, "current")):
        anchored.write("src/retry.py", text)
        await anchored.index()
        assert [anchor.state for anchor in await anchored.anchors(record)] == [state, state]


async def test_a_deleted_file_is_missing_until_it_comes_back(anchored: Any) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"), CodeReference(symbol="backoff")
    )
    (anchored.root / "src/retry.py").unlink()
    await anchored.index()
    file, symbol = await anchored.anchors(record)
    assert (file.state, file.reason) == ("needs_review", "the file is gone")
    assert (symbol.state, symbol.reason) == ("needs_review", "backoff is gone")
    assert lines(symbol) == (None, None)
    anchored.write("src/retry.py", retry)
    await anchored.index()
    file, symbol = await anchored.anchors(record)
    assert (file.state, symbol.state, lines(symbol)) == ("current", "current", (1, 3))


async def test_a_file_that_can_no_longer_be_read_is_not_called_gone(
    app: App, anchored: Any
) -> None:
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"), CodeReference(symbol="backoff")
    )
    (anchored.root / "src/retry.py").write_bytes(b"\0\1\2" * 100)
    report = await app.index(anchored.root, anchored.project_id)
    assert report.run.status == "partial"
    reasons = {anchor.reason for anchor in await anchored.anchors(record)}
    assert reasons == {"the file could not be indexed"}


# Symbols


async def test_lines_follow_what_is_written_above(anchored: Any) -> None:
    session = anchored.read("src/session.py")
    record = await anchored.anchor(CodeReference(symbol="close"))
    anchored.write("src/session.py", '"""Sessions."""\n\n\n' + session)
    await anchored.index()
    anchor = await anchored.only(record)
    assert (anchor.state, lines(anchor)) == ("current", (9, 12))


async def test_a_changed_body_needs_review_and_its_neighbour_does_not(anchored: Any) -> None:
    session = anchored.read("src/session.py")
    record = await anchored.anchor(CodeReference(symbol="close"), CodeReference(symbol="open"))
    anchored.write("src/session.py", session.replace('"closed"', '"shut"'))
    await anchored.index()
    changed, same = await anchored.anchors(record)
    assert (changed.state, changed.reason) == ("needs_review", "Session.close changed")
    assert (same.state, same.reason) == ("current", None)


async def test_a_moved_symbol_is_followed(anchored: Any) -> None:
    session = anchored.read("src/session.py")
    head, tail = session.split("\n\ndef connect")
    record = await anchored.anchor(CodeReference(symbol="connect"))
    anchored.write("src/session.py", head)
    anchored.write("src/connecting.py", "from session import Session\n\n\ndef connect" + tail)
    await anchored.index()
    anchor = await anchored.only(record)
    assert where(anchor) == ("src/connecting.py", "connect", "current", None)
    assert (anchor.moved_from, lines(anchor)) == ("src/session.py", (4, 7))


async def test_a_symbol_copied_in_one_run_and_deleted_in_the_next_is_followed(
    anchored: Any,
) -> None:
    session = anchored.read("src/session.py")
    head, tail = session.split("\n\ndef connect")
    record = await anchored.anchor(CodeReference(symbol="connect"))
    anchored.write("src/connecting.py", "def connect" + tail)
    await anchored.index()
    assert (await anchored.only(record)).file == "src/session.py"
    anchored.write("src/session.py", head)
    await anchored.index()
    assert where(await anchored.only(record)) == ("src/connecting.py", "connect", "current", None)


async def test_a_symbol_cut_in_one_run_and_pasted_in_the_next_is_followed(
    anchored: Any,
) -> None:
    session = anchored.read("src/session.py")
    head, tail = session.split("\n\ndef connect")
    record = await anchored.anchor(CodeReference(symbol="connect"))
    anchored.write("src/session.py", head)
    await anchored.index()
    assert (await anchored.only(record)).reason == "connect is gone"
    anchored.write("src/connecting.py", "def connect" + tail)
    await anchored.index()
    assert where(await anchored.only(record)) == ("src/connecting.py", "connect", "current", None)


async def test_a_symbol_moved_and_changed_needs_review_there(anchored: Any) -> None:
    session = anchored.read("src/session.py")
    head, tail = session.split("\n\ndef connect")
    record = await anchored.anchor(CodeReference(symbol="connect"))
    anchored.write("src/session.py", head)
    anchored.write("src/connecting.py", "def connect" + tail.replace("address", "url"))
    await anchored.index()
    anchor = await anchored.only(record)
    reason = "connect was moved and changed"
    assert where(anchor) == ("src/connecting.py", "connect", "needs_review", reason)
    assert anchor.moved_from == "src/session.py"


async def test_a_function_moved_into_a_class_is_followed_despite_its_indentation(
    anchored: Any,
) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(CodeReference(symbol="backoff"))
    indented = "".join(f"    {line}\n" for line in retry.splitlines())
    anchored.write("src/retry.py", "class Policy:\n" + indented)
    await anchored.index()
    anchor = await anchored.only(record)
    assert where(anchor) == ("src/retry.py", "Policy.backoff", "current", None)
    assert (anchor.moved_from, lines(anchor)) == (None, (2, 4))


async def test_a_renamed_symbol_is_followed_and_back(anchored: Any) -> None:
    text = "def factorial(n):\n    return n * factorial(n - 1) if n else 1\n"
    anchored.write("src/maths.py", text)
    await anchored.index()
    record = await anchored.anchor(CodeReference(symbol="factorial"))
    for name in ("product", "factorial"):
        anchored.write("src/maths.py", text.replace("factorial", name))
        await anchored.index()
        assert where(await anchored.only(record)) == ("src/maths.py", name, "current", None)


async def test_another_function_of_the_same_body_is_no_renamed_one(anchored: Any) -> None:
    text = "def on_open():\n    pass\n\n\ndef on_close():\n    pass\n"
    anchored.write("src/hooks.py", text)
    await anchored.index()
    record = await anchored.anchor(CodeReference(symbol="on_open"))
    anchored.write("src/hooks.py", text.partition("\n\n\n")[2])
    await anchored.index()
    anchor = await anchored.only(record)
    assert where(anchor) == ("src/hooks.py", "on_open", "needs_review", "on_open is gone")


async def test_another_symbol_of_the_name_that_was_there_before_is_not_followed(
    make_project: MakeProject,
) -> None:
    project = make_project({"a.py": "def main():\n    return 1\n", "b.py": "def main(): pass\n"})
    await project.index()
    record = await project.anchor(CodeReference(file="a.py", symbol="main"))
    project.write("a.py", "x = 1\n")
    await project.index()
    assert where(await project.only(record)) == ("a.py", "main", "needs_review", "main is gone")


async def test_a_method_of_another_class_that_was_there_before_is_not_followed(
    make_project: MakeProject,
) -> None:
    body = "    def close(self):\n        self.inner.close()\n"
    project = make_project({"a.py": "class Door:\n" + body, "b.py": "class Gate:\n" + body})
    await project.index()
    record = await project.anchor(CodeReference(symbol="Door.close"))
    project.write("a.py", "x = 1\n")
    await project.index()
    assert (await project.only(record)).reason == "Door.close is gone"


async def test_a_symbol_of_a_renamed_file_is_followed_into_that_file(
    make_project: MakeProject,
) -> None:
    main = "def main():\n    return run()\n"
    project = make_project({f"{name}.py": f"{name} = 1\n\n\n{main}" for name in "abc"})
    await project.index()
    record = await project.anchor(CodeReference(file="b.py", symbol="main"))
    project.move("b.py", "z.py")
    await project.index()
    assert where(await project.only(record)) == ("z.py", "main", "current", None)


async def test_of_several_copies_none_is_taken_for_the_one_that_is_gone(
    make_project: MakeProject,
) -> None:
    main = "def main():\n    return run()\n"
    project = make_project({f"{name}.py": f"{name} = 1\n\n\n{main}" for name in "abc"})
    await project.index()
    record = await project.anchor(CodeReference(file="b.py", symbol="main"))
    project.write("b.py", "b = 1\n")
    await project.index()
    reason = "main is gone; the same text is in a.py, c.py"
    assert where(await project.only(record)) == ("b.py", "main", "needs_review", reason)


# Whole repositories


async def test_a_rebuild_changes_nothing(anchored: Any) -> None:
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"),
        CodeReference(symbol="close"),
        CodeReference(file="nowhere.py"),
    )
    before = await anchored.anchors(record)
    await anchored.index(force=True)
    assert await anchored.anchors(record) == before
    assert [anchor.state for anchor in before] == ["current", "current", "needs_review"]


async def test_a_removed_repository_leaves_its_anchors_to_be_reviewed(
    app: App, anchored: Any, make_repo: MakeRepo
) -> None:
    other = make_repo({"other.py": "def other(): pass\n"}, name="other")
    await anchored.index(root=other)
    record = await anchored.anchor(CodeReference(symbol="close"), CodeReference(file="README.md"))
    stays = await anchored.anchor(CodeReference(symbol="other"))
    await app.remove(anchored.root, anchored.project_id)
    for anchor in await anchored.anchors(record):
        assert anchor.state == "needs_review"
        assert anchor.reason == "the repository is not indexed any more"
    assert (await anchored.only(stays)).state == "current"
    anchored.write("README.md", "# Another\n")
    await anchored.index()
    symbol, file = await anchored.anchors(record)
    assert where(symbol) == ("src/session.py", "Session.close", "current", None)
    assert lines(symbol) == (6, 9)
    assert where(file) == ("README.md", None, "needs_review", "the file changed")


async def test_only_the_anchors_of_the_repository_are_touched(
    anchored: Any, make_repo: MakeRepo
) -> None:
    retry = anchored.read("src/retry.py")
    other = make_repo({"src/retry.py": retry}, name="other")
    first, second = await anchored.index(), await anchored.index(root=other)
    mine = await anchored.anchor(CodeReference(file="src/retry.py", repository_id=first))
    theirs = await anchored.anchor(CodeReference(file="src/retry.py", repository_id=second))
    anchored.write("src/retry.py", retry + "\n")
    await anchored.index()
    assert (await anchored.only(mine)).state == "needs_review"
    assert (await anchored.only(theirs)).state == "current"


async def test_places_set_before_they_are_indexed_are_found_later(
    make_project: MakeProject, make_repo: MakeRepo
) -> None:
    project = make_project()
    await project.index(root=make_repo({"x.py": "x = 1\n"}, name="first"))
    places = [
        CodeReference(file="src/retry.py"),
        CodeReference(symbol="close"),
        CodeReference("src/session.py", "connect"),
    ]
    record = await project.anchor(*places)
    reasons = [(anchor.state, anchor.reason) for anchor in await project.anchors(record)]
    assert reasons == [
        ("needs_review", "file is not in the index"),
        ("needs_review", "symbol is not in the index"),
        ("needs_review", "file is not in the index"),
    ]
    repository_id = await project.index()
    found = await project.anchors(record)
    assert [where(anchor)[:3] for anchor in found] == [
        ("src/retry.py", None, "current"),
        ("src/session.py", "Session.close", "current"),
        ("src/session.py", "connect", "current"),
    ]
    assert {anchor.repository_id for anchor in found} == {repository_id}
    project.write("src/retry.py", "")
    project.write("src/session.py", "")
    await project.index()
    assert {anchor.state for anchor in await project.anchors(record)} == {"needs_review"}


async def test_a_symbol_written_after_it_was_named_is_found(anchored: Any) -> None:
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(
        CodeReference("src/retry.py", "jitter"), CodeReference(symbol="jitter")
    )
    anchored.write("src/retry.py", retry + "\n\ndef jitter():\n    pass\n")
    await anchored.index()
    for anchor in await anchored.anchors(record):
        assert where(anchor) == ("src/retry.py", "jitter", "current", None)
        assert lines(anchor) == (6, 7)


async def test_a_name_that_turns_out_to_be_of_several_places_says_so(anchored: Any) -> None:
    record = await anchored.anchor(CodeReference(symbol="jitter"))
    for name in ("a", "b"):
        anchored.write(f"{name}.py", "def jitter(): pass\n")
    await anchored.index()
    anchor = await anchored.only(record)
    assert anchor.state == "needs_review"
    assert anchor.reason == "symbol is in several places: name one of them"


async def test_a_run_that_changes_nothing_touches_no_anchor(anchored: Any) -> None:
    record = await anchored.anchor(CodeReference(symbol="close"), CodeReference(file="nowhere.py"))
    async with anchored.app.enter(anchored.project_id, readonly=True) as here:
        query = "SELECT checked_at FROM anchor WHERE record_id = %(id)s ORDER BY ordinal"
        before = await here.tx.fetch_all(query, id=record)
    await anchored.index()
    async with anchored.app.enter(anchored.project_id, readonly=True) as here:
        assert await here.tx.fetch_all(query, id=record) == before


async def test_a_change_that_no_refresh_saw_is_seen_by_the_next(anchored: Any) -> None:
    """As when the process died between the end of a run and the look at the anchors."""
    retry = anchored.read("src/retry.py")
    record = await anchored.anchor(CodeReference(file="src/retry.py"))
    async with anchored.app.enter(anchored.project_id) as here:
        query = "SELECT blob_id FROM anchor WHERE record_id = %(id)s"
        [(blob_id,)] = await here.tx.fetch_all(query, id=record)
    anchored.write("src/retry.py", retry + "\n")
    await anchored.index()
    async with anchored.app.enter(anchored.project_id) as here:
        await here.tx.execute(
            "UPDATE anchor SET blob_id = %(blob)s, state = 'current', reason = NULL", blob=blob_id
        )
    await anchored.index()
    assert where(await anchored.only(record))[2:] == ("needs_review", "the file changed")


@pytest.mark.parametrize(("times", "state"), [(1, "current"), (2, "needs_review")])
async def test_an_anchor_from_elsewhere_finds_its_repository(
    anchored: Any, times: int, state: str
) -> None:
    """Records may be imported before their repository is indexed, with what was confirmed."""
    record = await anchored.anchor(
        CodeReference(file="src/retry.py"), CodeReference(symbol="backoff")
    )
    async with anchored.app.enter(anchored.project_id) as here:
        await here.tx.execute("UPDATE anchor SET repository_id = NULL, blob_id = NULL")
    anchored.write("src/retry.py", anchored.read("src/retry.py") * times)
    anchored.write("new.py", "x = 1\n")
    repository_id = await anchored.index()
    for anchor in await anchored.anchors(record):
        assert (anchor.state, anchor.repository_id) == (state, repository_id)
        assert (anchor.reason is None) == (state == "current")
