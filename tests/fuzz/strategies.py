"""Bytes and texts as an attacker writes them: valid ones, damaged, and anything at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ANY_TEXT = st.text(st.characters(codec=None), max_size=300)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, *valid: bytes) -> bytes:
    """One of some valid inputs with parts cut out, repeated, and replaced."""
    content = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content)))
        end = draw(st.integers(at, min(at + 40, len(content))))
        between = draw(st.binary(max_size=12) | st.just(content[at:end] * 3))
        content = content[:at] + between + content[end:]
    return content


def damaged_text(*valid: str) -> st.SearchStrategy[str]:
    """The same for texts."""
    return damaged(*(one.encode() for one in valid)).map(lambda data: data.decode(errors="replace"))


def bytes_like(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Damaged, or any."""
    return damaged(*valid) | st.binary(max_size=300)


def text_like(*valid: str) -> st.SearchStrategy[str]:
    """Damaged, or any."""
    return damaged_text(*valid) | ANY_TEXT
