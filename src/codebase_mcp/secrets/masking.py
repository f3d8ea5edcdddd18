"""Replaces secrets by stars, so that lines and columns stay where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.secrets.token_words import may_hold_token

# Increment when different secrets are found, also by another version of Kingfisher: indexes made
# before are then rebuilt.
SECRETS_VERSION = 4

_HIDDEN = re.compile(r"[^\r\n]")
_STARS = re.compile(r"\*{3,}")
# Compiling Kingfisher's rules takes some five seconds.
_rules_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Masked:
    """A text without secrets, and the kind of each that it had."""

    text: str
    kinds: tuple[str, ...] = ()


def mask_token(name: str) -> str:
    """The name of a branch, a session or the like, with the tokens in it masked."""
    return mask(name, only_tokens=True).text


def mask(text: str, *, only_tokens: bool = False) -> Masked:
    """The text with each character of a secret replaced by a star.

    ``only_tokens`` are secrets by their own form, whatever their name and place say.
    """
    data = text.encode("utf-8", "surrogatepass")
    if only_tokens and not may_hold_token(data):
        return Masked(text)
    from codebase_mcp.secrets.detect import find_secrets  # noqa: PLC0415 - seldom at the start

    spans = find_secrets(data, only_tokens=only_tokens)
    if not spans:
        return Masked(text)
    parts, last = [], 0
    for start, end, _ in spans:
        parts.append(data[last:start].decode("utf-8", "surrogatepass"))
        parts.append(_HIDDEN.sub("*", data[start:end].decode("utf-8", "surrogatepass")))
        last = end
    parts.append(data[last:].decode("utf-8", "surrogatepass"))
    return Masked("".join(parts), tuple(kind for _, _, kind in spans))


def is_name_of_secret(name: str) -> bool:
    from codebase_mcp.secrets.naming import sort_of  # noqa: PLC0415 - seldom at the start

    return sort_of(name.encode("utf-8", "surrogatepass")) is not None


def is_masked(text: str) -> bool:
    """Whether secrets may have been masked in a text: it has stars in a row."""
    return _STARS.search(text) is not None


def begins_with_masked(text: str, masked: str) -> bool:
    """Whether a text begins with a given text, in which secrets may be masked."""
    if text.startswith(masked):
        return True
    position = 0
    for stars in _STARS.finditer(masked):
        if not text.startswith(masked[position : stars.start()], position):
            return False
        position = stars.end()
        if "\n" in text[stars.start() : position]:
            return False
    return position > 0 and text.startswith(masked[position:], position)


def mask_values(value: Any, name: str = "") -> tuple[Any, tuple[str, ...]]:
    """The value with the secrets in its texts masked, and their kinds.

    ``name`` is the field that holds it. Ids and cursors are left as they are, unless the name says
    that they sign in: ``secret_id``, ``api_key_id``.
    """
    kinds: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        members = {}
        for key, member in value.items():
            shown = mask(key)
            members[shown.text], more = mask_values(member, key)
            kinds += shown.kinds + more
        return members, kinds
    if isinstance(value, list):
        parts = []
        for member in value:
            part, more = mask_values(member, name)
            parts.append(part)
            kinds += more
        return parts, kinds
    if not isinstance(value, str) or (_is_reference(name) and not is_name_of_secret(name)):
        return value, ()
    if not name or '"' in value or len(value.split()) != 1:
        masked = mask(value)
        return masked.text, masked.kinds
    lead = f'{name}="'
    masked = mask(f'{lead}{value}"')
    return masked.text[len(lead) : -1], masked.kinds


def _is_reference(name: str) -> bool:
    return name in ("id", "cursor") or name.endswith(("_id", "_cursor"))


def keep_rules_in(folder: Path | None) -> None:
    """Keep Kingfisher's compiled rules in a folder; None is the library's own.

    A variable of the environment that names another folder takes precedence.
    """
    global _rules_folder  # noqa: PLW0603 - a single detector serves the whole process
    _rules_folder = folder


def rules_folder() -> Path | None:
    """The folder for Kingfisher's compiled rules; None is the library's own."""
    return _rules_folder
