"""A scan of texts for a pattern: those of an index, and files on disk."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from json import loads
from typing import Literal

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import SourceFile, Symbol, extension_of
from codebase_mcp.search.changes import Touched
from codebase_mcp.search.exact import FileMatches, TextFile, ordered, with_lines, within_change
from codebase_mcp.search.scope import FileFilters, ScopedSnapshot
from codebase_mcp.search.text_image import SnapshotTexts, ended
from codebase_mcp.search.text_pattern import Spans, TextMatcher, TextQuery
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.source_tree import SourceTree
from codebase_mcp.values import grouped

_SQL = load_queries("codebase_mcp.search", "exact.sql")

# Of longer files on disk the definitions are unknown.
_MOST_PARSED_BYTES = 1 << 20

Form = Literal["count", "files", "lines"]
"""Whether an answer shows how many lines match by folder, by file, or the lines."""


@dataclass(frozen=True, slots=True)
class TextQuestion:
    """What to search, where, and what to show of it: at most ``limit`` lines."""

    query: TextQuery
    filters: FileFilters = field(default_factory=FileFilters)
    ref: str | None = None
    context_lines: int = 0
    limit: int = 50
    form: Form = "lines"


Table = dict[int, list[TextFile]]
"""The files of a snapshot, by the id of their text."""


@dataclass(frozen=True, slots=True)
class FilesOnDisk:
    """Files that are read from a tree on disk, and the paths for which the index is not used."""

    tree: SourceTree
    files: tuple[SourceFile, ...]
    instead_of: frozenset[str] = frozenset()


@dataclass(slots=True)
class TextScan:
    """A search under way: what it needs, and what it has found.

    ``definers`` are the ids of the texts that define the name which is searched, if it is a name.
    ``until`` is a monotonic time. ``_read`` are the texts that were read from the disk.
    """

    question: TextQuestion
    matcher: TextMatcher
    snapshots: tuple[ScopedSnapshot, ...]
    tables: Mapping[int, Table]
    texts: Mapping[int, SnapshotTexts]
    touched: Touched | None
    definers: Collection[int]
    until: float
    matches: list[FileMatches] = field(default_factory=list)
    not_searched: Counter[str] = field(default_factory=Counter)
    is_complete: bool = True
    _read: dict[tuple[int, str], bytes] = field(default_factory=dict)

    async def search(self, snapshot: ScopedSnapshot, on_disk: Sequence[FilesOnDisk] = ()) -> None:
        """Search the files of a snapshot, and some on disk; a cancelled search ends at once."""
        try:
            await asyncio.to_thread(self._search, snapshot, on_disk)
        except asyncio.CancelledError:
            self.until = 0.0
            raise

    def _check(self) -> None:
        """Raise TimeoutError once the time is over."""
        if time.monotonic() > self.until:
            raise TimeoutError

    def _search(self, snapshot: ScopedSnapshot, on_disk: Sequence[FilesOnDisk]) -> None:
        passes, touched = self.question.filters.test(), self.touched
        instead_of = frozenset[str]().union(*(part.instead_of for part in on_disk))

        def is_searched(file: TextFile) -> bool:
            facts = file.path, file.extension, file.language, file.kind
            return (
                file.path not in instead_of
                and passes(snapshot.repository_id, *facts)
                and (touched is None or (snapshot.id, file.path) in touched.files)
            )

        table, texts = self.tables[snapshot.id], self.texts[snapshot.id]
        ids = None
        if self.question.filters.narrow or touched is not None:
            ids = {text_id for text_id, files in table.items() if any(map(is_searched, files))}
        matches = texts.find(self.matcher, ids, self._check)
        self.is_complete &= matches.is_complete
        for text_id, spans in matches.spans.items():
            for file in filter(is_searched, table.get(text_id, ())):
                self._add(file, b"" if touched is None else texts.text(text_id), spans)
        read = 0
        for part in on_disk:
            read += 0 if part.instead_of else len(part.files)
            for f in part.files:
                facts = f.language, extension_of(f.path), f.kind.value
                if passes(snapshot.repository_id, f.path, facts[1], facts[0], facts[2]):
                    self._search_on_disk(part.tree, TextFile(snapshot, f.path, None, *facts, f))
        self.not_searched.update(_left_out(snapshot, read))

    def _search_on_disk(self, tree: SourceTree, file: TextFile) -> None:
        """Search a file on disk. Only if it matches its secrets are masked, which takes longer."""
        if time.monotonic() > self.until:
            self.is_complete = False
            return
        assert file.source is not None
        for shows_secrets in (True, False):
            [content] = tree.read_files([replace(file.source, shows_secrets=shows_secrets)])
            if not isinstance(content, SourceText):
                return
            text = ended(content.text.encode())
            if not self.matcher.is_in(text):
                return
        spans = Spans(self.matcher.spans(text))
        self._read[file.snapshot.id, file.path] = text
        self._add(file, text, spans)

    def _add(self, file: TextFile, text: bytes, spans: Spans) -> None:
        """Add the matches of a file: of a change those in lines that it touched."""
        if self.touched is not None:
            differing = self.touched.files.get((file.snapshot.id, file.path))
            is_old = file.snapshot.id in self.touched.old
            if differing is None:
                return
            spans = within_change(spans, text, differing, is_old=is_old)
        if spans:
            self.matches.append(FileMatches(file, spans, file.text_id in self.definers))

    async def with_lines(self, tx: Transaction) -> list[FileMatches]:
        """The files in the order of a reader; the first with their lines, up to the limit."""
        files, is_name = ordered(self.matches), self.matcher.is_name
        rooms = [0, *accumulate(matches.count for matches in files)]
        shown = [m for m, used in zip(files, rooms, strict=False) if used < self.question.limit]
        ids = {m.file.text_id for m in shown if m.file.text_id is not None}
        rows = await tx.fetch_all(_SQL["definitions"], ids=array_literal(ids))
        definitions = grouped((text_id, Symbol(*facts)) for text_id, *facts in rows)
        old = self.touched.old if self.touched else ()
        for position, matches in enumerate(shown):
            file = matches.file
            text_id, key = file.text_id, (file.snapshot.id, file.path)
            if text_id is None:
                text = self._read[key]
                around = await asyncio.to_thread(_definitions_in, text, file.language)
            else:
                text, around = self.texts[key[0]].text(text_id), definitions[text_id]
            files[position] = with_lines(
                matches,
                text,
                around,
                limit=self.question.limit - rooms[position],
                context_lines=self.question.context_lines,
                is_name=is_name,
                is_removed=file.snapshot.id in old,
            )
        return files


def _definitions_in(text: bytes, language: str) -> Sequence[Symbol]:
    """The definitions in a text that the index lacks."""
    if len(text) > _MOST_PARSED_BYTES:
        return ()
    from codebase_mcp.chunking.split import split  # noqa: PLC0415 - seldom needed

    with suppress(IndexingFailed):  # the grammar cannot be loaded
        outline = split(text.decode("utf-8", "replace"), language)
        return (*outline.symbols, *outline.fields)
    return ()


def _left_out(snapshot: ScopedSnapshot, read: int) -> Counter[str]:
    """The files that were not searched, by reason; ``read`` of them were read from the disk."""
    left_out = Counter[str](loads(snapshot.skipped))
    left_out["failed"] += snapshot.files_failed
    for reason in ("too_large", "failed"):
        fewer = min(read, left_out[reason])
        left_out[reason] -= fewer
        read -= fewer
    return left_out
