"""Every language: which definitions a realistic text holds, and what its comments say.

The texts lie in ``snippets/``; a line below reads ``kind qualified.name``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from codebase_mcp.chunking.split import split
from codebase_mcp.chunking.symbols import KINDS

SNIPPETS = Path(__file__).parent / "snippets"

EXPECTED = {
    "bash": """
constant LIMIT
constant NAME
function add_route
function serve
""",
    "c": """
macro LIMIT
macro ADD
type handler
struct router
struct point_t
enum method
type size
variable names
variable total
function router_add
function router_name
function main
""",
    "clojure": """
variable limit
function add-route
macro route
interface Matcher
struct Router
""",
    "cmake": """
constant LIMIT
function add_route
macro route
variable mux
""",
    "cpp": """
module mux.detail
class mux.detail.Router
method mux.detail.Router.Router
method mux.detail.Router.~Router
method mux.detail.Router.add
method mux.detail.Router.size
method mux.detail.Router.operator==
method mux.detail.Router.operator bool
struct mux.detail.Point
enum mux.detail.Method
type mux.detail.Path
trait mux.detail.Matcher
method mux.detail.Router.add
variable mux.detail.limit
function name
""",
    "csharp": """
class Router
constant Router.Limit
property Router.Count
property Router.Changed
method Router.Router
method Router.Add
function Router.Add.Next
interface IMatcher
method IMatcher.Matches
struct Point
class Route
enum Method
type Handler
""",
    "css": """
selector :root
selector .route > a:hover, #main
selector .menu
selector spin
""",
    "dart": """
class Router
method Router.Router
method Router.add
property Router.length
class Logs
enum Method
method Paths.normalise
type Handler
variable limit
function main
""",
    "dockerfile": """
section build
""",
    "elixir": """
module Mux.Router
function Mux.Router.add
function Mux.Router.normalise
function Mux.Router.empty?
macro Mux.Router.route
macro Mux.Router.is_path
interface Matcher
method Matcher.matches
""",
    "erlang": """
macro LIMIT
struct router
type path
function add
""",
    "go": """
constant Limit
constant First
constant Second
variable current
struct Router
interface Matcher
method Matcher.Match
type Path
struct List
method Router.Add
method List.Len
function Serve
""",
    "graphql": """
type Route
interface Matcher
enum Method
struct Filter
""",
    "haskell": """
type Router
type Path
type Table
trait Matcher
method Matcher.matches
method Router.matches
function add
function add.go
function limit
function <+>
""",
    "hcl": """
key aws_route.main
key locals
""",
    "html": """
function add
selector .route
""",
    "java": """
class Router
constant Router.LIMIT
method Router.Router
method Router.add
enum Router.Method
method Router.Method.safe
interface Matcher
method Matcher.matches
class Point
interface Route
""",
    "javascript": """
constant LIMIT
variable current
class Router
method Router.handle
method Router.constructor
method Router.add
function Router.add.normalise
function useRouter
function main
function walk
function parse
variable version
function Router.remove
variable handlers
function handlers.open
function handlers.close
""",
    "json": """
key name
key routes
key methods
""",
    "julia": """
module Mux
constant Mux.LIMIT
struct Mux.Router
function Mux.add
function Mux.double
macro Mux.route
""",
    "kotlin": """
constant LIMIT
class Router
property Router.size
method Router.add
method Router.empty
enum Router.Method
interface Matcher
method Matcher.matches
class Registry
method Registry.clear
function normalise
type Path
""",
    "lua": """
variable M
constant LIMIT
function M.add
function M.remove
function M.find
function normalise
variable handlers
function handlers.open
""",
    "make": """
constant LIMIT
function build
macro banner
""",
    "markdown": """
section Mux
section Mux.Adding routes
section Mux.Adding routes.Removing
""",
    "ocaml": """
module Router
type Router.t
function Router.add
variable Router.limit
interface Matcher
method Matcher.matches
function serve
type Not_found
class server
method server.start
""",
    "perl": """
module Mux.Router
function add
""",
    "php": """
constant LIMIT
class Router
constant Router.NAME
method Router.add
interface Matcher
method Matcher.matches
trait Logs
enum Method
function serve
variable router
""",
    "powershell": """
function Add-Route
class Router
""",
    "proto": """
struct Router
enum Router.Method
interface Routes
method Routes.Add
""",
    "python": """
constant DEFAULT_LIMIT
variable router
type Handler
class Router
method Router.__init__
method Router.size
class Router.Meta
method Router.Meta.describe
function serve
function serve.accept
""",
    "r": """
