"""Text of strangers is shown as text."""

from __future__ import annotations

import json
import unicodedata

import pytest

from codebase_mcp.printable import escaped_json, printable, printable_json, printable_line

DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *DIRECTIONS, 0xDC80]


@pytest.mark.parametrize("code", CONTROLS)
def test_nothing_that_steers_a_terminal_or_turns_text_around_is_left(code: int) -> None:
    character = chr(code)
    shown = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    assert printable_line(f"a{character}b") == f"a{shown}b"
    assert (
        printable(f"a{character}b") == f"a{character if character in chr(10) + chr(9) else shown}b"
    )
    text = printable_json({f"k{character}": character})
    assert character not in text
    assert json.loads(text) == {f"k{character}": character}
    assert text == escaped_json(text)


def test_every_other_character_is_shown_as_it_is() -> None:
    others = "".join(
        chr(code)
        for code in range(0x30000)
        if code not in CONTROLS and unicodedata.category(chr(code)) != "Cs"
    )
    assert printable(others) == printable_line(others) == others
    assert printable_json("ü 日本 😀 \\x1b") == '"ü 日本 😀 \\\\x1b"'


def test_an_escape_is_not_escaped_again() -> None:
    assert printable(printable("\x1b[31m\u202e")) == "\\x1b[31m\\u202e"
