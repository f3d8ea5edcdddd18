"""Masks secrets in values of JSON, where the name of a field may say that it holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codebase_mcp.secrets.masking import mask


def mask_values(value: Any, name: str = "") -> tuple[Any, tuple[str, ...]]:
    """The value with the secrets in its texts masked, and their kinds.

    ``name`` is the field that holds it. Ids and cursors are left as they are.
    """
    kinds: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        members = {}
        for key, member in value.items():
            members[key], found = mask_values(member, key)
            kinds += found
        return members, kinds
    if isinstance(value, list):
        parts = []
        for member in value:
            part, found = mask_values(member, name)
            parts.append(part)
            kinds += found
        return parts, kinds
    if not isinstance(value, str) or name in ("id", "cursor") or name.endswith(("_id", "_cursor")):
        return value, ()
    if not name or '"' in value or len(value.split()) != 1:
        masked = mask(value)
        return masked.text, masked.kinds
    lead = f'{name}="'
    masked = mask(f'{lead}{value}"')
    return masked.text[len(lead) : -1], masked.kinds
