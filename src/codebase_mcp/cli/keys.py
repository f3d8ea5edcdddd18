"""Keys of the server over HTTP: make, list, rotate and revoke them; and whom the server accepts."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from rich.table import Column, Table

from codebase_mcp.access.identity import SCOPES, Access, Scope, is_loopback
from codebase_mcp.access.keys import (
    PREFIX,
    Key,
    create_key,
    has_valid_key,
    list_keys,
    revoke_key,
    rotate_key,
)
from codebase_mcp.cli.output import local_time, picked, print_json, say, warn
from codebase_mcp.cli.terminal import console
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.rules import DIRECTORIES

_log = logging.getLogger(__name__)

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_DAYS = 36_500
_MAX_OWNER_CHARS = 200
_ID_WIDTH = 16
_MAX_PATTERNS = 100
_MAX_REQUESTS = 1_000_000


async def create(options: argparse.Namespace, settings: Settings) -> int:
    """Make a key."""
    roots = None if options.own_roots is None else _roots(options.own_roots)
    scopes = options.scopes
    if scopes is None:
        # --root applies to all keys, so a key gets it only if the operator says so.
        scopes = "read,write" if settings.roots and roots is None else "read,write,index"
    access = Access(
        _scopes(scopes),
        _patterns("*" if options.projects is None else options.projects),
        reads_as_server=False,
        requests_per_minute=_limit(options, settings),
        roots=roots,
    )
    expires_s = None if options.expires is None else _seconds("expires", options.expires, low=1)
    owner = options.owner.strip()
    if not 0 < len(owner) <= _MAX_OWNER_CHARS or not owner.isprintable():
        raise _invalid("owner", owner, f"1 to {_MAX_OWNER_CHARS} printable characters")
    async with _database(settings) as database:
        key, text = await create_key(database, owner, access, expires_s=expires_s)
    return _show_once(key, text, as_json=options.json)


async def rotate(options: argparse.Namespace, settings: Settings) -> int:
    grace_s = _seconds("grace", options.grace, low=0)
    async with _database(settings) as database:
        key, text = await rotate_key(database, options.id, grace_s=grace_s)
    return _show_once(key, text, as_json=options.json)


async def revoke(options: argparse.Namespace, settings: Settings) -> int:
    async with _database(settings) as database:
        key = await revoke_key(database, options.id)
    if options.json:
        return print_json(_as_json(key))
    say(f"The key {PREFIX}{key.id} of {key.owner} is revoked")
    return 0


async def list_all(options: argparse.Namespace, settings: Settings) -> int:
    """Show all keys, without their secrets."""
    async with _database(settings) as database:
        keys = await list_keys(database)
    if options.json:
        return print_json({"keys": [_as_json(key) for key in keys]})
    if not keys:
        say("There are no keys. Make one: codebase-mcp keys create OWNER")
        return 0
    columns = [Column(name, overflow="fold") for name in ("owner", "scopes", "projects", "roots")]
    table = Table(
        Column("key", min_width=_ID_WIDTH), *columns, "state", "expires", "last used", box=None
    )
    for key in keys:
        table.add_row(
            f"{PREFIX}{key.id}",
            key.owner,
            ", ".join(_in_order(key.scopes)),
            ", ".join(key.projects),
            "all allowed" if key.roots is None else ", ".join(key.roots),
            key.state,
            local_time(key.expires_at) or "never",
            local_time(key.last_used_at) or "never",
        )
    console.print(table)
    return 0


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    database = await Database.open(database_target(settings))
    try:
        yield database
    finally:
        await database.close()


def _show_once(key: Key, text: str, *, as_json: bool) -> int:
    if as_json:
        return print_json({**_as_json(key), "key": text})
    warn(f"The key of {key.owner}; it is shown only now:")
    say(text)
    return 0


def _as_json(key: Key) -> dict[str, Any]:
    rights = "projects roots requests_per_minute state"
    times = "created_at expires_at revoked_at last_used_at"
    named = {"id": f"{PREFIX}{key.id}", "owner": key.owner, "scopes": _in_order(key.scopes)}
    return named | picked(key, f"{rights} {times}")


def _in_order(scopes: frozenset[Scope]) -> list[Scope]:
    return [scope for scope in SCOPES if scope in scopes]


def _scopes(text: str) -> frozenset[Scope]:
    chosen = frozenset(part.strip() for part in text.split(","))
    if not chosen <= set(SCOPES):
        raise _invalid("scopes", text, f"some of {', '.join(SCOPES)}, separated by commas")
    return cast("frozenset[Scope]", chosen)


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    if not 0 < len(patterns) <= _MAX_PATTERNS or not text.isprintable():
        raise _invalid("projects", text, f"1 to {_MAX_PATTERNS} patterns, separated by commas")
    return patterns


def _roots(text: str) -> tuple[str, ...]:
    try:
        roots: tuple[str, ...] = DIRECTORIES.parse(text)
    except ValueError:
        roots = ()
    if not 0 < len(roots) <= _MAX_PATTERNS or not text.isprintable():
        raise _invalid("roots", text, f"1 to {_MAX_PATTERNS} absolute paths, separated by commas")
    return roots


def _limit(options: argparse.Namespace, settings: Settings) -> int | None:
    """The limit of a key; before the name of the action its flag is the server's of that name."""
    text = options.own_limit
    if text is None and settings.sources["requests_per_minute"].startswith("--"):
        text = str(settings.requests_per_minute)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= _MAX_REQUESTS:
        raise _invalid("requests_per_minute", text, f"a whole number from 1 to {_MAX_REQUESTS}")
    return int(text)


def _seconds(field: str, text: str, *, low: int) -> float:
    """The seconds in a time like 90d."""
    parts = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    seconds = int(parts[1]) * _SECONDS[parts[2]] if parts else -1
    if not low <= seconds <= _MAX_DAYS * _SECONDS["d"]:
        raise _invalid(field, text, "a time such as 90d, 12h, 30m or 60s")
    return seconds


def _invalid(field: str, value: str, rule: str) -> InvalidInput:
    flag = field if field == "owner" else f"--{field.replace('_', '-')}"
    return InvalidInput.of(field, value, f"{flag} must be {rule}, got {value!r}", rule=rule)


def callers_in_words(settings: Settings) -> str:
    """How the server identifies HTTP callers, for people."""
    proof = "a key or a token" if settings.jwt_issuer else "a key"
    if settings.no_auth:
        words = "NO KEY IS NEEDED, everyone who reaches the port may call every tool"
    elif is_loopback(settings.host) and not settings.require_keys:
        words = f"your own user on this machine, others with {proof}"
    else:
        words = f"with {proof}"
    if settings.allow_ip:
        words += f", from {', '.join(settings.allow_ip)}"
    return f"{words}; read-only" if settings.read_only else words


async def may_have_key(settings: Settings) -> bool:
    """Whether there may be a valid key; if the database is away, requests will show it."""
    if is_loopback(settings.host) or settings.no_auth or settings.jwt_issuer:
        return False
    async with _database(settings) as database:
        try:
            return await has_valid_key(database)
        except CodebaseError as error:
            _log.warning("Whether there are keys is unknown: %s", error.message)
            return True
