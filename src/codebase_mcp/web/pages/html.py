"""How do values and code become HTML?

Jinja2 escapes all values; a missing value is an error. Code is coloured by Pygments, line by line:
its hundred kinds of tokens become ten classes, which the style sheet colours for light and dark.
Invisible characters that change how code reads are shown as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Token
from pygments.util import ClassNotFound

from codebase_mcp.printable import printable, printable_line

_UNITS = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "hour"))

# Colouring takes about a second for a megabyte; larger texts are shown without colours.
MAX_COLOURED_CHARS = 400_000
# A longer line is cut: minified code has lines of megabytes.
MAX_LINE_CHARS = 2_000

_ALIASES = {
    "batch": "batch", "jl": "julia", "just": "make", "jsonc": "json", "embedded_template": "erb",
    "gotmpl": "go-html-template", "guile": "scheme", "heex": "html", "jenkinsfile": "groovy",
    "latex": "tex", "objc": "objective-c", "proto": "protobuf", "pwsh": "powershell",
    "solidity": "solidity", "vue": "html", "svelte": "html", "astro": "html", "dtd": "xml",
    "gitignore": "text", "escript": "erlang", "wat": "wast",
}  # fmt: skip

# The classes of tokens, the most specific first.
_CLASSES = (
    (Token.Comment, "c"),
    (Token.Literal.String.Doc, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "t"),
    (Token.Name.Namespace, "t"),
    (Token.Name.Decorator, "d"),
    (Token.Name.Builtin, "b"),
    (Token.Name.Constant, "b"),
    (Token.Name.Exception, "t"),
    (Token.Name.Tag, "k"),
    (Token.Name.Attribute, "f"),
    (Token.Generic.Heading, "t"),
    (Token.Generic.Subheading, "t"),
    (Token.Generic.Strong, "t"),
)
_OPENING = {name: Markup('<span class="{}">').format(name) for _, name in _CLASSES}
_CLOSING = Markup("</span>")


@cache
def environment() -> Environment:
    """The templates of this package, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("codebase_mcp.web.pages"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "line": lambda text: printable_line(str(text)),
        "lines": lambda text: printable(str(text)),
        "ago": ago,
        "moment": moment,
        "size": size,
        "count": lambda number: f"{number:,}".replace(",", "\u202f"),
        "clip": clip,
        "tail": tail,
        "href": href,
    }
    made.tests["commit_hash"] = re.compile("[0-9a-f]{40}").fullmatch
    return made


def moment(at: datetime | str | None) -> str:
    """A time in UTC, to the second."""
    time = _time(at)
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime | str | None) -> str:
    """How long ago a time is."""
    time = _time(at)
    if time is None:
        return "never"
    seconds = (datetime.now(UTC) - time).total_seconds()
    for length, unit in (*_UNITS, (60, "minute")):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def size(count: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def clip(text: Any, most: int) -> str:
    """The beginning of a text, in a line."""
    line = printable_line(" ".join(str(text).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def tail(text: str, most: int) -> str:
    """The end of a path."""
    line = printable_line(text)
    return line if len(line) <= most else "…" + line[1 - most :]


def href(url: str) -> Markup:
    """The attribute of a link; nothing where there is no address."""
    return Markup(' href="{}"').format(url) if url else Markup()


def _time(at: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(at) if isinstance(at, str) else at


class Line(NamedTuple):
    """A line of code as HTML; ``is_match`` says that it answers the question."""

    number: int
    html: Markup
    is_match: bool = False


def coloured(lines: Sequence[str], language: str, path: str) -> list[Markup]:
    """Some lines, as HTML, without their ends."""
    plain = [printable(line.rstrip("\r\n")) for line in lines]
    shown = [cut if len(line) > MAX_LINE_CHARS else line
             for line in plain for cut in [line[:MAX_LINE_CHARS] + " …"]]  # fmt: skip
    text = "\n".join(shown)
    if len(text) > MAX_COLOURED_CHARS:
        return [escape(line) for line in shown]
    html = list(_split(_lexer(language, path.rpartition("/")[2]), text))
    # Where a lexer has lost a line end, the plain lines are shown.
    return html[: len(shown)] if len(html) >= len(shown) else [escape(line) for line in shown]


def _split(lexer: Lexer, text: str) -> Iterator[Markup]:
    """The tokens of a text, line by line."""
    pieces: list[Markup] = []
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        name = _class_of(kind)
        for index, part in enumerate(value.split("\n")):
            if index:
                yield Markup("").join(pieces)
                pieces = []
            if part:
                pieces.append(_OPENING[name] + part + _CLOSING if name else escape(part))
    yield Markup("").join(pieces)


@lru_cache(256)
def _class_of(kind: object) -> str:
    return next((name for of, name in _CLASSES if kind in of), "")


@lru_cache(256)
def _lexer(language: str, name: str) -> Lexer:
    """The lexer of a language, else of a file name, else of plain text."""
    try:
        lexer = find_lexer_class_by_name(_ALIASES.get(language, language))
    except ClassNotFound:
        lexer = find_lexer_class_for_filename(name) or TextLexer
    return lexer(stripnl=False, ensurenl=False)
