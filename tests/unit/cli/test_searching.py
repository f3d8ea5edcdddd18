"""What a person sees of a search."""

from __future__ import annotations

import io
from typing import Any

from codebase_mcp.cli.searching import show
from codebase_mcp.cli.terminal import Terminal

EMPTY: dict[str, Any] = {
    "results": [],
    "total_count": 0,
    "latency_ms": 3.2,
    "index": {"state": "ready", "files_pending": 0},
}


def shown(reply: dict[str, Any]) -> list[str]:
    terminal, text = Terminal(), io.StringIO()
    terminal.file, terminal.width = text, 60
    show(reply, terminal)
    return text.getvalue().splitlines()


def test_a_weak_answer_is_explained_as_it_is_written() -> None:
    told = {
        "reasons": ["directory=src/[a-z]/api leaves none of 220 files, and so it goes on and on."],
        "words": {"login": 0},
        "nearest_words": {"login": ["authenticate", "session"]},
        "hint": "Try: authenticate, session.",
    }
    assert shown(EMPTY | {"help": told}) == [
        "Nothing in the code has to do with this.",
        "0 of 0 places, 3 ms",
        "directory=src/[a-z]/api leaves none of 220 files, and so it goes on and on.",
        "  login: authenticate, session",
        "Try: authenticate, session.",
    ]


def test_what_the_index_lacks_is_said_once() -> None:
    told = {
        "reasons": ["An index run is going on, 12 files not searchable yet."],
        "words": {},
        "nearest_words": {},
        "hint": "Ask again in a moment.",
    }
    growing = EMPTY | {"index": {"state": "indexing", "files_pending": 12}}
    assert shown(growing)[2:] == ["An index run is going on: 12 files to go."]
    assert shown(growing | {"help": told})[2:] == [*told["reasons"], told["hint"]]
