"""Masks secrets in values of JSON, where the name of a field may say that it holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codebase_mcp.secrets.masking import is_name_of_secret, mask


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
