"""The users of the definitions that a change touched, in files that it did not touch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from codebase_mcp.changes.compare import Difference
from codebase_mcp.changes.symbols import ChangedSymbol
from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import FileKind, ReferenceKind, Symbol
from codebase_mcp.symbols.candidates import BY_NAME
from codebase_mcp.symbols.lookup import resolve_names
from codebase_mcp.symbols.references import meaning

# The most definitions that are looked up, and the most uses of a name.
MAX_SYMBOLS = 100
MAX_USES = 500

# A use that is less sure to mean the definition is left out.
LEAST_CONFIDENCE = 0.5

# The kinds of files whose definitions count; tests, documents and generated files do not.
PRODUCT = (FileKind.CODE, FileKind.CONFIG)

_UNDEFINED = "nothing of this name is defined any more"


@dataclass(frozen=True, slots=True)
class User:
    """A place that uses a changed definition, how sure that is (0 to 1), and why."""

    path: str
    line: int
    enclosing: str | None
    symbol: str
    is_removed: bool
    is_test: bool
    confidence: float
    reason: str


async def users_of(
    tx: Transaction, snapshot_ids: Sequence[int], files: Sequence[Difference]
) -> list[User]:
    """The users of changed or removed definitions: the surest first, code before tests.

    Uses of a removed definition are the uses of its name, if nothing else has that name.
    """
    symbols = [file.symbols for file in files if file.kind in PRODUCT and file.symbols is not None]
    changed = [symbol for changes in symbols for symbol in changes.changed][:MAX_SYMBOLS]
    removed = [symbol for changes in symbols for symbol in changes.removed][:MAX_SYMBOLS]
    names = list(dict.fromkeys(_last(symbol) for symbol in (*removed, *changed)))
    if not names:
        return []
    definitions, uses = await resolve_names(tx, names, snapshot_ids, most_uses=MAX_USES)
    places = {(symbol.path, symbol.name) for symbol in changed}
    targets = {
        definition.key
        for definition in definitions
        if (definition.path, definition.qualified) in places
    }
    touched = {difference.file.path for difference in files}
    users = [
        User(
            use.path,
            use.line,
            _enclosing(use.resolved.enclosing),
            use.definition.qualified,
            False,
            use.is_test,
            use.confidence,
            use.reason,
        )
        for use in meaning(targets, uses)
        if use.definition is not None
        and use.kind is not ReferenceKind.IMPORT
        and use.confidence >= LEAST_CONFIDENCE
    ]
    gone = {_last(symbol): symbol.name for symbol in removed}
    defined = {definition.name for definition in definitions}
    users += [
        User(
            use.use.path,
            use.use.line,
            _enclosing(use.enclosing),
            gone[name],
            True,
            use.use.file_kind == FileKind.TEST,
            BY_NAME,
            _UNDEFINED,
        )
        for name, use in uses
        if name in gone and name not in defined
    ]
    return _in_order(users, touched)


def _in_order(users: Sequence[User], touched: Collection[str]) -> list[User]:
    """The users in files that were not touched; of several in a definition the first."""
    first: dict[tuple[str, str | None, str], User] = {}
    for user in sorted(users, key=lambda user: (user.path, user.line)):
        if user.path not in touched:
            first.setdefault((user.path, user.enclosing, user.symbol), user)
    return sorted(
        first.values(),
        key=lambda user: (
            user.is_test,
            not user.is_removed,
            -user.confidence,
            user.path,
            user.line,
        ),
    )


def _last(symbol: ChangedSymbol) -> str:
    return symbol.name.rpartition(".")[2]


def _enclosing(symbol: Symbol | None) -> str | None:
    return None if symbol is None else symbol.qualified
