"""Who uses the definitions that a change touched, in files that the change left alone?"""

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

# How many definitions are looked up, and how many uses of one name.
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
    """The users of what was changed or removed: the surest first, code before tests.

    Of a removed definition those of its name, if nothing else has that name.
    """
    symbols = [one.symbols for one in files if one.kind in PRODUCT and one.symbols is not None]
    changed = [one for changes in symbols for one in changes.changed][:MAX_SYMBOLS]
    removed = [one for changes in symbols for one in changes.removed][:MAX_SYMBOLS]
    names = list(dict.fromkeys(_last(one) for one in (*removed, *changed)))
    if not names:
        return []
    definitions, uses = await resolve_names(tx, names, snapshot_ids, most_uses=MAX_USES)
    places = {(one.path, one.name) for one in changed}
    targets = {one.key for one in definitions if (one.path, one.qualified) in places}
    touched = {one.file.path for one in files}
    users = [
        User(
            one.path,
            one.line,
            _enclosing(one.resolved.enclosing),
            one.definition.qualified,
            False,
            one.is_test,
            one.confidence,
            one.reason,
        )
        for one in meaning(targets, uses)
        if one.definition is not None
        and one.kind is not ReferenceKind.IMPORT
        and one.confidence >= LEAST_CONFIDENCE
    ]
    gone = {_last(one): one.name for one in removed}
    defined = {one.name for one in definitions}
    users += [
        User(
            one.use.path,
            one.use.line,
            _enclosing(one.enclosing),
            gone[name],
            True,
            one.use.file_kind == FileKind.TEST,
            BY_NAME,
            _UNDEFINED,
        )
        for name, one in uses
        if name in gone and name not in defined
    ]
    return _in_order(users, touched)


def _in_order(users: Sequence[User], touched: Collection[str]) -> list[User]:
    """Those in other files; of several in one definition the first."""
    first: dict[tuple[str, str | None, str], User] = {}
    for one in sorted(users, key=lambda one: (one.path, one.line)):
        if one.path not in touched:
            first.setdefault((one.path, one.enclosing, one.symbol), one)
    return sorted(
        first.values(),
        key=lambda one: (one.is_test, not one.is_removed, -one.confidence, one.path, one.line),
    )


def _last(symbol: ChangedSymbol) -> str:
    return symbol.name.rpartition(".")[2]


def _enclosing(symbol: Symbol | None) -> str | None:
    return None if symbol is None else symbol.qualified
