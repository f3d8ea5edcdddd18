"""An import by the name of a package leads to its files, wherever the index begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.answer import Operation, SymbolFacts, SymbolQuestion
from codebase_mcp.symbols.candidates import SURE
from codebase_mcp.symbols.lookup import parse_place

pytestmark = pytest.mark.anyio

PACKAGE = {
    "__init__.py": "",
    "helpers/__init__.py": "from shop.helpers.event import track\n",
    "helpers/event.py": "def track(hass):\n    return hass\n",
    "parts/sun.py": "from shop.helpers.event import track\n\n\ndef rise():\n    track(1)\n",
    "parts/rain.py": "from shop.helpers import track\n\n\ndef fall():\n    track(2)\n",
    "parts/wind.py": ("import shop.helpers.event as event\n\n\ndef blow():\n    event.track(3)\n"),
}

WORKSPACE = {
    "core/pyproject.toml": '[project]\nname = "shop-core"\n',
    "core/src/shop_core/pay.py": "def charge(card):\n    return card\n",
    "web/app.py": "from shop_core.pay import charge\n\ncharge(1)\n",
    "ts/pay/package.json": '{"name": "@shop/pay", "main": "dist/index.js"}\n',
    "ts/pay/src/card.ts": "export function debit(card: number) { return card }\n",
    "ts/pay/src/index.ts": 'export { debit } from "./card"\n',
    "ts/web/app.ts": 'import { debit } from "@shop/pay"\n\ndebit(1)\n',
    "ts/web/other.ts": 'import { debit } from "@other/pay"\n\ndebit(1)\n',
    "rs/pay/Cargo.toml": '[package]\nname = "shop-pay"\n[lib]\nname = "paying"\n',
    "rs/pay/src/card.rs": "pub fn settle(card: u32) -> u32 { card }\n",
    "rs/pay/tests/card.rs": "use paying::card::settle;\n\nfn pays() { settle(1); }\n",
    "php/composer.json": '{"autoload": {"psr-4": {"Shop\\\\": "src/"}}}\n',
    "php/src/Pay/Card.php": "<?php\nnamespace Shop\\Pay;\n\nclass Card {}\n",
    "php/other/Pay/Card.php": "<?php\nnamespace Other\\Pay;\n\nclass Card {}\n",
    "php/app.php": "<?php\nuse Shop\\Pay\\Card;\n\n$card = new Card();\n",
}
WORKSPACE_USES = {
    "core/src/shop_core/pay.py:1": {"web/app.py:1", "web/app.py:3"},
    "ts/pay/src/card.ts:1": {"ts/pay/src/index.ts:1", "ts/web/app.ts:1", "ts/web/app.ts:3"},
    "rs/pay/src/card.rs:1": {"rs/pay/tests/card.rs:1", "rs/pay/tests/card.rs:3"},
    "php/src/Pay/Card.php:4": {"php/app.php:2", "php/app.php:4"},
    "php/other/Pay/Card.php:4": set(),
}


async def ask(app: App, project_id: str, operation: Operation, name: str) -> SymbolFacts:
    place = parse_place(name)
    question = SymbolQuestion(
        operation,
        name=None if place else name,
        place=place,
    )
    return (await app.symbols.ask(question, project_id)).facts


async def test_a_package_that_is_indexed_by_itself_is_imported_by_the_name_of_its_directory(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(PACKAGE, name="shop"), project_id)
    facts = await ask(app, project_id, "callers", "track")
    assert facts.calls is not None
    [calls] = facts.calls.calls.values()
    assert [(one.path, one.lines) for one in calls if one.confidence >= SURE] == [
        ("parts/sun.py", [5]),
        ("parts/wind.py", [5]),
        ("parts/rain.py", [5]),
    ]
    assert facts.unresolved == 0


async def test_a_package_of_a_workspace_is_imported_by_the_name_in_its_build_file(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(WORKSPACE), project_id)
    found = {}
    for place in WORKSPACE_USES:
        references = (await ask(app, project_id, "references", place)).references
        assert references is not None
        found[place] = {
            f"{use.use.file.path}:{use.use.line}"
            for use in references.uses
            if use.confidence >= SURE
        }
    assert found == WORKSPACE_USES


async def test_a_name_that_two_modules_fit_is_not_sure(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    pay = "def charge(card):\n    return card\n"
    use = "from shop.pay import charge\n\ncharge(1)\n"
    files = {"__init__.py": "", "pay.py": pay, "shop/pay.py": pay, "app.py": use}
    await app.index(make_repo(files, name="shop"), project_id)
    references = (await ask(app, project_id, "references", "charge")).references
    assert references is not None
    assert {use.confidence < SURE for use in references.uses} == {True}
    assert {use.use.file.path for use in references.uses} == {"app.py"}
