"""What is shown to a person comes from us alone: colours and layout, never a stranger's text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from codebase_mcp.cli.terminal import Terminal

HOSTILE = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\u202ee[bold]f[/none]:bug:"


def in_a_table(text: str) -> Table:
    table = Table(text, title=text)
    table.add_row(text)
    return table


WAYS: list[Callable[[str], object]] = [
    str,
    Text,
    in_a_table,
    Tree,
    lambda text: Syntax(text, "python", line_numbers=True),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coloured", [False, True])
def test_escape_sequences_and_markup_are_shown_as_text(
    way: Callable[[str], object], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    if coloured:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
    terminal, file = Terminal(), io.StringIO()
    terminal.file, terminal.width = file, 200
    terminal.print(way(HOSTILE), style="yellow")
    shown = file.getvalue()
    assert ("\x1b" in shown) is coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", plain)
    assert r"a\x1b]0;owned" in plain
    assert r"b\x1b[2Jc\x9b31md\u202ee[bold]f[/none]:bug:" in plain


def test_the_heading_of_a_file_that_a_task_needs_has_its_reasons_dim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, file = Terminal(), io.StringIO()
    terminal.file, terminal.width = file, 200
    terminal.print_reply("1. a.py:5-6  0.83 change  Retry.wait  (in the trace)\n5  x = 1")
    terminal.print_reply("2. b.md  0.40 read  (says it)")
    shown = re.sub(r"\x1b\[([\d;]*)m", r"<\1>", file.getvalue())
    assert "<1;36>a.py<0><36>:5-6<0><32>  0.83 change<0><35>  Retry.wait<0><2>  (in" in shown
    assert "<1;36>b.md<0><32>  0.40 read<0><2>  (says it)<0>" in shown
