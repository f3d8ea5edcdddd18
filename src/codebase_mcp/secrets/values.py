"""Masks secrets in values of JSON, where the name of a field may say that it holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codebase_mcp.secrets.masking import mask


def mask_values(value: Any, name: str = "") -> tuple[Any, tuple[str, ...]]:
    """The value with the secrets in its texts masked, and their kinds.

    ``name`` is the field that holds it. Ids and cursors are left as they are.
    """
    if isinstance(value, Mapping):
        pairs = {key: mask_values(part, key) for key, part in value.items()}
        kinds = tuple(kind for _, found in pairs.values() for kind in found)
        return {key: part for key, (part, _) in pairs.items()}, kinds
    if isinstance(value, list):
        parts = [mask_values(part, name) for part in value]
        return [part for part, _ in parts], tuple(kind for _, found in parts for kind in found)
    if not isinstance(value, str) or name in ("id", "cursor") or name.endswith(("_id", "_cursor")):
        return value, ()
    if not name or '"' in value or len(value.split()) != 1:
        masked = mask(value)
        return masked.text, masked.kinds
    lead = f'{name}="'
    masked = mask(f'{lead}{value}"')
    return masked.text[len(lead) : -1], masked.kinds
