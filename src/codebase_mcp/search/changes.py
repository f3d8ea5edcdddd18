"""Which chunks did a change touch, and which of them answer a question?

A change leads from one snapshot to another. Its chunks are the chunks of new files with lines that
the old files lack, and the chunks of old files that lost most of their lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.hits import Change, Hit
from codebase_mcp.search.lists import ChunkKey, DatabaseLists, Lists, chunk_parameters
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import QueryVector, Scope, ScopedSnapshot
from codebase_mcp.values import grouped

_SQL = load_queries("codebase_mcp.search", "changes.sql")
_SEARCH = load_queries("codebase_mcp.search", "search.sql")

# The largest number of files of a change that are searched, in the order of their paths.
MAX_FILES = 5_000

_BATCH_TEXTS = 200

# Above this number of line pairs, everything between the first and the last difference counts as
# changed: comparing takes time by the square of the number of lines.
_MAX_PAIRS = 4_000_000

Span = tuple[int, int]
"""A first and a last line, counted from 1."""


@dataclass(frozen=True, slots=True)
class Range:
    """A change, by the ids of the snapshots before and after it."""

    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Touched:
    """The chunks and lines that some changes touched.

    ``chunks`` gives the kind of change of each chunk, ``files`` the lines that differ in each path
    of a snapshot. ``old`` are the snapshots before the changes.
    """

    chunks: Mapping[ChunkKey, Change]
    files: Mapping[tuple[int, str], LineChanges]
    old: frozenset[int]


async def load_touched(tx: Transaction, ranges: Sequence[Range]) -> Touched:
    """Compare the files of some changes."""
    chunks: dict[ChunkKey, Change] = {}
    files: dict[tuple[int, str], LineChanges] = {}
    for change in ranges:
        rows = await tx.fetch_all(
            _SQL["changed_files"], old=change.old, new=change.new, most=MAX_FILES
        )
        for first in range(0, len(rows), _BATCH_TEXTS):
            await _add(tx, change, rows[first : first + _BATCH_TEXTS], chunks, files)
    return Touched(chunks, files, frozenset(change.old for change in ranges))


async def _add(
    tx: Transaction,
    change: Range,
    rows: Sequence[Row],
    chunks: dict[ChunkKey, Change],
    files: dict[tuple[int, str], LineChanges],
) -> None:
    blobs = array_literal({blob for _, *pair in rows for blob in pair if blob is not None})
    texts, lines = await tx.fetch_many(
        [(_SEARCH["texts"], {"blobs": blobs}), (_SQL["chunk_lines"], {"blobs": blobs})]
    )
    text_of: dict[int | None, str] = dict(texts)
    lines_of = grouped((blob_id, tuple(chunk)) for blob_id, *chunk in lines)
    compared = await asyncio.to_thread(
        lambda: [line_changes(text_of.get(old), text_of.get(new)) for _, old, new in rows]
    )
    for (path, old, new), differing_lines in zip(rows, compared, strict=True):
        old_chunks = [(first, last) for _, first, last in lines_of.get(old, ())]
        differing = differing_lines.within(old_chunks)
        for snapshot_id, blob_id, change_of in (
            (change.new, new, differing.of_new),
            (change.old, old, differing.of_old),
        ):
            if blob_id is None:
                continue
            files[snapshot_id, path] = differing
            for ordinal, first, last in lines_of.get(blob_id, ()):
                kind = change_of(first, last)
                if kind is not None:
                    chunks[blob_id, ordinal] = kind


class ChangeLists(DatabaseLists):
    """The candidate lists of a search within changes: they have the touched chunks alone."""

    def __init__(self, tx: Transaction, query: Query, scope: Scope, touched: Touched) -> None:
        texts = array_literal({blob_id for blob_id, _ in touched.chunks})
        super().__init__(tx, query, replace(scope, texts=texts))
        self._touched = touched
        self._variant, self._bounds = "_in_chunks", chunk_parameters(touched.chunks)
        # All chunks with any term are scored: there are few.
        self.rare, self.rare_expansion = list(self.idf), list(scope.expansion)

    async def find(self, vectors: Sequence[QueryVector]) -> Lists:
        lists = await super().find(vectors)
        with_evidence = {row[0] for rows in lists.meanings for row in rows}
        with_evidence.update(lists.words.blob_ids.tolist())
        return replace(
            lists,
            named_texts=lists.named_texts & with_evidence,
            definitions=[
                (blob_id, definition)
                for blob_id, definition in lists.definitions
                if (blob_id, definition.ordinal) in self._touched.chunks
            ],
        )

    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        """The files of the changes that pass the filters and have these texts."""
        rows = await super().files(texts)
        return [row for row in rows if (row[0], row[1]) in self._touched.files]


def mark_changes(
    hits: Iterable[Hit], touched: Touched, snapshots: Iterable[ScopedSnapshot]
) -> list[Hit]:
    """Add to each hit how its lines changed."""
    ids = {(s.repository_id, s.view): s.id for s in snapshots}
    marked = []
    for hit in hits:
        snapshot_id = ids[hit.repository_id, hit.view]
        differing = touched.files[snapshot_id, hit.file_path]
        lines = hit.start_line, hit.end_line
        is_old = snapshot_id in touched.old
        change = differing.of_old(*lines) if is_old else differing.of_new(*lines)
        marked.append(replace(hit, change=change or ("removed" if is_old else "changed")))
    return marked


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Lines that differ: ``added`` and ``changed`` in the new text, ``removed`` from the old text.

    ``cuts`` are the lines of the new text that follow removed lines, in the same order.
    """

    added: tuple[Span, ...] = ()
    changed: tuple[Span, ...] = ()
    removed: tuple[Span, ...] = ()
    cuts: tuple[int, ...] = ()

    def within(self, chunks: Iterable[Span]) -> LineChanges:
        """The same, with the chunks of the old text that lost only some lines as changed."""
        gone = [(first, last) for first, last in chunks if self.of_old(first, last)]
        inside = [
            (line, line)
            for span, line in zip(self.removed, self.cuts, strict=True)
            if not any(_shared(span, chunk) for chunk in gone)
        ]
        return replace(self, changed=(*self.changed, *inside))

    def of_new(self, first: int, last: int) -> Change | None:
        """Whether some lines of the new text are added or changed; None if neither."""
        new = sum(_shared(span, (first, last)) for span in self.added)
        if new == last - first + 1:
            return "added"
        if new or any(_shared(span, (first, last)) for span in self.changed):
            return "changed"
        return None

    def of_old(self, first: int, last: int) -> Change | None:
        """Whether most of some lines of the old text are gone."""
        gone = sum(_shared(span, (first, last)) for span in self.removed)
        return "removed" if 2 * gone > last - first + 1 else None


def line_changes(old: str | None, new: str | None) -> LineChanges:
    """Compare two versions of a text; None stands for an absent version."""
    before = split_lines(old) if old is not None else []
    after = split_lines(new) if new is not None else []
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    middle = before[first : len(before) - last], after[first : len(after) - last]
    added: list[Span] = []
    changed: list[Span] = []
    removed: list[Span] = []
    cuts: list[int] = []
    for kind, a, a_end, b, b_end in _differences(*middle):
        if kind == "insert":
            added.append((first + b + 1, first + b_end))
        elif kind == "delete":
            removed.append((first + a + 1, first + a_end))
            cuts.append(min(first + b + 1, len(after)))
        elif kind == "replace":
            changed.append((first + b + 1, first + b_end))
    return LineChanges(tuple(added), tuple(changed), tuple(removed), tuple(cuts))


def _differences(
    before: Sequence[str], after: Sequence[str]
) -> list[tuple[str, int, int, int, int]]:
    if not before or not after or len(before) * len(after) > _MAX_PAIRS:
        kind = "insert" if not before else "delete" if not after else "replace"
        return [(kind, 0, len(before), 0, len(after))] if before or after else []
    return list(SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines two texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _shared(a: Span, b: Span) -> int:
    return max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1)
