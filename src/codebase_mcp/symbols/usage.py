"""How much is the definition at this place used, and where first? For what shows places."""

from __future__ import annotations

from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.calls import CALLS
from codebase_mcp.symbols.definition import Definition
from codebase_mcp.symbols.lookup import Place, definition_at
from codebase_mcp.symbols.references import FoundUse, in_order, uses_of
from codebase_mcp.symbols.resolve import SURE

_KINDS = frozenset(ReferenceKind) - {ReferenceKind.IMPORT}


@dataclass(frozen=True, slots=True)
class Usage:
    """The resolved uses of a definition: of code and of tests, and the first one to look at."""

    definition: Definition
    in_code: int
    in_tests: int
    first: FoundUse | None

    def line(self) -> str:
        """It in a line, such as ``called from Shop.sell (shop.py:9) and 3 more; 2 in tests``."""
        if self.first is None:
            return ""
        around = self.first.resolved.enclosing
        where = f"{self.first.path}:{self.first.line}"
        where = f"{around.qualified} ({where})" if around else where
        verb = "called from" if self.first.kind in CALLS else "used in"
        more = self.in_code - 1 if self.in_code else 0
        parts = [f"{verb} {where}" + (f" and {more} more" if more > 0 else "")]
        if self.in_tests and not self.first.is_test:
            parts.append(f"{self.in_tests} in tests")
        return "; ".join(parts)


async def usage_at(tx: Transaction, snapshot_id: int, place: Place) -> Usage | None:
    """The usage of the innermost definition at a place of a state; None if none is there.

    Only uses that are resolved count, and imports do not.
    """
    definition = await definition_at(tx, place, snapshot_id)
    if definition is None:
        return None
    found = (await uses_of(tx, [definition], [snapshot_id], _KINDS))[definition.key]
    sure = in_order([one for one in found if one.confidence >= SURE])
    calls = [one for one in sure if one.kind in CALLS]
    in_code = sum(not one.is_test for one in sure)
    return Usage(definition, in_code, len(sure) - in_code, next(iter([*calls, *sure]), None))
