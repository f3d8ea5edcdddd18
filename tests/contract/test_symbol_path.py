"""``symbol`` with ``path``: how a call gets from one definition to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import Caller

from codebase_mcp.app.app import App
from codebase_mcp.symbols import paths
from codebase_mcp.tools.answers import symbol_question
from codebase_mcp.tools.replies.symbols import symbol_text

pytestmark = pytest.mark.anyio

SHOP = {
    "shop/app.py": (
        "from shop.cart import Cart\n"
        "from shop.pay import charge\n"
        "\n"
        "\n"
        "def main(card):\n"
        "    cart = Cart(card)\n"
        "    run(cart)\n"
        "\n"
        "\n"
        "def run(cart):\n"
        "    cart.finish()\n"
        "\n"
        "\n"
        "def again(card):\n"
        "    charge(card)\n"
        "    again(card)\n"
    ),
    "shop/cart.py": (
        "from shop.pay import charge\n"
        "\n"
        "\n"
        "class Cart:\n"
        "    def __init__(self, card):\n"
        "        self.load(card)\n"
        "\n"
        "    def load(self, card):\n"
        "        return card\n"
        "\n"
        "    def finish(self):\n"
        "        charge(self)\n"
    ),
    "shop/pay.py": (
        "def charge(card):\n    return check(card)\n\n\ndef check(card):\n    return card\n"
    ),
    "tests/test_shop.py": "from shop.pay import check\n\n\ndef test_it():\n    check(1)\n",
}

ROUTES = {
    "web/router.py": (
        "class Router:\n"
        "    def __init__(self):\n"
        "        self.routes = {}\n"
        "\n"
        "    def route(self, path):\n"
        "        def keep(handler):\n"
        "            self.routes[path] = handler\n"
        "        return keep\n"
        "\n"
        "    def dispatch(self, path):\n"
        "        return self.routes[path]()\n"
        "\n"
        "\n"
        "router = Router()\n"
    ),
    "web/pages.py": (
        "from web.router import router\n"
        "from web.store import save, remove, load\n"
        "import flask\n"
        "\n"
        "\n"
        "@router.route(\n"
        '    "/save"\n'
        ")\n"
        "def save_page():\n"
        "    save()\n"
        "\n"
        "\n"
        "HANDLERS = {\n"
        '    "remove": remove,\n'
        "}\n"
        "\n"
        "\n"
        "def handle(name):\n"
        "    HANDLERS[name]()\n"
        "\n"
        "\n"
        "def schedule(pool):\n"
        "    pool.submit(load)\n"
        "\n"
        "\n"
        "class Pages:\n"
        "    @property\n"
        "    def first(self):\n"
        "        return save()\n"
        "\n"
        "    def show(self):\n"
        "        return self.first\n"
        "\n"
        "\n"
        '@flask.get("/export")\n'
        "def export():\n"
        "    write()\n"
        "\n"
        "\n"
        "def write():\n"
        "    pass\n"
    ),
    "web/store.py": (
        "def save():\n    pass\n\n\ndef remove():\n    pass\n\n\ndef load():\n    pass\n"
    ),
}


@pytest.fixture
def toolsets() -> list[str]:
    return ["symbols"]


@pytest.fixture
async def ask(make_repo: Callable[..., Path], app: App, call: Caller, project_id: str) -> Any:
    async def ask(files: Mapping[str, str], name: str, to: str, **more: Any) -> dict[str, Any]:
        await app.index(make_repo(files), project_id)
        target = {"place" if ":" in name else "name": name}
        return await call.ok(
            "symbol", operation="path", project_id=project_id, to=to, **target, **more
        )

    return ask


def steps(reply: Mapping[str, Any]) -> list[list[Any]]:
    return [
        [
            chain["symbol"],
            *((step["line"], step["kind"], step["symbol"]) for step in chain["steps"]),
        ]
        for chain in reply["chains"]
    ]


async def test_the_shortest_chains_come_with_their_lines(ask: Any) -> None:
    reply = await ask(SHOP, "main", "check")
    whole = [
        "main",
        (7, "call", "run"),
        (11, "call", "Cart.finish"),
        (12, "call", "charge"),
        (2, "call", "check"),
    ]
    assert steps(reply) == [whole]
    assert [step["confidence"] for step in reply["chains"][0]["steps"]] == [0.95, 0.6, 0.95, 0.95]
    assert reply["chains"][0]["steps"][2]["line_in"] == "shop/cart.py"
    # A place, a name of several definitions, a constructor, a class, a filter.
    assert steps(await ask(SHOP, "shop/app.py:7", "shop/pay.py:6")) == [whole]
    assert steps(await ask(SHOP, "main", "Cart.load")) == [
        ["main", (6, "call", "Cart"), (6, "call", "Cart.load")]
    ]
    assert steps(await ask(SHOP, "main", "Cart.__init__")) == [["main", (6, "call", "Cart")]]
    assert steps(await ask(SHOP, "Cart", "check")) == [
        ["Cart.finish", (12, "call", "charge"), (2, "call", "check")]
    ]
    assert steps(await ask(SHOP, "again", "again")) == []
    reply = await ask(SHOP, "main", "check", directory="shop/*p*.py")
    assert (steps(reply), reply["leading"]) == ([], 2)


async def test_routes_callbacks_tables_and_properties_are_steps(ask: Any) -> None:
    route = (6, "decorator", "save_page"), (10, "call", "save")
    assert steps(await ask(ROUTES, "Router.route", "save")) == [["Router.route", *route]]
    reply = await ask(ROUTES, "Router.dispatch", "save")
    assert steps(reply) == [["Router.dispatch", *route]]
    first = reply["chains"][0]["steps"][0]
    assert (first["confidence"], first["reason"]) == (0.3, "@router.route")
    assert steps(await ask(ROUTES, "handle", "remove")) == [
        ["handle", (19, "table", "HANDLERS"), (14, "table", "remove")]
    ]
    assert steps(await ask(ROUTES, "schedule", "load")) == [["schedule", (23, "callback", "load")]]
    assert steps(await ask(ROUTES, "Pages.show", "save")) == [
        ["Pages.show", (32, "call", "Pages.first"), (29, "call", "save")]
    ]
    store = (
        "function count(items) {\n  return items.length;\n}\n"
        "export class Store {\n  get size() {\n    return count(this.items);\n  }\n}\n"
        "export function sizeOf(store) {\n  return store.size;\n}\n"
    )
    assert steps(await ask({"store.ts": store}, "sizeOf", "count")) == [
        ["sizeOf", (10, "call", "Store.size"), (6, "call", "count")]
    ]


async def test_a_call_of_a_base_may_run_an_override(ask: Any) -> None:
    files = {
        "base.py": "class Base:\n    def pay(self):\n        pass\n",
        "card.py": (
            "from base import Base\n\n\nclass Card(Base):\n    def pay(self):\n        pass\n"
        ),
        "shop.py": "from base import Base\n\n\ndef sell(base: Base):\n    base.pay()\n",
    }
    assert steps(await ask(files, "sell", "Card.pay")) == [
        ["sell", (5, "call", "Base.pay"), (4, "override", "Card.pay")]
    ]


async def test_a_longer_chain_is_preferred_to_a_guess(ask: Any) -> None:
    files = {
        "bank.py": "class Bank:\n    def pay(self):\n        pass\n",
        "shop.py": (
            "from bank import Bank\n\n\ndef main(it):\n    it.pay()\n    step()\n\n\n"
            "def step():\n    Bank.pay(None)\n"
        ),
    }
    assert steps(await ask(files, "main", "Bank.pay")) == [
        ["main", (6, "call", "step"), (10, "call", "Bank.pay")]
    ]
    files["shop.py"] = files["shop.py"].replace("    step()\n", "")
    reply = await ask(files, "main", "Bank.pay")
    assert steps(reply) == [["main", (5, "call", "Bank.pay")]]
    assert reply["chains"][0]["steps"][0]["confidence"] == 0.5


async def test_without_a_chain_the_nearest_is_named(ask: Any, app: App, project_id: str) -> None:
    reply = await ask(ROUTES, "handle", "write")
    assert (reply["chains"], reply["reached"], reply["leading"]) == ([], 2, 1)
    assert [(end["symbol"], end["registered"]) for end in reply["ends"]] == [
        ("export", 'web/pages.py:35 @flask.get("/export")')
    ]
    report = await app.symbols.ask(symbol_question("path", "handle", to="write"), project_id)
    assert symbol_text(report, 2_000) == (
        "no chain of calls from handle to write\n"
        "handle reaches 2 definitions, write is reached from 1; nothing was found that calls:\n"
        '  export web/pages.py:36-37 [35  @flask.get("/export")]'
    )


async def test_the_text_names_each_step_once(ask: Any, app: App, project_id: str) -> None:
    await ask(SHOP, "main", "check")
    more = (
        "from shop.pay import charge\n\n\ndef main():\n    first()\n\n\n"
        "def first():\n    last()\n\n\ndef last():\n    charge(1)\n"
    )
    await ask({**SHOP, "web/more.py": more}, "main", "check")
    report = await app.symbols.ask(symbol_question("path", "main", to="check"), project_id)
    assert symbol_text(report, 2_000) == (
        "1. 4 steps from main web/more.py:4-5\n"
        "  5 → first web/more.py:8-9\n"
        "  9 → last web/more.py:12-13\n"
        "  13 → charge shop/pay.py:1-2\n"
        "  2 → check shop/pay.py:5-6\n"
        "2. 4 steps from main shop/app.py:5-7\n"
        "  7 → run shop/app.py:10-11\n"
        "  11 → Cart.finish shop/cart.py:11-12 (0.60 the object is named like its class)\n"
        "  12 → charge (above)"
    )
    assert symbol_text(report, 240).splitlines()[-1] == (
        "more steps: 2 in shop/app.py, 1 in shop/cart.py"
    )


async def test_a_bounded_search_says_so(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_SEARCHES", ((0.5, 1, 5.0),))
    reply = await ask(SHOP, "main", "check")
    assert (reply["chains"], reply["is_bounded"]) == ([], True)


async def test_a_path_leads_from_a_name_to_a_name(
    make_repo: Any, app: App, call: Caller, project_id: str
) -> None:
    await app.index(make_repo(SHOP), project_id)
    arguments = {"operation": "path", "project_id": project_id}
    error = await call.error("symbol", **arguments, name="main")
    assert error["details"]["field"] == "to"
    error = await call.error("symbol", **arguments, to="main")
    assert error["details"]["field"] == "name"
    error = await call.error("symbol", **arguments, name="main", to="chrage")
    assert error["details"]["nearest"] == ["charge"]