function add_route
variable limit
""",
    "rst": """
section Mux
section Adding routes
""",
    "ruby": """
constant LIMIT
module Mux
class Mux.Router
constant Mux.Router.METHODS
method Mux.Router.initialize
method Mux.Router.add!
method Mux.Router.build
method Mux.Router.==
class Mux.Error
method serve
""",
    "rust": """
constant LIMIT
constant NAME
type Path
struct Router
constant Router.EMPTY
method Router.add
method Router.fmt
enum Method
trait Matcher
method Matcher.matches
method Matcher.any
module inner
function inner.parse
macro route
function main
""",
    "scala": """
class Router
property Router.size
method Router.add
function Router.add.twice
class Router
property Router.ordering
type Router.Path
method Router.empty
trait Matcher
method Matcher.matches
enum Method
variable order
function serve
variable limit
""",
    "scss": """
variable $limit
macro card
function double
selector .route
selector .name
""",
    "sql": """
table mux.routes
view recent
function add_route
type method
""",
    "svelte": """
function add
selector .route
""",
    "swift": """
variable limit
class Router
property Router.routes
method Router.init
method Router.add
method Router.subscript
struct Point
property Point.x
enum Method
interface Matcher
method Matcher.matches
property Matcher.name
method Router.matches
type Path
function serve
""",
    "toml": """
key name
key tool.router
key routes
""",
    "tsx": """
interface Props
function Header
function Page
function Page.onClick
class Board
method Board.render
""",
    "typescript": """
interface Route
method Route.match
type Handler
enum Method
class Router
method Router.handle
method Router.add
class Matcher
method Matcher.matches
module Internal
function Internal.parse
module router
function connect
constant LIMIT
function useRouter
""",
    "vue": """
function add
interface Route
selector .route
""",
    "xml": """
""",
    "yaml": """
key name
key on
key jobs
""",
    "zig": """
variable std
struct Router
variable Router.empty
method Router.add
enum Router.Method
type Failure
variable total
function main
function adds a route
""",
}

COMMENTS = {
    "bash": ["Adds one", "Routes requests"],
    "c": ["Adds one", "Routes requests"],
    "clojure": ["Routes requests"],
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


def _snippet(language: str) -> str:
    return (SNIPPETS / f"{language}.txt").read_text(encoding="utf-8")


def test_every_snippet_has_its_expectations() -> None:
    languages = {path.stem for path in SNIPPETS.glob("*.txt")}
    assert set(EXPECTED) == languages
    assert set(COMMENTS) == languages


@pytest.mark.parametrize("language", sorted(EXPECTED))
def test_definitions_are_found_with_kind_and_qualified_name(language: str) -> None:
    symbols = split(_snippet(language), language).symbols
    found = [f"{symbol.kind} {symbol.qualified}" for symbol in symbols]
    assert found == EXPECTED[language].strip().splitlines()
    assert {symbol.kind for symbol in symbols} <= KINDS


@pytest.mark.parametrize("language", sorted(EXPECTED))
def test_the_name_is_the_last_component_and_stands_in_the_first_lines(language: str) -> None:
    text = _snippet(language)
    lines = text.split("\n")
    for symbol in split(text, language).symbols:
        assert symbol.qualified == symbol.name or symbol.qualified.endswith("." + symbol.name)
        assert 1 <= symbol.start_line <= symbol.end_line <= len(lines)
        definition = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
        words = symbol.name.replace("[", " ").split()
        assert all(word in definition.replace("[", " ") for word in words)


@pytest.mark.parametrize("language", sorted(COMMENTS))
def test_comments_and_docstrings_are_collected(language: str) -> None:
    comments = " ".join(split(_snippet(language), language).comments)
    for expected in COMMENTS[language]:
        assert expected in comments
    assert "def not_a_definition" not in comments


@pytest.mark.parametrize("language", sorted(EXPECTED))
def test_windows_line_ends_change_nothing(language: str) -> None:
    text = _snippet(language)
    assert split(text.replace("\n", "\r\n"), language) == split(text, language)
    assert split(text.replace("\n", "\r"), language) == split(text, language)


def test_depth_counts_the_definitions_around() -> None:
    symbols = split(_snippet("python"), "python").symbols
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
    assert [s.name for s in split(text, "markdown").symbols] == ["The guide `now"]


def test_a_broken_text_still_gives_the_definitions_around_the_break() -> None:
    text = "def before():\n    pass\n\n\ndef broken(:\n    x = (\n\n\nclass After:\n    pass\n"
    names = {symbol.name for symbol in split(text, "python").symbols}
    assert "before" in names
