"""The text that all rules read, and its words: most rules need no more to stop."""

from __future__ import annotations

from dataclasses import dataclass

_WORD_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789") | frozenset(range(128, 256))
_WORDS = bytes(byte if byte in _WORD_LETTERS else ord(" ") for byte in range(256))

Span = tuple[int, int, str]
"""The first byte of a secret, the first after it, and its kind."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in UTF-8.

    ``words`` has each of its words once, in lower case; ``vocabulary`` has the same in a row.
    It ``has_elements`` if it may be XML or HTML.
    """

    data: bytes
    lower: bytes
    words: frozenset[bytes]
    vocabulary: bytes
    has_elements: bool

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The text with these bytes."""
        lower = data.lower()
        words = frozenset(lower.translate(_WORDS).split())
        return cls(data, lower, words, b" ".join(words), b"</" in data)
