"""What ``search_code`` says about the places that it returns, when asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.anchors import set_anchors

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

# Two functions, each too long to share a chunk with the other.
QUEUE = "".join(
    f"def {name}(queue):\n"
    + "".join(f"    queue.step_{n}('{name} {word} {'x' * 40}')\n" for n in range(25))
    + "\n\n"
    for name, word in (("enqueue", "append"), ("drain", "empty"))
)

INSERT = {
    "task": "INSERT INTO task (id, title, status) VALUES (%(id)s, %(title)s, 'in-progress')",
    "observation": """
        INSERT INTO observation (id, content, content_hash, type, model, terms, lex)
        VALUES (%(id)s, %(title)s, %(id)s::text::bytea, 'Decision', 'm', '{}', '{}/1000000000')
    """,
    "work_item": """
        INSERT INTO work_item (id, item_type, title, status, path)
        VALUES (%(id)s, 'research', %(title)s, 'blocked', %(id)s::text)
    """,
    "entity": """
        WITH made AS (
            INSERT INTO entity_type (id, name, folded) VALUES (%(id)s, 'Risk', %(id)s::text)
            RETURNING id
        )
        INSERT INTO entity (id, type_id, name, data, schema_version)
        SELECT id, id, %(title)s, '{}', 1 FROM made
    """,
}


class Notebook:
    """A project with a queue in it, and records about its code."""

    def __init__(self, app: App, project_id: str, root: Path) -> None:
        self.app = app
        self.project_id = project_id
        self.root = root

    async def add(self, kind: Any, title: str, *places: CodeReference) -> UUID:
        """A record about these places."""
        record = uuid4()
        async with self.app.enter(self.project_id) as here:
            await here.tx.execute(INSERT[kind], id=record, title=title)
            await set_anchors(here.tx, kind, record, places)
        return record

    async def change(self, path: str, content: str) -> None:
        (self.root / path).write_text(content)
        await self.app.index(self.root, self.project_id)


@pytest.fixture
async def notebook(app: App, make_repo: MakeRepo, project_id: str) -> AsyncIterator[Notebook]:
    root = make_repo({"src/queue.py": QUEUE, "src/other.py": "def other():\n    return 1\n"})
    await app.index(root, project_id)
    yield Notebook(app, project_id, root)


async def notes_of(call: Any, notebook: Notebook, query: str = "enqueue") -> list[dict[str, Any]]:
    """The notes of the first result."""
    reply = await call.ok(
        "search_code", query=query, project_id=notebook.project_id, with_notes=True, limit=1
    )
    [result] = reply["results"]
    assert result["file_path"] == "src/queue.py"
    notes: list[dict[str, Any]] = result["notes"]
    return notes


async def test_a_note_has_the_record_and_its_anchor(call: Any, notebook: Notebook) -> None:
    task = await notebook.add("task", "Bound the queue", CodeReference(symbol="enqueue"))
    [note] = await notes_of(call, notebook)
    assert note == {
        "record_kind": "task",
        "id": str(task),
        "title": "Bound the queue",
        "status": "in-progress",
        "state": "current",
        "reason": None,
        "symbol": "enqueue",
        "start_line": 1,
        "end_line": 26,
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("observation", {"type": "Decision"}),
        ("entity", {"type": "Risk"}),
        ("work_item", {"type": "research", "status": "blocked"}),
    ],
)
async def test_every_kind_of_record_has_a_title_and_a_status_or_type(
    call: Any, notebook: Notebook, kind: str, words: dict[str, str]
) -> None:
    await notebook.add(kind, "Queues are bounded", CodeReference(file="src/queue.py"))
    [note] = await notes_of(call, notebook)
    assert (note["record_kind"], note["title"], note["symbol"]) == (
        kind,
        "Queues are bounded",
        None,
    )
    assert {name: note[name] for name in ("status", "type") if name in note} == words


async def test_only_notes_about_the_lines_or_the_whole_file_are_listed(
    call: Any, notebook: Notebook
) -> None:
    await notebook.add("task", "fills", CodeReference(symbol="enqueue"))
    await notebook.add("task", "empties", CodeReference(symbol="drain"))
    await notebook.add("task", "whole", CodeReference(file="src/queue.py"))
    await notebook.add("task", "other", CodeReference(symbol="other"))
    await notebook.add("task", "elsewhere", CodeReference(file="queue.py"))
    assert [note["title"] for note in await notes_of(call, notebook)] == ["whole", "fills"]
    drain = await notes_of(call, notebook, "drain")
    assert [note["title"] for note in drain] == ["whole", "empties"]


async def test_a_record_with_several_places_here_is_listed_once(
    call: Any, notebook: Notebook
) -> None:
    await notebook.add(
        "task", "both", CodeReference(symbol="enqueue"), CodeReference(file="src/queue.py")
    )
    [note] = await notes_of(call, notebook)
    assert note["symbol"] == "enqueue"


async def test_at_most_five_are_listed_current_before_others_and_newest_first(
    call: Any, notebook: Notebook
) -> None:
    for n in range(3):
        await notebook.add("task", f"here {n}", CodeReference(symbol="enqueue"))
    for n in range(3):
        await notebook.add("task", f"lost {n}", CodeReference("src/queue.py", "nowhere"))
    notes = await notes_of(call, notebook)
    assert [note["title"] for note in notes] == ["here 2", "here 1", "here 0", "lost 2", "lost 1"]
    assert [note["state"] for note in notes[2:4]] == ["current", "needs_review"]


async def test_a_note_about_code_that_changed_says_so(call: Any, notebook: Notebook) -> None:
    await notebook.add("task", "Bound the queue", CodeReference(symbol="enqueue"))
    await notebook.change("src/queue.py", QUEUE.replace("enqueue append", "enqueue prepend"))
    [note] = await notes_of(call, notebook)
    assert (note["state"], note["reason"]) == ("needs_review", "enqueue changed")


async def test_a_symbol_that_is_gone_is_remembered_with_its_file(
    call: Any, notebook: Notebook
) -> None:
    await notebook.add("task", "Drain slowly", CodeReference(symbol="drain"))
    await notebook.change("src/queue.py", QUEUE.partition("def drain")[0])
    [note] = await notes_of(call, notebook)
    assert (note["title"], note["reason"]) == ("Drain slowly", "drain is gone")
    assert note["start_line"] is None


async def test_deleted_entities_are_left_out(call: Any, notebook: Notebook) -> None:
    entity = await notebook.add("entity", "A risk", CodeReference(symbol="enqueue"))
    async with notebook.app.enter(notebook.project_id) as here:
        await here.tx.execute("UPDATE entity SET deleted_at = now() WHERE id = %(id)s", id=entity)
    assert await notes_of(call, notebook) == []


async def test_an_observation_is_shortened_after_a_word(call: Any, notebook: Notebook) -> None:
    await notebook.add(
        "observation", "queues\n" + "are bounded " * 20, CodeReference(symbol="enqueue")
    )
    await notebook.add("observation", "y" * 300, CodeReference(file="src/queue.py"))
    unbroken, words = [note["title"] for note in await notes_of(call, notebook)]
    assert words == "queues " + "are bounded " * 7 + "are…"
    assert unbroken == "y" * 100 + "…"


async def test_notes_are_returned_only_on_request(call: Any, notebook: Notebook) -> None:
    await notebook.add("task", "Bound the queue", CodeReference(symbol="enqueue"))
    for arguments in ({}, {"with_notes": False}):
        reply = await call.ok(
            "search_code", query="enqueue", project_id=notebook.project_id, **arguments
        )
        assert reply["results"]
        assert all("notes" not in result for result in reply["results"])


async def test_a_place_without_notes_has_an_empty_list(call: Any, notebook: Notebook) -> None:
    assert await notes_of(call, notebook) == []


async def test_a_caller_that_names_a_collection_gets_notes_too(
    call: Any, notebook: Notebook
) -> None:
    await notebook.add("task", "Bound the queue", CodeReference(symbol="enqueue"))
    reply = await call.ok(
        "search_code", query="enqueue", collection=notebook.project_id, with_notes=True
    )
    assert [note["title"] for note in reply["results"][0]["notes"]] == ["Bound the queue"]


async def test_notes_of_another_project_are_not_shown(
    app: App, call: Any, notebook: Notebook
) -> None:
    other = f"{notebook.project_id}-b"
    await app.index(notebook.root, other)
    try:
        await Notebook(app, other, notebook.root).add(
            "task", "theirs", CodeReference(symbol="enqueue")
        )
        assert await notes_of(call, notebook) == []
    finally:
        await app.drop_project(other)


async def test_notes_keep_to_the_budget_of_the_reply(call: Any, notebook: Notebook) -> None:
    for n in range(5):
        await notebook.add("task", f"{n} " + "word " * 30, CodeReference(symbol="enqueue"))
    arguments = {"query": "enqueue", "project_id": notebook.project_id, "with_notes": True}
    whole = await call.ok("search_code", **arguments, limit=1)
    size = len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")))
    assert "truncated" not in await call.ok(
        "search_code", **arguments, limit=1, max_chars=size + 100
    )
    [result] = whole["results"]
    context = len(result["context_before"] + result["context_after"])
    small = await call.ok("search_code", **arguments, limit=1, max_chars=size - context - 400)
    assert small["truncated"] is True
    assert 1 <= len(small["results"][0]["notes"]) < 5
    assert small["results"][0]["content"] == whole["results"][0]["content"]


async def test_with_notes_is_described(client: Any) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    described = tools["search_code"].input_schema["properties"]["with_notes"]
    assert described["default"] is False
    assert "records" in described["description"]
