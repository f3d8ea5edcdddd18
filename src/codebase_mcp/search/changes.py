"""What did a change touch, and which of it answers?

A change leads from one snapshot to another. Its chunks are those of the new files that have lines
which are not in the old ones, and those of the old files of which most lines are gone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.fusion import ChunkKey
from codebase_mcp.search.hits import Change, Hit
from codebase_mcp.search.lists import COUNT_LIMIT, MEANING_CHUNKS, WORD_CHUNKS, DatabaseLists, Lists
from codebase_mcp.search.query import Query, matching_terms
from codebase_mcp.search.scope import QueryVector, Scope, ScopedSnapshot

_SQL = load_queries("codebase_mcp.search", "changes.sql")
_SEARCH = load_queries("codebase_mcp.search", "search.sql")

# How many files of a change are searched, by path.
MAX_FILES = 5_000

_BATCH_TEXTS = 200


@dataclass(frozen=True, slots=True)
class Range:
    """A change, by the ids of the snapshots before and after it."""

    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Touched:
    """What a change touched.

    ``chunks`` maps chunks to how they came about, ``files`` the paths of each snapshot to the lines
    that differ. ``old`` are the snapshots before the changes.
    """

    chunks: Mapping[ChunkKey, Change]
    files: Mapping[tuple[int, str], LineChanges]
    old: frozenset[int]


async def load_touched(tx: Transaction, ranges: Sequence[Range]) -> Touched:
    """What some changes touched."""
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
    lines_of: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for blob_id, *where in lines:
        lines_of[blob_id].append((where[0], where[1], where[2]))
    found = await asyncio.to_thread(
        lambda: [line_changes(text_of.get(old), text_of.get(new)) for _, old, new in rows]
    )
    for (path, old, new), lines_differing in zip(rows, found, strict=True):
        old_chunks = [span for _, *span in lines_of.get(old, ())]
        differing = lines_differing.within(old_chunks)
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
    """The candidate lists of a search within changes: of the touched chunks alone."""

    def __init__(self, tx: Transaction, scope: Scope, touched: Touched) -> None:
        texts = array_literal({blob_id for blob_id, _ in touched.chunks})
        super().__init__(tx, replace(scope, texts=texts))
        self._touched = touched

    async def find(
        self, query: Query, idf: Mapping[int, float], vectors: Sequence[QueryVector]
    ) -> Lists:
        """All lists, in one round trip more than others take."""
        chunks = self._touched.chunks
        wanted = {
            "blobs": array_literal(blob_id for blob_id, _ in chunks),
            "ordinals": array_literal(ordinal for _, ordinal in chunks),
        }
        words = {
            "query": sparse_literal(idf),
            "expansion": sparse_literal(self._scope.expansion_weights()),
            "terms": array_literal({*idf, *self._scope.expansion}),
            "limit": WORD_CHUNKS,
        }
        counted = {"terms": array_literal(matching_terms(query)), "most": COUNT_LIMIT + 1}
        statements: list[tuple[Any, dict[str, Any]]] = [
            (_SQL["words"], wanted | words),
            (_SQL["holding_count"], wanted | counted),
        ]
        for one in vectors:
            meaning = write_numbers(_SQL["meaning"], profile_id=one.profile.id)
            bound = {"vector": dense_literal(one.vector), "limit": MEANING_CHUNKS}
            statements.append((meaning, wanted | bound))
        by_words, [(holding_count,)], *by_meaning = await self._tx.fetch_many(statements)
        others = await super().find(query, idf, ())
        with_evidence = {row[0] for rows in (by_words, *by_meaning) for row in rows}
        return Lists(
            by_words,
            others.named_texts & with_evidence,
            [one for one in others.definitions if (one[0], one[1].ordinal) in chunks],
            others.holders,
            by_meaning,
            holding_count,
        )

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files of the changes that pass the filters and have these texts."""
        rows = await super().files(texts, idf)
        return [row for row in rows if (row[0], row[1]) in self._touched.files]


def mark_changes(
    hits: Iterable[Hit], touched: Touched, snapshots: Iterable[ScopedSnapshot]
) -> list[Hit]:
    """Hits with how their lines came about."""
    ids = {(one.repository_id, one.view): one.id for one in snapshots}
    marked = []
    for hit in hits:
        snapshot_id = ids[hit.repository_id, hit.view]
        differing = touched.files[snapshot_id, hit.file_path]
        lines = hit.start_line, hit.end_line
        is_old = snapshot_id in touched.old
        change = differing.of_old(*lines) if is_old else differing.of_new(*lines)
        marked.append(replace(hit, change=change or ("removed" if is_old else "changed")))
    return marked



# Above this number of line pairs, everything between the first and the last difference counts as
# changed: comparing takes time by the square of the number of lines.
_MAX_PAIRS = 4_000_000

Span = tuple[int, int]
"""The first and the last of some lines, counted from 1."""


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Lines that differ: ``added`` and ``changed`` in the new text, ``removed`` from the old one.

    ``cuts`` are the lines of the new text that follow on removed ones, in the same order.
    """

    added: tuple[Span, ...] = ()
    changed: tuple[Span, ...] = ()
    removed: tuple[Span, ...] = ()
    cuts: tuple[int, ...] = ()

    def within(self, chunks: Iterable[Sequence[int]]) -> LineChanges:
        """The same, where a piece of the old text that lost only some lines counts as changed."""
        gone = [(first, last) for first, last in chunks if self.of_old(first, last)]
        inside = [
            (line, line)
            for span, line in zip(self.removed, self.cuts, strict=True)
            if not any(_shared(span, one) for one in gone)
        ]
        return replace(self, changed=(*self.changed, *inside))

    def of_new(self, first: int, last: int) -> Change | None:
        """How some lines of the new text came about; None if they were there before."""
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
    """What differs between two versions of a text; None for a version that is absent."""
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
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _shared(a: Span, b: Span) -> int:
    return max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1)
