"""The tool ``symbol``: who defines and uses a name, through a real client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from tests.contract.conftest import Caller

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import Operation, SymbolQuestion
from codebase_mcp.symbols.lookup import parse_place
from codebase_mcp.tools.replies.symbols import symbol_text
from codebase_mcp.tools.reply import as_text
from codebase_mcp.tools.server import AppHolder, server_of

pytestmark = pytest.mark.anyio

SHOP = {
    "shop/pay.py": (
        "def charge(card):\n    return check(card)\n\n\ndef check(card):\n    return card\n"
    ),
    "shop/base.py": "class Base:\n    def sell(self, card):\n        raise NotImplementedError\n",
    "shop/shop.py": (
        "from shop.base import Base\n"
        "from shop.pay import charge as take\n"
        "from shop import pay\n"
        "\n"
        "\n"
        "class Shop(Base):\n"
        "    def sell(self, card):\n"
        "        self.log(card)\n"
        "        return take(card) or pay.charge(None)\n"
        "\n"
        "    def log(self, card):\n"
        "        print(card)\n"
        "\n"
        "    def again(self, card):\n"
        "        return self.sell(card)\n"
    ),
    "shop/other.py": (
        "import stripe\n\n\ndef go(it):\n    stripe.charge(1)\n    return it.charge(2)\n"
    ),
    "tests/test_shop.py": "from shop.pay import charge\n\n\ndef test_it():\n    assert charge(1)\n",
    "notes.md": "# charge\n\nHow to charge.\n",
}


@pytest.fixture
def toolsets() -> list[str]:
    return ["symbols"]


@pytest.fixture
async def shop(make_repo: Callable[..., Path], app: App, project_id: str) -> Path:
    root = make_repo(SHOP)
    await app.index(root, project_id)
    return root


@pytest.fixture
async def ask(shop: Path, call: Caller, project_id: str) -> Any:
    async def ask(operation: str, **arguments: Any) -> dict[str, Any]:
        return await call.ok("symbol", operation=operation, project_id=project_id, **arguments)

    return ask


async def test_a_definition_by_name_and_by_qualified_name(
    ask: Any, call: Caller, project_id: str
) -> None:
    reply = await ask("definition", name="sell")
    assert [(one["symbol"], one["file_path"]) for one in reply["definitions"]] == [
        ("Base.sell", "shop/base.py"),
        ("Shop.sell", "shop/shop.py"),
    ]
    assert (await call.ok("symbol", name="sell", project_id=project_id))["total"] == 2
    for name in ("Shop.sell", "Shop::sell", "shop.shop.sell", "SHOP.sell()"):
        [one] = (await ask("definition", name=name))["definitions"]
        assert (one["kind"], one["start_line"], one["end_line"]) == ("method", 7, 9)
        assert one["signature"] == "def sell(self, card):"


async def test_a_place_is_what_it_defines_or_what_it_uses(ask: Any) -> None:
    [one] = (await ask("definition", place="shop/pay.py:1"))["definitions"]
    assert one["symbol"] == "charge"
    reply = await ask("definition", place="./shop/shop.py:9")
    assert [(one["definition"], one["reason"]) for one in reply["references"]] == [
        ("shop/pay.py:1", "imported from shop.pay"),
        ("shop/pay.py:1", "imported from shop.pay"),
    ]
    reply = await ask("references", place="pay.py:2")
    assert reply["definitions"][0]["symbol"] == "charge"


async def test_references_say_where_how_and_how_sure(ask: Any) -> None:
    reply = await ask("references", name="charge")
    assert [
        (one["file_path"], one["line"], one["kind"], one["enclosing"], one["confidence"])
        for one in reply["references"]
    ] == [
        ("shop/shop.py", 9, "call", "Shop.sell", 0.95),
        ("shop/shop.py", 9, "call", "Shop.sell", 0.95),
        ("shop/shop.py", 2, "import", None, 0.95),
        ("tests/test_shop.py", 5, "call", "test_it", 0.95),
        ("tests/test_shop.py", 1, "import", None, 0.95),
    ]
    first = reply["references"][0]
    assert first["text"] == "return take(card) or pay.charge(None)"
    assert first["reason"] == "imported from shop.pay"
    assert first["definition"] == "shop/pay.py:1"
    assert reply["total"] == 5
    assert (reply["unlikely"], reply["unresolved"]) == (0, 2)
    reply = await ask("references", name="charge", limit=2)
    assert (len(reply["references"]), reply["left_out"]) == (2, 3)


async def test_a_name_that_is_only_used_is_found_by_its_name(ask: Any) -> None:
    reply = await ask("references", name="print")
    [one] = reply["references"]
    assert (one["line"], one["definition"], one["confidence"]) == (12, None, 0.5)
    assert one["reason"] == "not defined here, by its name alone"


UNRESOLVED = {
    "pay.py": "class Card:\n    pass\n\n\ndef charge(card):\n    return card\n",
    "shop.py": (
        "from json import charge\n"
        "from bank.pay import charge as take\n"
        "from bank.card import Card\n"
        "\n"
        "\n"
        "class Gift(Card):\n"
        "    pass\n"
        "\n"
        "\n"
        "def sell(it):\n"
        "    charge(1)\n"
        "    return take(it) or it.charge(2)\n"
    ),
    "other.js": "charge(1);\nit.charge(2);\n",
}


async def test_a_use_that_cannot_be_resolved_is_counted_whatever_is_asked(
    make_repo: Any, app: App, call: Caller, project_id: str
) -> None:
    await app.index(make_repo(UNRESOLVED), project_id)

    async def ask(operation: str, name: str) -> tuple[int | None, int]:
        reply = await call.ok("symbol", operation=operation, project_id=project_id, name=name)
        return reply.get("unlikely"), reply["unresolved"]

    # Not those of the standard library, nor those of another language.
    assert await ask("references", "charge") == (4, 3)
    assert await ask("callers", "charge") == (None, 2)
    assert await ask("implementations", "Card") == (None, 1)
    assert await ask("callees", "sell") == (None, 2)
    lasts: dict[Operation, str] = {
        "references": "other uses of this name: 4 of something else, 3 could not be resolved",
        "callers": "2 more uses of this name could not be resolved",
    }
    for operation, last in lasts.items():
        question = SymbolQuestion(operation, name="charge")
        report = await app.symbols.ask(question, project_id)
        assert symbol_text(report, 2000).splitlines()[-1] == last


async def test_callers_and_callees_are_trees(ask: Any) -> None:
    reply = await ask("callers", name="pay.check", depth=3)
    assert [(one["level"], one["symbol"], one["lines"]) for one in reply["calls"]] == [
        (0, "check", []),
        (1, "charge", [2]),
        (2, "Shop.sell", [9]),
        (3, "Shop.again", [15]),
        (2, "test_it", [5]),
    ]
    assert len((await ask("callers", name="pay.check"))["calls"]) == 2
    reply = await ask("callees", name="again", depth=3)
    assert [(one["level"], one["symbol"], one["lines"]) for one in reply["calls"]] == [
        (0, "Shop.again", []),
        (1, "Shop.sell", [15]),
        (2, "Shop.log", [8]),
        (2, "charge", [9]),
        (3, "check", [2]),
    ]


async def test_a_cycle_ends(make_repo: Any, app: App, call: Caller, project_id: str) -> None:
    text = "def a():\n    b()\n\n\ndef b():\n    a()\n"
    await app.index(make_repo({"a.py": text}), project_id)
    for operation in ("callers", "callees"):
        reply = await call.ok(
            "symbol", operation=operation, project_id=project_id, name="a", depth=3
        )
        assert [(one["level"], one["symbol"]) for one in reply["calls"]] == [
            (0, "a"), (1, "b"), (2, "a"),
        ]  # fmt: skip
        assert reply["calls"][-1]["is_again"]


async def test_implementations_are_subclasses_and_overrides(ask: Any) -> None:
    [one] = (await ask("implementations", name="Base"))["implementations"]
    assert (one["symbol"], one["of"], one["confidence"]) == ("Shop", "Base", 0.95)
    [one] = (await ask("implementations", name="Base.sell"))["implementations"]
    assert (one["symbol"], one["start_line"]) == ("Shop.sell", 7)
    assert one["reason"] == "Shop inherits: imported from shop.base"


async def test_an_outline_of_a_file_is_nested_and_of_a_directory_is_not(ask: Any) -> None:
    [file] = (await ask("outline", path="shop/shop.py"))["files"]
    assert [(one["symbol"], one["depth"]) for one in file["definitions"]] == [
        ("Shop", 0),
        ("Shop.sell", 1),
        ("Shop.log", 1),
        ("Shop.again", 1),
    ]
    files = (await ask("outline", path="shop"))["files"]
    assert [one["file_path"] for one in files] == [
        "shop/base.py", "shop/other.py", "shop/pay.py", "shop/shop.py",
    ]  # fmt: skip
    assert [one["symbol"] for one in files[-1]["definitions"]] == ["Shop"]


async def test_an_unknown_name_comes_with_the_nearest(
    shop: Path, call: Caller, project_id: str
) -> None:
    for operation in ("definition", "references", "callers", "implementations"):
        error = await call.error(
            "symbol", operation=operation, project_id=project_id, name="chrage"
        )
        assert error["code"] == "NOT_FOUND"
        assert error["details"]["nearest"] == ["charge"]
    error = await call.error("symbol", operation="outline", project_id=project_id, path="nowhere")
    assert error["code"] == "NOT_FOUND"


async def test_entries_are_those_of_the_files_that_are_asked_about(ask: Any) -> None:
    async def paths(operation: str, name: str, **arguments: Any) -> tuple[list[str], int]:
        reply = await ask(operation, name=name, **arguments)
        entries = reply.get("references") or reply.get("calls") or reply["definitions"]
        return [one["file_path"] for one in entries], reply.get("filtered_out", 0)

    both = ["shop/shop.py"] * 3, 2
    assert await paths("references", "charge", tests=False) == both
    assert await paths("references", "charge", kinds=["code", "test"], tests=False) == both
    assert await paths("references", "charge", directory="shop") == both
    assert await paths("references", "charge", kinds=["test"]) == (["tests/test_shop.py"] * 2, 3)
    asked = ["shop/pay.py", "shop/shop.py"]
    assert await paths("callers", "charge", tests=False) == (asked, 1)
    assert await paths("callees", "Shop.again", directory="tests") == (["shop/shop.py"], 1)
    assert await paths("definition", "sell", directory="shop/*e.py") == (["shop/base.py"], 1)
    reply = await ask("implementations", name="Base", kinds=["test"])
    assert (reply["implementations"], reply["filtered_out"]) == ([], 1)


async def test_definitions_come_with_their_text(ask: Any, app: App, project_id: str) -> None:
    bodies = [
        "    def sell(self, card):\n        raise NotImplementedError",
        "    def sell(self, card):\n        self.log(card)\n"
        "        return take(card) or pay.charge(None)",
    ]
    reply = await ask("definition", name="sell", body=True)
    assert [one["body"] for one in reply["definitions"]] == bodies
    assert "body_left" not in reply["definitions"][0]
    reply = await ask("definition", place="shop/shop.py:9", body=True)
    assert [one["body"] for one in reply["definitions"]] == [
        "def charge(card):\n    return check(card)"
    ]
    most = len(as_text(await ask("definition", name="sell"))) + 200
    reply = await ask("definition", name="sell", body=True, max_chars=most)
    assert len(as_text(reply)) <= most
    assert [(one["body"], one.get("body_left", 0)) for one in reply["definitions"]] == [
        (bodies[0], 0), (bodies[1].rpartition("\n")[0], 1),
    ]  # fmt: skip
    question = SymbolQuestion("definition", name="sell", body=True)
    report = await app.symbols.ask(question, project_id)
    assert symbol_text(report, 1_000) == (
        "2 definitions of sell\n"
        "Base.sell shop/base.py:2-3 method\n"
        "2      def sell(self, card):\n"
        "3          raise NotImplementedError\n"
        "Shop.sell shop/shop.py:7-9 method\n"
        "7      def sell(self, card):\n"
        "8          self.log(card)\n"
        "9          return take(card) or pay.charge(None)"
    )
    assert symbol_text(report, 250) == (
        "2 definitions of sell\n"
        "Base.sell shop/base.py:2-3 method\n"
        "2      def sell(self, card):\n"
        "3          raise NotImplementedError\n"
        "shop/shop.py:7-9 method Shop.sell: def sell(self, card):"
    )
    question = SymbolQuestion("definition", name="Shop.again", body=True)
    report = await app.symbols.ask(question, project_id)
    assert symbol_text(report, 100).splitlines()[1:] == [
        "14      def again(self, card):", " …   [1 line: 15-15]",
    ]  # fmt: skip
    question = SymbolQuestion("definition", place=parse_place("shop/shop.py:9"))
    report = await app.symbols.ask(question, project_id)
    assert symbol_text(report, 400).startswith("used at shop/shop.py:9 in Shop.sell:\n")


async def test_the_product_comes_first_and_what_is_only_possible_last(
    make_repo: Any, app: App, call: Caller, project_id: str
) -> None:
    files = {
        "pay.py": "def charge(card):\n    return card\n",
        "gift.py": "class Gift:\n    def charge(self):\n        return self.charge()\n",
        "card.py": "class Card:\n    def charge(self):\n        pass\n",
        "examples/a.py": "from pay import charge\n\ncharge(1)\n",
        "tests/test_a.py": "from pay import charge\n\ncharge(1)\n",
        "web/shop.py": "def sell(it):\n    it.charge(1)\n\n\ndef more(it):\n    it.charge(2)\n",
        "web/app.py": "from pay import charge\n\n\ndef run():\n    charge(1)\n    charge(2)\n",
    }
    await app.index(make_repo(files), project_id)
    reply = await call.ok(
        "symbol", operation="references", name="charge", limit=7, project_id=project_id
    )
    assert [(one["file_path"], one["line"]) for one in reply["references"]] == [
        ("web/app.py", 5), ("web/app.py", 6), ("web/app.py", 1),
        ("gift.py", 3),
        ("examples/a.py", 3), ("examples/a.py", 1),
        ("tests/test_a.py", 3),
    ]  # fmt: skip
    assert reply["left_out_by_folder"] == {"web": 2, "tests": 1}
    report = await app.symbols.ask(SymbolQuestion("references", name="charge"), project_id)
    assert symbol_text(report, 320).splitlines()[4:] == [
        "web/app.py → charge",
        "  1 import",
        "  run 4-6: 5, 6",
        "gift.py → Gift.charge",
        "  Gift.charge 2-3: 3",
        "more: 2 in examples/a.py",
        "tests: 2 in tests/test_a.py",
        "only possible: 2 in web/shop.py",
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"operation": "references", "name": "a", "kinds": ["test"], "tests": False}, "tests"),
        ({"operation": "references", "name": "a", "body": True}, "body"),
        ({"operation": "outline", "path": "shop", "directory": "shop"}, "directory"),
        ({"operation": "definition"}, "name"),
        ({"operation": "definition", "name": "a", "place": "a.py:1"}, "name"),
        ({"operation": "callers", "place": "nowhere"}, "place"),
        ({"operation": "outline", "name": "a"}, "name"),
        ({"operation": "references", "name": "a", "depth": 2}, "depth"),
        ({"operation": "callers", "name": "a", "depth": 4}, "depth"),
        ({"operation": "callers", "name": "a", "ref": "main dev"}, "ref"),
        ({"operation": "callers", "name": "a", "ref": "main..dev"}, "ref"),
        ({"operation": "definition", "place": "shop:1"}, "place"),
    ],
)
async def test_what_does_not_fit_is_refused(
    shop: Path, call: Caller, project_id: str, arguments: dict[str, Any], field: str
) -> None:
    error = await call.error("symbol", project_id=project_id, **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == field


async def test_json_fits_its_budget(ask: Any) -> None:
    reply = await ask("references", name="charge", max_chars=1_200)
    assert 0 < len(reply["references"]) < 5
    assert len(reply["references"]) + reply["left_out"] == reply["total"] == 5


async def test_agents_get_a_text(
    shop: Path, settings: Settings, project_id: str, tmp_path: Path, mode: Any
) -> None:
    holder = AppHolder(replace(settings, project_dir=shop, replies="text"))
    async with Client(server_of(holder, ["symbols"]), mode=mode) as client:

        async def text(operation: str, **arguments: Any) -> str:
            asked = {"operation": operation, "project_id": project_id, **arguments}
            result = await client.call_tool("symbol", asked)
            assert result.structured_content is None
            [block] = result.content
            return str(block.text)

        assert await text("references", name="charge") == (
            "5 uses of charge: 3 call, 2 import\n"
            "defined shop/pay.py:1-2 function: def charge(card):\n"
            "shop/shop.py\n"
            "  2  from shop.pay import charge as take\n"
            "  Shop.sell 7-9: 9  return take(card) or pay.charge(None)\n"
            "tests:\n"
            "tests/test_shop.py\n"
            "  1  from shop.pay import charge\n"
            "  test_it 4-5: 5  assert charge(1)\n"
            "2 more uses of this name could not be resolved"
        )
        assert await text("callers", name="check", depth=2) == (
            "shop/pay.py:5-6 function: def check(card):\n"
            "called by:\n"
            "  charge shop/pay.py:2\n"
            "    Shop.sell shop/shop.py:9\n"
            "    test_it tests/test_shop.py:5"
        )
        assert await text("outline", path="shop/shop.py") == (
            "shop/shop.py python, 4 definitions\n"
            "6-15 class Shop(Base):\n"
            "  7-9 def sell(self, card):\n"
            "  11-12 def log(self, card):\n"
            "  14-15 def again(self, card):"
        )
        cut = await text("references", name="charge", max_chars=300)
        assert len(cut) <= 300
        assert cut == (
            "5 uses of charge: 3 call, 2 import\n"
            "defined shop/pay.py:1-2 function: def charge(card):\n"
            "shop/shop.py\n"
            "  2 import\n"
            "  Shop.sell 7-9: 9\n"
            "tests:\n"
            "tests/test_shop.py\n"
            "  1 import\n"
            "  test_it 4-5: 5\n"
            "2 more uses of this name could not be resolved"
        )
        cut = await text("references", name="charge", max_chars=230)
        assert cut.splitlines()[2:-1] == [
            "shop/shop.py", "  2 import", "  Shop.sell 7-9: 9", "tests: 2 in tests/test_shop.py",
        ]  # fmt: skip
        cut = await text("references", name="charge", tests=False, max_chars=300)
        assert cut.splitlines()[5:] == [
            "2 more uses of this name could not be resolved", "left out by the filters: 2",
        ]  # fmt: skip


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("ref", ["", "HEAD"])
async def test_a_repository_of_another_project_is_not_found_in_any_state(
    call: Caller, project_id: str, ref: str
) -> None:
    asked = {"name": "charge", "repository_id": "00000000-0000-4000-8000-000000000000"}
    state = {"ref": ref} if ref else {}
    error = await call.error("symbol", **asked, **state, project_id=project_id)
    assert error["code"] == "PROJECT_NOT_FOUND"
