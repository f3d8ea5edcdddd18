"""Entries of a long table are what lines are in: in exact text, in references, in searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.errors import NotFound
from codebase_mcp.search.search import Request
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.symbols.answer import Operation, SymbolFacts, SymbolQuestion
from codebase_mcp.symbols.lookup import parse_place
from codebase_mcp.tools.replies.exact import exact_text
from codebase_mcp.tools.replies.search import search_text
from codebase_mcp.tools.replies.symbols import symbol_text

WORDS = "amber birch cedar delta ember fjord grove heron inlet junco".split()
ENTRIES = "".join(
    f'    "{word}_{number}": make(\n        check_{number % 9},\n'
    f'        note="the {word} of the {n}",\n        kind={kind},\n    ),\n'
    for number, (word, n, kind) in enumerate(
        (word, n, kind) for n, kind in (("shore", "int"), ("wood", "str")) for word in WORDS
    )
)
CHECKS = ", ".join(f"check_{n}" for n in range(9))
FILES = {
    "src/table.py": f"from checks import {CHECKS}\n\n\nROWS = {{\n{ENTRIES}}}\n",
    "src/checks.py": "".join(
        f"def check_{n}(value):\n    return value > {n}\n\n\n" for n in range(9)
    ),
}


@pytest.fixture
async def repository(app: App, make_repo: Callable[..., Path], project_id: str) -> Path:
    root = make_repo(FILES)
    await app.index(root, project_id)
    return root


async def text_of(app: App, project_id: str, pattern: str) -> list[str]:
    report = await app.exact.find(TextQuestion(TextQuery(pattern)), project_id)
    return exact_text(report, 2_000).splitlines()[1:]


async def test_a_line_is_in_the_entry(app: App, project_id: str, repository: Path) -> None:
    assert repository
    expected = ["src/table.py", '  ROWS["heron_7"] 40-44: 42  note="the heron of the shore",']
    assert await text_of(app, project_id, "heron of the shore") == expected
    first = ["src/table.py", '  ROWS["heron_7"] 40-44: 40  "heron_7": make(']
    assert await text_of(app, project_id, "heron_7") == first


async def test_what_many_entries_have_is_in_the_table(
    app: App, project_id: str, repository: Path
) -> None:
    assert repository
    [path, line] = await text_of(app, project_id, "kind=int")
    assert path == "src/table.py"
    assert line.split() == [
        "ROWS", "4-105:", "8,", "13,", "18,", "23,", "28,", "33,", "38,", "43,", "48,", "53",
        "kind=int,",
    ]  # fmt: skip


async def ask(app: App, project_id: str, operation: Operation, name: str) -> SymbolFacts:
    place = parse_place(name)
    question = SymbolQuestion(operation, name=None if place else name, place=place)
    return (await app.symbols.ask(question, project_id)).facts


async def test_references_name_the_entry_but_no_name_leads_to_it(
    app: App, project_id: str, repository: Path
) -> None:
    assert repository
    references = (await ask(app, project_id, "references", "check_7")).references
    assert references is not None
    assert [use.enclosing for use in references.uses if use.use.line > 1] == [
        'ROWS["heron_7"]', 'ROWS["grove_16"]',
    ]  # fmt: skip
    report = await app.symbols.ask(SymbolQuestion("references", name="check_7"), project_id)
    assert 'ROWS["heron_7"] 40-44' in symbol_text(report, 2_000)
    with pytest.raises(NotFound) as missing:
        await ask(app, project_id, "definition", "heron_7")
    assert not missing.value.details["nearest"]
    [around] = (await ask(app, project_id, "callers", "src/table.py:40")).definitions
    assert around.qualified == "ROWS"
    outline = (await ask(app, project_id, "outline", "src/table.py")).outline
    assert outline is not None
    assert [symbol.qualified for symbol in outline.files[0].definitions] == ["ROWS"]


@pytest.mark.parametrize(
    ("query", "symbol", "lines"),
    [
        ("heron of the wood", 'ROWS["heron_17"]', (90, 94)),
        ('"the heron of the wood"', 'ROWS["heron_17"]', (90, 94)),
        ("rows", "ROWS", (4, 105)),
    ],
)
async def test_a_search_shows_the_entry_that_alone_has_the_words(
    app: App, project_id: str, repository: Path, query: str, symbol: str, lines: tuple[int, int]
) -> None:
    assert repository
    report = await app.search(query, project_id, Request(by_definition=True))
    hit = report.answer.hits[0]
    assert (hit.symbol, (hit.start_line, hit.end_line)) == (symbol, lines)
    assert f"1. src/table.py:{lines[0]}-{lines[1]}  " in search_text(report)
