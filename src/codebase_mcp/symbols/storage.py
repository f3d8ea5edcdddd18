"""Reads definitions, uses, outlines and texts from the index."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ParamSpec, TypeVar

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.model import Reference, ReferenceKind, Symbol
from codebase_mcp.symbols.definition import PROSE_KINDS, Definition, File, Surroundings, Use
from codebase_mcp.symbols.packages import PackageNames, build_files_for
from codebase_mcp.text.references import unpack
from codebase_mcp.text.tokens import fold
from codebase_mcp.values import grouped

SQL = load_queries("codebase_mcp.symbols", "symbols.sql")
_SEARCH = load_queries("codebase_mcp.search", "search.sql")

# More rows of a name say nothing more, and would take seconds.
_MAX_DEFINITIONS = 5_000
_MAX_USING_FILES = 5_000
MOST_FILES = 5_000
_MAX_NAMES = 3_000

# Of most lines.
_LINE_CHARS = 40

P = ParamSpec("P")
T = TypeVar("T")

# Work on this many rows or uses takes some milliseconds.
MANY = 500

_OF_TEXTS = frozenset({ReferenceKind.IMPORT, ReferenceKind.INHERIT})

Line = tuple[int, int]
"""A line of a text: its id and the number, 1-based."""


async def aside(count: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function that works on ``count`` items; from 500 on it runs in a thread."""
    if count < MANY:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def load_definitions(
    tx: Transaction,
    names: Collection[str],
    snapshot_ids: Sequence[int],
    *,
    without: Collection[str] = (),
) -> list[Definition]:
    """The definitions of some names, in any case, without some kinds."""
    [rows] = await tx.fetch_many([_definitions(names, snapshot_ids, without=without)])
    return _as_definitions(rows)


async def common_names(tx: Transaction, names: Collection[str], most: int) -> set[str]:
    """The names that more than ``most`` definitions in code have, in any state of the project."""
    folded = {name: fold(name) for name in names}
    rows = await tx.fetch_all(
        SQL["common_names"],
        folded=list(set(folded.values())),
        without=list(PROSE_KINDS),
        most=most,
    )
    common = {row[0] for row in rows}
    return {name for name, key in folded.items() if key in common}


async def load_names(
    tx: Transaction,
    names: Collection[str],
    snapshot_ids: Sequence[int],
    *,
    most_definitions: int = _MAX_DEFINITIONS,
    most_files: int = _MAX_USING_FILES,
    without: Collection[str] = (),
) -> tuple[list[Definition], list[Use]]:
    """The definitions of some names, in any case, and where these names are used, as written.

    Definitions of the kinds ``without`` are left out.
    """
    definitions, uses = await tx.fetch_many(
        [
            _definitions(names, snapshot_ids, most_definitions, without),
            _named_uses(names, snapshot_ids, most=most_files),
        ]
    )
    return _as_definitions(definitions), await aside(len(uses), _uses, uses)


async def load_uses(
    tx: Transaction,
    names: Collection[str],
    snapshot_ids: Sequence[int],
    blob_ids: Collection[int] | None = None,
    *,
    only_imports: bool = False,
) -> list[Use]:
    """Where some names are used, as written: in all files, or in some texts; or imported."""
    [rows] = await tx.fetch_many(
        [_named_uses(names, snapshot_ids, blob_ids, only_imports=only_imports)]
    )
    return await aside(len(rows), _uses, rows)


def _definitions(
    names: Collection[str],
    snapshot_ids: Sequence[int],
    most: int = _MAX_DEFINITIONS,
    without: Collection[str] = (),
) -> Statement:
    return SQL["definitions"], {
        "folded": list({fold(name) for name in names}),
        "snapshots": list(snapshot_ids),
        "without": list(without),
        "most": most,
    }


def _named_uses(
    names: Collection[str],
    snapshot_ids: Sequence[int],
    blob_ids: Collection[int] | None = None,
    *,
    only_imports: bool = False,
    most: int = _MAX_USING_FILES,
) -> Statement:
    return SQL["uses"], {
        "only_imports": only_imports,
        "names": list(names),
        "snapshots": list(snapshot_ids),
        "blobs": None if blob_ids is None else list(blob_ids),
        "most": most,
    }


def _as_definitions(rows: Iterable[Row]) -> list[Definition]:
    return [
        Definition(name, qualified, kind, first, last, depth, File(*file))
        for *file, name, qualified, kind, first, last, depth in rows
    ]


def _uses(rows: Iterable[Row]) -> list[Use]:
    return [
        Use(file, *reference)
        for *columns, name, uses in rows
        for file in [File(*columns)]
        for reference in unpack(name, uses)
    ]


async def references_of(
    tx: Transaction, blob_ids: Collection[int]
) -> dict[int, tuple[Reference, ...]]:
    """What some texts use, by line; those that use nothing are left out."""
    references: dict[int, list[Reference]] = {}
    for blob_id, name, uses in await tx.fetch_all(SQL["used_in"], blobs=list(blob_ids)):
        references.setdefault(blob_id, []).extend(unpack(name, uses))
    return {blob_id: tuple(sorted(uses)) for blob_id, uses in references.items()}


async def load_surroundings(
    tx: Transaction,
    lines: Collection[Line],
    names: Collection[str],
    whole: Collection[int],
    packages: Statement | None = None,
) -> tuple[dict[int, Surroundings], dict[Line, tuple[Symbol, ...]], dict[int, PackageNames]]:
    """The base classes and imports of some texts, and the definitions around some of their lines.

    Only imports under ``names`` are read; of the texts ``whole`` all imports. In the same round
    trip the names of ``packages``.
    """
    if not lines:
        return {}, {}, {}
    asked = await aside(len(lines), _surrounding, lines, names, whole)
    rows, symbols, *build_files = await tx.fetch_many([*asked, *([packages] if packages else [])])
    return (
        await aside(len(rows), _surroundings, rows),
        await aside(len(symbols), _around, symbols, lines),
        package_names(*build_files) if build_files else {},
    )


