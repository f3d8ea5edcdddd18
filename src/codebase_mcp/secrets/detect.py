"""Where in a text are secrets? Kingfisher's rules, and our own where they fall short.

Kingfisher (MongoDB) knows the formats of hundreds of providers and scans about 70 MB per second,
offline and in this process. It is loaded when a text first holds something long enough to be a
token. Ours find what its name (``places``), its form (``forms``), its command or call
(``commands``, ``calls``) or its column (``columns``) tells; ``judging`` tells real values from
placeholders and code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from threading import Lock, Thread
from typing import TYPE_CHECKING

from codebase_mcp.processes import default_variable
from codebase_mcp.secrets import calls, columns, commands, forms, places
from codebase_mcp.secrets.judging import is_placeholder
from codebase_mcp.secrets.masking import rules_folder
from codebase_mcp.secrets.naming import Name, Span, Text, names_in

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

# A text is scanned for tokens if it has a long word in which letters, digits and capitals change
# often, as in all tokens. Few texts do, so most small repositories and notes never load Kingfisher.
# Such words are found by their shape: a pattern for them would take as long as all rules together.
_TOKEN_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SHAPE = bytes(ord("x") if byte in _TOKEN_LETTERS else ord(" ") for byte in range(256))
_LONG_WORD = b"x" * 20
_CHANGE = re.compile(rb"[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z]{2,}[a-z]|A[KS]IA")
_KEY_ID = re.compile(rb"A[KS]IA[A-Z]{16}")
_DIGIT = re.compile(rb"[0-9]")
_FEWEST_CHANGES = 3
# In a part as long as this, a single change is enough: parts of names are shorter.
_LONG_PART = re.compile(rb"[A-Za-z0-9]{16}")
_LOADING = Lock()


def find_secrets(data: bytes, *, only_tokens: bool = False) -> list[Span]:
    """The secrets in a text in UTF-8, by place; they do not overlap."""
    candidates: list[Span] = []
    names: list[Name] = []
    if not only_tokens:
        text = Text.of(data)
        names = list(names_in(text))
        candidates += places.find(text, names)
        candidates += forms.find(text)
        candidates += commands.find(text)
        candidates += calls.find(text)
        candidates += columns.find(text, names)
        candidates += columns.find_codes(text)
    if words := _long_words(data):
        candidates += forms.find_tokens(data, words, names)
        candidates += _by_provider(data)
    merged: list[Span] = []
    for start, end, kind in sorted(candidates):
        if merged and start < merged[-1][1]:
            first, last, merged_kind = merged[-1]
            merged[-1] = (first, max(last, end), merged_kind)
        else:
            merged.append((start, end, kind))
    return merged


def may_hold_token(data: bytes) -> bool:
    """Whether a text in UTF-8 has a word that may be a token."""
    return bool(_long_words(data))


def _long_words(data: bytes) -> list[tuple[int, int]]:
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


def _by_provider(data: bytes) -> Iterator[Span]:
    for finding in load_rules().scan(data):
        # A helper says which account a key is for; a secret of letters alone is a name.
        secret = finding.secret.encode()
        if not finding.visible or secret.isalpha() or (len(secret) < 20 and is_placeholder(secret)):
            continue
        position = finding.location
        kind = finding.rule_id.partition(".")[2].replace("-", " ")
        first, last = position["start_offset"], position["end_offset"]
        start = data.find(secret, first, last)
        yield (start, start + len(secret), kind) if start >= 0 else (first, last, kind)


def load_rules_early() -> Thread | None:
    """Compile Kingfisher's rules in a thread, where none are kept: index runs need them."""
    folder = rules_folder()
    if folder is None or any(folder.glob("*")):
        return None
    loading = Thread(target=load_rules, name="secret-rules", daemon=True)
    loading.start()
    return loading


def load_rules() -> Scanner:
    """Kingfisher with its rules; the first call on a machine compiles and keeps them."""
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Scanner:
    from kingfisher_sdk import Scanner  # noqa: PLC0415 - loads a native library

    folder = rules_folder()
    if folder is None:
        return Scanner(base64=False)
    with suppress(OSError):  # then nothing is kept
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with default_variable("KF_RULE_CACHE_DIR", str(folder)):
        return Scanner(base64=False)
