"""Every language: which definitions a realistic text holds, and what its comments say.

The texts lie in ``snippets/``, each beside its definitions, a line ``kind qualified.name`` each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest

from codebase_mcp.chunking import syntax
from codebase_mcp.chunking.split import split
from codebase_mcp.chunking.symbols import KINDS
from codebase_mcp.model import ReferenceKind

SNIPPETS = Path(__file__).parent / "snippets"

LANGUAGES = sorted(path.stem for path in SNIPPETS.glob("*.txt"))

COMMENTS = {
    "bash": ["Adds one", "Routes requests"],
    "c": ["Adds one", "Routes requests"],
    "clojure": ["Adds one", "Routes requests"],
    "cmake": ["Routes requests"],
    "cpp": ["Routes requests"],
    "csharp": ["Keeps the routes", "Adds one"],
    "css": ["The front page"],
    "dart": ["Keeps the routes", "Adds one"],
    "dockerfile": ["Routes requests"],
    "elixir": ["Keeps the routes", "Adds one", "Adds a route"],
    "erlang": ["Adds one", "Routes requests"],
    "go": ["Router keeps the routes"],
    "graphql": ["Routes requests"],
    "haskell": ["Keeps the routes", "Adds one", "Routes requests"],
    "hcl": ["Routes requests"],
    "html": ["Adds one", "The front page"],
    "java": ["Keeps the routes", "Adds one"],
    "javascript": ["Adds one", "Where requests go"],
    "json": [],
    "julia": ["Adds one", "Routes requests"],
    "kotlin": ["Keeps the routes", "Adds one"],
    "lua": ["Adds one", "Routes requests"],
    "make": ["Routes requests"],
    "markdown": [],
    "ocaml": ["Adds one", "Routes requests"],
    "perl": ["Keeps the routes", "Routes requests"],
    "php": ["Keeps the routes", "Adds one"],
    "powershell": ["Routes requests"],
    "proto": ["Keeps the routes"],
    "python": ["Keeps the routes", "Routes requests", "forever", "Matches by prefix"],
    "r": ["Adds one"],
    "rst": ["Adds one"],
    "ruby": ["Keeps the routes", "Adds one", "Routes requests"],
    "rust": ["Keeps the routes", "Adds one", "Routes requests"],
    "scala": ["Keeps the routes", "Adds one"],
    "scss": ["The front page"],
    "sql": ["Routes requests", "Newest first"],
    "svelte": ["Adds one"],
    "swift": ["Keeps the routes", "Adds one"],
    "toml": ["Routes requests"],
    "tsx": ["Shows a title"],
    "typescript": ["Where requests go", "shared"],
    "vue": ["Adds one"],
    "xml": ["Routes requests"],
    "yaml": ["Routes requests"],
    "zig": ["Keeps the routes", "Adds one", "Routes requests"],
}


def _expected(language: str) -> list[str]:
    return (SNIPPETS / f"{language}.symbols").read_text(encoding="utf-8").splitlines()


def snippet(language: str) -> str:
    return (SNIPPETS / f"{language}.txt").read_text(encoding="utf-8")


def test_every_snippet_has_its_expectations() -> None:
    assert sorted(path.stem for path in SNIPPETS.glob("*.symbols")) == LANGUAGES
    assert sorted(COMMENTS) == LANGUAGES


def captures_of(folder: Traversable) -> Iterator[tuple[str, set[str]]]:
    """Each query of a folder, and what it captures."""
    for query in (file for file in folder.iterdir() if file.is_file()):
        code = re.sub(r";[^\n]*|\"[^\"\n]*\"", "", query.read_text(encoding="utf-8"))
        yield query.name, set(re.findall(r"@([\w.]+)", code))


def test_queries_have_no_predicate_but_the_one_that_is_tested_afterwards() -> None:
    """A predicate within a query leaks the tree, or crashes on a text that was read in pieces."""
    folder = Path(str(resources.files("codebase_mcp.chunking"))) / "queries"
    for path in folder.rglob("*.scm"):
        text = path.read_text(encoding="utf-8")
        assert text.isascii(), path
        assert "(#" not in syntax._ONE_OF.sub("", text), path


def test_queries_capture_nothing_outside_the_shared_vocabulary() -> None:
    folder = resources.files("codebase_mcp.chunking") / "queries"
    roles = {"name", "receiver", "comment", "lead", "keyword"}
    embedded = {f"embedded.{language}" for language in LANGUAGES}
    for name, captures in captures_of(folder):
        assert captures <= KINDS | roles | embedded, name
    roles = {"alias", "from", "statement", "part", "parameter", "local", "skip", "keyword"}
    roles |= {
        "self",
        "within",
        "declared",
        "holder",
        "result",
        "member",
        "key",
        "owner",
        "case",
        "read",
        "export",
    }
    for name, captures in captures_of(folder / "references"):
        assert captures <= set(ReferenceKind) | roles, name


@pytest.mark.parametrize("language", LANGUAGES)
def test_definitions_are_found_with_kind_and_qualified_name(language: str) -> None:
    symbols = split(snippet(language), language).symbols
    found = [f"{symbol.kind} {symbol.qualified}" for symbol in symbols]
    assert found == _expected(language)
    assert {symbol.kind for symbol in symbols} <= KINDS


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_name_is_the_last_component_and_stands_in_the_first_lines(language: str) -> None:
    text = snippet(language)
    lines = text.split("\n")
    for symbol in split(text, language).symbols:
        assert symbol.qualified == symbol.name or symbol.qualified.endswith("." + symbol.name)
        assert 1 <= symbol.start_line <= symbol.end_line <= len(lines)
        definition = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
        words = symbol.name.replace("[", " ").split()
        assert all(word in definition.replace("[", " ") for word in words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_comments_and_docstrings_are_collected(language: str) -> None:
    comments = " ".join(split(snippet(language), language).comments)
    for expected in COMMENTS[language]:
        assert expected in comments
    assert "def not_a_definition" not in comments


@pytest.mark.parametrize("language", LANGUAGES)
def test_windows_line_ends_change_nothing(language: str) -> None:
    text = snippet(language)
    assert split(text.replace("\n", "\r\n"), language) == split(text, language)
    assert split(text.replace("\n", "\r"), language) == split(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [("jsonc", '{"f": 1}'), ("php_only", "function f() {}")],
)
def test_dialects_use_the_query_of_their_language(language: str, text: str) -> None:
    assert [symbol.name for symbol in split(text, language).symbols] == ["f"]


def test_depth_counts_the_definitions_around() -> None:
    symbols = split(snippet("python"), "python").symbols
    depths = {symbol.qualified: symbol.depth for symbol in symbols}
    assert depths["Router"] == 0
    assert depths["Router.size"] == 1
    assert depths["Router.Meta.describe"] == 2


def test_lines_of_a_symbol_are_those_of_its_definition() -> None:
    text = "import os\n\n\ndef f():\n    return 1\n\n\nX = 2\n"
    symbols = split(text, "python").symbols
    assert [(s.name, s.start_line, s.end_line) for s in symbols] == [("f", 4, 5), ("X", 8, 8)]


def test_several_clauses_of_one_function_are_one_symbol() -> None:
    text = "defmodule A do\n  def f(0), do: 1\n  def f(n), do: n\n  def g(n), do: n\nend\n"
    symbols = split(text, "elixir").symbols
    assert [(s.qualified, s.start_line, s.end_line) for s in symbols] == [
        ("A", 1, 5),
        ("A.f", 2, 3),
        ("A.g", 4, 4),
    ]


def test_headings_lose_their_markup() -> None:
    text = '# <img src="logo.png"> The [guide](http://example.org/a) `now` #\n\ntext\n'
    assert [s.name for s in split(text, "markdown").symbols] == ["The guide now"]


def test_a_broken_text_still_gives_the_definitions_around_the_break() -> None:
    text = "def before():\n    pass\n\n\ndef broken(:\n    x = (\n\n\nclass After:\n    pass\n"
    names = {symbol.name for symbol in split(text, "python").symbols}
    assert "before" in names
