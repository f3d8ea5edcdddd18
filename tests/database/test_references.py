"""Uses of names are stored with their texts, found in the snapshots asked for, and go with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import Reference, ReferenceKind
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.definition import Use
from codebase_mcp.symbols.resolve import Resolver
from codebase_mcp.symbols.storage import MANY, load_surroundings, load_uses, references_of

pytestmark = pytest.mark.anyio

SHOP = {
    "pay.py": "def charge(card):\n    return card\n",
    "shop.py": (
        "from pay import charge as take\n"
        "import pay\n"
        "\n"
        "class Shop:\n"
        "    def sell(self, card):\n"
        "        self.log(card)\n"
        "        return pay.charge(card) or pay.charge(None)\n"
        "\n"
        "    def again(self, card):\n"
        "        return pay.charge(card)\n"
    ),
    "tests/test_shop.py": "from pay import charge\n\ndef test_it():\n    charge(1)\n",
    "notes.txt": "charge(card)\n",
}


async def snapshots(tx: Transaction) -> list[int]:
    return [row[0] for row in await tx.fetch_all("SELECT id FROM snapshot")]


async def find_uses(tx: Transaction, name: str, snapshot_ids: list[int]) -> list[Use]:
    found = await load_uses(tx, [name], snapshot_ids)
    return sorted(found, key=lambda use: (use.file.snapshot_id, use.file.path, use.line))


async def test_a_name_is_found_with_every_use(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(SHOP), project_id)
    async with app.enter(project_id, readonly=True) as here:
        uses = await find_uses(here.tx, "charge", await snapshots(here.tx))
        assert await find_uses(here.tx, "Charge", await snapshots(here.tx)) == []
        assert await find_uses(here.tx, "charge", []) == []
    assert [
        (use.file.path, use.file.language, use.file.kind, use.line, use.kind, use.receiver)
        for use in uses
    ] == [
        ("shop.py", "python", "code", 1, ReferenceKind.IMPORT, ""),
        ("shop.py", "python", "code", 7, ReferenceKind.CALL, "pay"),
        ("shop.py", "python", "code", 10, ReferenceKind.CALL, "pay"),
        ("tests/test_shop.py", "python", "test", 1, ReferenceKind.IMPORT, ""),
        ("tests/test_shop.py", "python", "test", 4, ReferenceKind.CALL, ""),
    ]
    assert (uses[0].module, uses[0].alias) == ("pay", "take")


async def test_the_definition_around_each_use_is_the_innermost(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(SHOP), project_id)
    async with app.enter(project_id, readonly=True) as here:
        uses = await find_uses(here.tx, "charge", await snapshots(here.tx))
        places = [(use.file.blob_id, use.line) for use in uses if use.file.path == "shop.py"]
        _, around, _ = await load_surroundings(here.tx, places, [], [])
    assert [[one.qualified for one in around.get(place, ())] for place in places] == [
        [],
        ["Shop", "Shop.sell"],
        ["Shop", "Shop.again"],
    ]


async def test_other_calls_are_answered_while_many_uses_are_resolved(
    app: App, project_id: str, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = "from pay import charge\n" + "charge(1)\n" * MANY
    await app.index(make_repo({"pay.py": SHOP["pay.py"], "many.py": uses}), project_id)
    has_begun, may_end = threading.Event(), threading.Event()
    resolve = Resolver.resolve

    def resolve_when_told(self: Resolver, *args: Any) -> Any:
        has_begun.set()
        assert may_end.wait(20), "nothing else was answered"
        return resolve(self, *args)

    monkeypatch.setattr(Resolver, "resolve", resolve_when_told)
    long = asyncio.create_task(
        app.symbols.ask(SymbolQuestion("references", name="charge"), project_id)
    )
    assert await asyncio.to_thread(has_begun.wait, 20)
    await app.symbols.ask(SymbolQuestion("definition", name="charge"), project_id)
    may_end.set()
    references = (await long).facts.references
    assert references is not None
    assert len(references.uses) == MANY + 1


async def test_a_text_tells_what_it_uses(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo({"a.py": SHOP["tests/test_shop.py"], "b.txt": "x"}), project_id)
    async with app.enter(project_id, readonly=True) as here:
        ids = [row[0] for row in await here.tx.fetch_all("SELECT id FROM blob")]
        found = await references_of(here.tx, ids)
    assert list(found.values()) == [
        (
            Reference(1, "charge", ReferenceKind.IMPORT, module="pay"),
            Reference(4, "charge", ReferenceKind.CALL),
        )
    ]


async def test_only_the_snapshots_that_are_asked_for_answer(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    text = {"a.py": SHOP["tests/test_shop.py"]}
    await app.index(make_repo(text, "one"), project_id)
    await app.index(make_repo(text, "two"), project_id)  # which shares the text
    async with app.enter(project_id, readonly=True) as here:
        both = await snapshots(here.tx)
        assert len(both) == 2
        assert {use.file.snapshot_id for use in await find_uses(here.tx, "charge", both)} == set(
            both
        )
        found = await find_uses(here.tx, "charge", both[:1])
    assert [(use.file.snapshot_id, use.line) for use in found] == [(both[0], 1), (both[0], 4)]


async def test_uses_go_with_their_text(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo(SHOP)
    await app.index(root, project_id)
    (root / "tests" / "test_shop.py").unlink()
    await app.index(root, project_id)
    async with app.enter(project_id) as here:
        uses = await find_uses(here.tx, "charge", await snapshots(here.tx))
        assert {use.file.path for use in uses} == {"shop.py"}
    await app.remove(root, project_id)
    async with app.enter(project_id) as here:
        assert await here.tx.fetch_all("SELECT blob_id FROM blob_reference") == []
