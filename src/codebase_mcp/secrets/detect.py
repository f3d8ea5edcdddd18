"""Where in a text are secrets? Kingfisher's rules, and our own where they fall short.

Kingfisher (MongoDB) knows the formats of hundreds of providers and scans about 70 MB per second,
offline and in this process. It is loaded when a text first holds something long enough to be a
token. Ours find what its name (``places``), its form (``forms``), its command or call
(``commands``, ``calls``) or its column (``columns``) tells; ``judging`` tells real values from
placeholders and code.
"""

from __future__ import annotations

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
from codebase_mcp.secrets.token_words import long_words

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

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
    if words := long_words(data):
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
