"""What a person sees of a search."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from codebase_mcp.cli.terminal import Terminal

REPLY = """\
1. src/pay.py:9-10  0.91  pay
 9  def pay(card):
10      return charge(card, 'a very long line that does not fit', 1)
   also 3-4 refund 0.80, 5-6 refund_all_that_was_paid 0.70"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "pay.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(*, is_terminal: bool) -> str:
    terminal, text = Terminal(), io.StringIO()
    terminal.file, terminal.width = text, 40
    if is_terminal:
        terminal._force_terminal = True
        terminal._color_system = terminal._detect_color_system()
    terminal.print_reply(REPLY)
    return text.getvalue()


def test_code_is_cut_to_the_width_and_details_go_on_in_the_next_line() -> None:
    assert [line.rstrip() for line in shown(is_terminal=False).splitlines()] == [
        "1. src/pay.py:9-10  0.91  pay",
        " 9  def pay(card):",
        "10      return charge(card, 'a very lon…",
        "   also 3-4 refund 0.80, 5-6",
        "refund_all_that_was_paid 0.70",
    ]


def test_on_a_terminal_a_path_links_to_its_file(repository: Path) -> None:
    assert f"file://{repository}/src/pay.py" in shown(is_terminal=True)