def _surrounding(
    lines: Collection[Line], names: Collection[str], whole: Collection[int]
) -> list[Statement]:
    texts = {
        "blobs": array_literal({blob_id for blob_id, _ in lines}),
        "names": list(names),
        "whole": array_literal(whole),
    }
    return [(SQL["surroundings"], texts), (SQL["around"], _places(lines, items=False))]


def _places(lines: Collection[Line], *, items: bool) -> dict[str, object]:
    return {
        "blobs": array_literal(blob_id for blob_id, _ in lines),
        "lines": array_literal(line for _, line in lines),
        "items": items,
    }


async def load_around(
    tx: Transaction, lines: Collection[Line], *, items: bool = False
) -> dict[Line, tuple[Symbol, ...]]:
    """The definitions around some lines, the outermost first.

    With ``items`` the items: entries of long literals, and branches of long switches.
    """
    rows = await tx.fetch_all(SQL["around"], **_places(lines, items=items))
    return _around(rows, lines)


def _surroundings(rows: Iterable[Row]) -> dict[int, Surroundings]:
    imports: dict[int, list[Reference]] = defaultdict(list)
    inherits: dict[int, list[Reference]] = defaultdict(list)
    for blob_id, name, ways in rows:
        for reference in unpack(name, ways, _OF_TEXTS):
            of_kind = imports if reference.kind is ReferenceKind.IMPORT else inherits
            of_kind[blob_id].append(reference)
    return {
        blob_id: Surroundings(tuple(imports[blob_id]), tuple(inherits[blob_id]))
        for blob_id in {*imports, *inherits}
    }


def _around(rows: Iterable[Row], lines: Iterable[Line]) -> dict[Line, tuple[Symbol, ...]]:
    """The definitions around each line, in their order."""
    in_blob = grouped(sorted(lines))
    around: dict[Line, list[Symbol]] = defaultdict(list)
    for blob_id, *fields in rows:
        symbol = Symbol(*fields)
        inside = in_blob[blob_id]
        first = bisect_left(inside, symbol.start_line)
        for line in inside[first : bisect_right(inside, symbol.end_line)]:
            around[blob_id, line].append(symbol)
    return {line: tuple(outer) for line, outer in around.items()}


async def load_files(tx: Transaction, path: str, snapshot_ids: Sequence[int]) -> list[File]:
    """The files at a path or below it; if there are none, those whose path ends in it."""
    for anywhere in (False, True):
        rows = await tx.fetch_all(
            SQL["files"],
            path=path,
            snapshots=list(snapshot_ids),
            anywhere=anywhere,
            most=MOST_FILES,
        )
        if rows:
            break
    return [File(*row) for row in rows]


def build_files(files: Iterable[tuple[str, str]], snapshot_ids: Sequence[int]) -> Statement:
    """The statement that reads what imports call the directories around some files.

    ``files`` are language and path.
    """
    paths = list(build_files_for(files))
    return SQL["build_files"], {"snapshots": list(snapshot_ids), "paths": paths}


def package_names(rows: Iterable[Row]) -> dict[int, PackageNames]:
    """What imports call the directories of each snapshot, from the rows of `build_files`."""
    roots: dict[int, str] = {}
    texts: dict[int, dict[str, str]] = defaultdict(dict)
    for snapshot_id, root, path, text in rows:
        roots[snapshot_id] = root
        if path is not None:
            texts[snapshot_id][path] = text
    return {
        snapshot_id: PackageNames(root, texts[snapshot_id]) for snapshot_id, root in roots.items()
    }


async def load_outlines(
    tx: Transaction, blob_ids: Collection[int], *, deepest: int, fields: bool = False
) -> dict[int, list[Symbol]]:
    """The definitions of some texts down to a depth, by line; without fields unless asked."""
    rows = await tx.fetch_all(
        SQL["outline"], blobs=array_literal(blob_ids), deepest=deepest, fields=fields
    )
    return grouped((blob_id, Symbol(*symbol)) for blob_id, *symbol in rows)


async def load_texts(tx: Transaction, blob_ids: Collection[int]) -> dict[int, list[str]]:
    """The lines of some texts. Ends the transaction."""
    if not blob_ids:
        return {}
    [rows] = await tx.fetch_last([(_SEARCH["texts"], {"blobs": array_literal(blob_ids)})])
    count = sum(len(text) for _, text in rows) // _LINE_CHARS
    return await aside(count, _split, rows)


async def load_lines(tx: Transaction, blob_ids: Collection[int]) -> dict[int, list[str]]:
    """The lines of some texts, within a transaction that goes on."""
    if not blob_ids:
        return {}
    return _split(await tx.fetch_all(_SEARCH["texts"], blobs=array_literal(blob_ids)))


def _split(rows: Iterable[Row]) -> dict[int, list[str]]:
    return {blob_id: split_lines(text) for blob_id, text in rows}


async def nearest_names(tx: Transaction, name: str, snapshot_ids: Sequence[int]) -> list[str]:
    """Defined names that resemble a name, some thousands at most."""
    rows = await tx.fetch_all(
        SQL["nearest_names"], folded=fold(name), snapshots=list(snapshot_ids), most=_MAX_NAMES
    )
    return [name for (name,) in rows]
