"""Fields, constants and keys of configuration are names that are read and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.answer import SymbolFacts, SymbolQuestion
from codebase_mcp.symbols.lookup import parse_place
from codebase_mcp.tools.replies.symbols import symbol_text
from codebase_mcp.tools.symbols import symbol_reply

pytestmark = pytest.mark.anyio

FILES = {
    "shop/settings.py": (
        "LIMIT = 3\n\n\nclass Settings:\n    timeout_s: float = 5\n\n\n"
        "class Box:\n    def __init__(self, size):\n        self.size = size\n\n"
        "    def grow(self):\n        self.size = self.size * LIMIT\n"
    ),
    "shop/main.py": (
        "from shop.settings import LIMIT, Box, Settings\nfrom shop.now import settings\n\n\n"
        "def main(other):\n    Settings(timeout_s=3)\n"
        "    print(settings.timeout_s, other.timeout_s)\n"
        "    timeout_s = 1\n    print(timeout_s)\n    if other > LIMIT:\n        Box(size=1)\n"
    ),
    "shop/now.py": "settings = None\n",
    "shop/table.py": 'ROWS = {"timeout_s": "seconds", "other": "timeout_s of it"}\n',
    "docs/a.md": "The setting `timeout_s`.\n",
    "web/pick.ts": "type Wide = Box['width'];\n",
    "shop.toml": "[tool.shop]\ntimeout_s = 5\nretries = 2\n",
    ".env.example": "export SHOP_URL=here\n",
    "tables.sql": "CREATE TABLE orders (id int, paid_at text);\n",
    "web/color.ts": "export enum Color { Red, Green }\nexport interface Box { width: number }\n",
    "web/draw.ts": (
        "import { Box, Color } from './color';\n"
        "export const box: Box = { width: 1 };\n"
        "export function draw(b: Box) {\n  return b.width + Color.Red;\n}\n"
    ),
    "go/go.mod": "module ex.org/shop\n",
    "go/a.go": "package shop\n\nconst most, least = 9, 1\n\ntype Box struct{ Width int }\n",
    "go/b.go": (
        "package shop\n\nfunc (b *Box) wide() bool { return b.Width > most }\n\n"
        "func make(least int) Box { return Box{Width: least} }\n"
    ),
    "java/Base.java": "class Base { int depth; static final int MOST = 9; }\n",
    "java/Deep.java": (
        "class Deep extends Base {\n  int get() { return depth + Base.MOST; }\n"
        "  int set(int more) { this.depth = more; return more; }\n}\n"
    ),
}


@pytest.fixture
async def ask(app: App, project_id: str, make_repo: Callable[..., Path]) -> Callable[..., Any]:
    await app.index(make_repo(FILES), project_id)

    async def answer(operation: str, name: str) -> SymbolFacts:
        place = parse_place(name)
        question = SymbolQuestion(
            operation,  # type: ignore[arg-type] # - of the tests below
            name=None if place else name,
            place=place,
        )
        return (await app.symbols.ask(question, project_id)).facts

    return answer


@pytest.mark.parametrize(
    ("name", "defined", "uses"),
    [
        (
            "timeout_s",
            ["shop/settings.py:5 field"],
            {"shop/main.py:6": 0.95, "shop/main.py:7": 0.6},
        ),
        (
            "Box.size",
            ["shop/settings.py:10 attribute"],
            {"shop/settings.py:13": 0.95, "shop/main.py:11": 0.5},
        ),
        (
            "LIMIT",
            ["shop/settings.py:1 constant"],
            {"shop/settings.py:13": 0.95, "shop/main.py:1": 0.95, "shop/main.py:10": 0.95},
        ),
        ("retries", ["shop.toml:3 entry"], {}),
        ("SHOP_URL", [".env.example:1 entry"], {}),
        ("orders.paid_at", ["tables.sql:1 field"], {}),
        ("Color.Red", ["web/color.ts:1 enumerator"], {"web/draw.ts:4": 0.95}),
        (
            "width",
            ["web/color.ts:2 field"],
            {"web/draw.ts:2": 0.95, "web/draw.ts:4": 0.5, "web/pick.ts:1": 0.6},
        ),
        ("most", ["go/a.go:3 constant"], {"go/b.go:3": 0.9}),
        ("least", ["go/a.go:3 constant"], {}),
        ("Width", ["go/a.go:5 field"], {"go/b.go:3": 0.9, "go/b.go:5": 0.9}),
        ("depth", ["java/Base.java:1 field"], {"java/Deep.java:2": 0.85, "java/Deep.java:3": 0.85}),
        ("MOST", ["java/Base.java:1 constant"], {"java/Deep.java:2": 0.9}),
    ],
)
async def test_a_field_is_found_with_its_reads_and_writes(
    ask: Callable[..., Any], name: str, defined: list[str], uses: dict[str, float]
) -> None:
    references = (await ask("references", name)).references
    assert references is not None
    assert [
        f"{each.file.path}:{each.start_line} {each.kind}" for each in references.definitions
    ] == defined
    found: dict[str, float] = {}
    for match in references.uses:
        place = f"{match.use.file.path}:{match.use.line}"
        found[place] = max(found.get(place, 0), match.confidence)
    assert found == uses


async def test_a_field_is_what_its_line_is_about_and_no_definition_around_a_line(
    ask: Callable[..., Any],
) -> None:
    at_field = (await ask("definition", "shop/settings.py:5")).definitions
    assert [each.qualified for each in at_field] == ["Settings.timeout_s"]
    at_attribute = (await ask("references", "shop/settings.py:10")).references
    assert at_attribute is not None
    assert [each.qualified for each in at_attribute.definitions] == ["Box.__init__"]
    references = (await ask("references", "LIMIT")).references
    assert references is not None
    assert {match.enclosing for match in references.uses} == {"Box.grow", "main", None}


async def test_an_outline_has_no_fields(ask: Callable[..., Any]) -> None:
    outline = (await ask("outline", "shop/settings.py")).outline
    assert outline is not None
    assert [each.qualified for each in outline.files[0].definitions] == [
        "LIMIT",
        "Settings",
        "Box",
        "Box.__init__",
        "Box.grow",
    ]


async def test_strings_that_equal_the_name_are_the_same_text(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await app.symbols.ask(SymbolQuestion("references", name="timeout_s"), project_id)
    assert report.same_text is not None
    assert report.same_text.count == 2
    assert [(line.path, line.line) for line in report.same_text.lines] == [
        ("shop/table.py", 1),
        ("docs/a.md", 1),
    ]
    assert "same text: 2 in shop/table.py:1, docs/a.md:1" in symbol_text(report, 4_000)
    reply = symbol_reply(report, None).as_json()
    assert reply["same_text_count"] == 2
    assert reply["same_text"][0] == {
        "file_path": "shop/table.py",
        "line": 1,
        "text": 'ROWS = {"timeout_s": "seconds", "other": "timeout_s of it"}',
    }
    report = await app.symbols.ask(SymbolQuestion("references", name="width"), project_id)
    assert report.same_text is not None
    assert report.same_text.count == 0  # the string is one of the uses
    report = await app.symbols.ask(SymbolQuestion("definition", name="width"), project_id)
    assert report.same_text is None
