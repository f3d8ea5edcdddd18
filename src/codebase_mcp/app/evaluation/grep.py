"""The baseline grep: the files with most words of the query.

The baseline is an agent without an index: it searches for the query's words, ignoring case and stop
words, reads the files with the most distinct words first, then those with the most matching lines.
It reads of each the output of
``rg -i -n -m 20 -C 2 -M 500 --max-columns-preview -e WORD -e WORD FILE``.

Texts are read on demand and not kept, as a tree may be larger than memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heappush, heappushpop
from pathlib import Path
from typing import NamedTuple

from codebase_mcp.app.evaluation.questions import Target
from codebase_mcp.app.evaluation.scoring import ListEntry
from codebase_mcp.chunking.lines import normalise_newlines
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.source_tree import SourceTree, read_each, source_tree_at
from codebase_mcp.text.tokens import STOP_WORDS, WORD


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it is indexed: lines end with ``\\n`` alone."""

    path: str
    text: str
    language: str
    kind: FileKind

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        lines = self.text.split("\n")
        return lines[:-1] if not lines[-1] else lines


@dataclass(frozen=True, slots=True)
class Corpus:
    """The listed files of a tree by path."""

    root: Path
    files: Mapping[str, SourceFile]
    tree: SourceTree

    @classmethod
    def of(cls, root: Path, selection: Selection) -> Corpus:
        """The files that an index run would list."""
        tree = source_tree_at(root, selection)
        return cls(root, {file.path: file for file in tree.list_files().files}, tree)

    def only(self, paths: Collection[str]) -> Corpus:
        """The corpus restricted to some paths."""
        kept = set(paths)
        return replace(self, files={p: file for p, file in self.files.items() if p in kept})

    def read(self, path: str) -> FileText | None:
        """The text of a file; None if it is not listed or not text."""
        return next(self._texts([self.files[path]] if path in self.files else []), None)

    def texts(self) -> Iterator[FileText]:
        return self._texts([*self.files.values()])

    def _texts(self, files: Sequence[SourceFile]) -> Iterator[FileText]:
        for file, source in read_each(self.tree, files):
            if isinstance(source, SourceText):
                text = normalise_newlines(source.text)
                yield FileText(file.path, text, source.language, source.kind)


CONTEXT_LINES = 2
MAX_MATCHES = 20
MAX_COLUMNS = 500


class Match(NamedTuple):
    """A file with some of the words; a better match is the greater.

    ``rows`` is a bit set of the matching rows, ``position`` the negative position of the file in
    the list, so that of equal files the first is the better.
    """

    words: int
    lines: int
    position: int
    path: str
    rows: int


def content_words(query: str) -> tuple[str, ...]:
    """The distinct words to search for, in lower case and without stop words."""
    words = (word.lower() for word in WORD.findall(query))
    return tuple(dict.fromkeys(w for w in words if len(w) > 1 and w not in STOP_WORDS))


def best_matches(
    queries: Sequence[Sequence[str]], files: Iterable[FileText], limit: int
) -> list[list[Match]]:
    """The best files for the words of each query, best first. Each file is scanned once."""
    heaps: list[list[Match]] = [[] for _ in queries]
    distinct = sorted({word for words in queries for word in words})
    for number, file in enumerate(files):
        rows_of = _rows_of(distinct, file.text.lower())
        for words, heap in zip(queries, heaps, strict=True):
            matching = [rows_of[word] for word in words if word in rows_of]
            if not matching or (len(heap) == limit and len(matching) < heap[0].words):
                continue
            rows = reduce(operator.or_, matching)
            match = Match(len(matching), rows.bit_count(), -number, file.path, rows)
            if len(heap) < limit:
                heappush(heap, match)
            else:
                heappushpop(heap, match)
    return [sorted(heap, reverse=True) for heap in heaps]


def printed(match: Match, file: FileText) -> ListEntry:
    """The lines read of a file: its name, the first matching lines and the context around them."""
    lines = file.lines
    spans = _spans(match.rows, len(lines))
    chars = len(file.path) + 1 + 3 * (len(spans) - 1)  # "--" between two of them
    for first, last in spans:
        for number in range(first, last + 1):
            chars += len(str(number)) + 1 + min(len(lines[number - 1]), MAX_COLUMNS) + 1
    return ListEntry(tuple(Target(file.path, span) for span in spans), chars)


def grep(
    queries: Sequence[str],
    files: Iterable[FileText],
    read: Callable[[str], FileText | None],
    limit: int,
) -> list[list[ListEntry]]:
    """The lines read for each query, file by file; ``read`` opens a file again by its path."""
    matches = best_matches([content_words(query) for query in queries], files, limit)
    return [
        [printed(match, file) for match in ranked if (file := read(match.path)) is not None]
        for ranked in matches
    ]


def _rows_of(words: Sequence[str], text: str) -> dict[str, int]:
    """The rows of a lower-case text that hold each word, for those that it holds.

    A word never spans two runs of word characters, so searching the distinct runs first gives the
    same result in a tenth of the time.
    """
    runs = "\n".join(set(WORD.findall(text)))
    words = [word for word in words if word in runs]
    last_first = text.split("\n")[::-1]
    return {word: int("".join("01"[word in line] for line in last_first), 2) for word in words}


def _spans(rows: int, count: int) -> list[tuple[int, int]]:
    """The lines printed (1-based, inclusive): the first matches with those around them."""
    spans: list[tuple[int, int]] = []
    matches = 0
    while rows and matches < MAX_MATCHES:
        number = (rows & -rows).bit_length()
        rows &= rows - 1
        matches += 1
        first, last = max(number - CONTEXT_LINES, 1), min(number + CONTEXT_LINES, count)
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans
