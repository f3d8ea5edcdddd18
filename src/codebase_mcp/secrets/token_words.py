"""Which words may be tokens, by their shape?

A text is scanned for tokens if it has a long word in which letters, digits and capitals change
often, as in all tokens. Few texts do, so most small repositories and notes never load Kingfisher.
Such words are found by their shape: a pattern for them would take as long as all rules together.
"""

from __future__ import annotations

import re

_TOKEN_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SHAPE = bytes(ord("x") if byte in _TOKEN_LETTERS else ord(" ") for byte in range(256))
_LONG_WORD = b"x" * 20
_CHANGE = re.compile(rb"[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z]{2,}[a-z]|A[KS]IA")
_KEY_ID = re.compile(rb"A[KS]IA[A-Z]{16}")
_DIGIT = re.compile(rb"[0-9]")
_FEWEST_CHANGES = 3
# In a part as long as this, a single change is enough: parts of names are shorter.
_LONG_PART = re.compile(rb"[A-Za-z0-9]{16}")


def may_hold_token(data: bytes) -> bool:
    """Whether a text in UTF-8 has a word that may be a token."""
    return bool(long_words(data))


def long_words(data: bytes) -> list[tuple[int, int]]:
    """The places of the words that may be tokens."""
    shape = data.translate(_SHAPE)
    words = []
    start = shape.find(_LONG_WORD)
    while start >= 0:
        end = shape.find(b" ", start)
        end = len(shape) if end < 0 else end
        changes = _CHANGE.findall(data, start, end) if _DIGIT.search(data, start, end) else ()
        if not changes and _KEY_ID.fullmatch(data, start, end):
            words.append((start, end))
        if len(changes) >= _FEWEST_CHANGES or (changes and _LONG_PART.search(data, start, end)):
            words.append((start, end))
        start = shape.find(_LONG_WORD, end)
    return words
