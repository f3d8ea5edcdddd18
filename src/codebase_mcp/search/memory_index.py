"""Some snapshots of a project as arrays, for searches that need no database.

A memory index is a copy without texts: words with their weights, vectors, file names and
definitions. It never changes; its version identifies the state of the snapshots that it copies. It
consists of arrays alone, so a file of them can be mapped (``index_files.py``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.literals import WEIGHT_DIGITS
from codebase_mcp.search.scope import FileFilters, ScopeVersion
from codebase_mcp.text.tokens import ALL_CHUNKS

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

# The size of a chunk without its vector, measured over 14 projects of real code.
_CHUNK_BYTES = 900

# The cache of filter results is emptied when it has this many.
_MAX_CACHED_FILTERS = 50


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings in UTF-8, one after the other; number i is ``content[starts[i]:starts[i + 1]]``."""

    content: Bytes
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Some strings in their order."""
        encoded = [string.encode() for string in strings]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> str:
        return self.content[self.starts[number] : self.starts[number + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def at(self, numbers: NDArray[np.int32 | np.int64]) -> list[str]:
        """Some of the strings."""
        content = self.content.data
        firsts, ends = self.starts[numbers].tolist(), self.starts[numbers + 1].tolist()
        return [str(content[a:b], "utf-8") for a, b in zip(firsts, ends, strict=True)]

    def find(self, string: str) -> int | None:
        """The position of a string, if all of them are in the order of their bytes."""
        number = self.place(string)
        return number if number < len(self) and self[number] == string else None

    def place(self, string: str) -> int:
        """The number of strings before a string, if all are in the order of their bytes."""
        content, starts = self.content.data, self.starts.data

        def encoded(number: int) -> bytes:
            return content[starts[number] : starts[number + 1]].tobytes()

        return bisect_left(range(len(self)), string.encode(), key=encoded)

    def selected(self, numbers: Ints) -> Strings:
        """Some of the strings."""
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        moved = np.repeat(self.starts[numbers] - starts[:-1], lengths)
        return Strings(self.content[moved + np.arange(starts[-1])], starts)

    def inserted(self, places: Sequence[int], strings: Strings) -> Strings:
        """With other strings, each before the string of its place."""
        lengths = np.diff(strings.starts)
        content = np.insert(self.content, np.repeat(self.starts[places], lengths), strings.content)
        all_lengths = np.insert(np.diff(self.starts), places, lengths)
        return Strings(content, np.concatenate(([0], np.cumsum(all_lengths))))


class IndexedFile(NamedTuple):
    """A file of a snapshot; ``text`` is the position of its text."""

    snapshot_id: int
    repository_id: UUID
    path: str
    text: int
    language: str
    kind: str
    extension: str


@dataclass(frozen=True)  # without slots, because of the cached properties
class Files:
    """The files of the snapshots, by column, in the order of their paths.

    ``repositories`` are the ids of the repositories, of 16 bytes each, and ``repository`` the
    position of that of each file. ``languages``, ``kinds`` and ``extensions`` are positions in
    ``labels``.
    """

    snapshots: NDArray[np.int64]
    repositories: Bytes
    repository: Ints
    paths: Strings
    texts: Ints
    languages: Ints
    kinds: Ints
    extensions: Ints
    labels: Strings

    @classmethod
    def of(cls, files: Sequence[IndexedFile]) -> Files:
        """Some files."""
        repositories: dict[UUID, int] = {}
        labels: dict[str, int] = {}

        repository = [repositories.setdefault(f.repository_id, len(repositories)) for f in files]
        return cls(
            snapshots=np.array([f.snapshot_id for f in files], np.int64),
            repositories=bytes_of(repositories),
            repository=np.array(repository, np.int32),
            paths=Strings.of(f.path for f in files),
            texts=np.array([f.text for f in files], np.int32),
            languages=numbered(labels, (f.language for f in files)),
            kinds=numbered(labels, (f.kind for f in files)),
            extensions=numbered(labels, (f.extension for f in files)),
            labels=Strings.of(labels),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[IndexedFile]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> IndexedFile:
        return IndexedFile(
            int(self.snapshots[number]),
            self._repository_ids[self.repository[number]],
            self.paths[number],
            int(self.texts[number]),
            self._labels[self.languages[number]],
            self._labels[self.kinds[number]],
            self._labels[self.extensions[number]],
        )

    def labelled(self, column: Ints) -> list[str]:
        """The labels of some files: part of ``languages``, ``kinds`` or ``extensions``."""
        return [self._labels[position] for position in column.tolist()]

    @cached_property
    def _repository_ids(self) -> list[UUID]:
        return _uuids(self.repositories)

    @cached_property
    def _labels(self) -> list[str]:
        return list(self.labels)


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows with each term, and the weight of the term there.

    The rows with ``terms[i]`` are ``rows[starts[i]:starts[i + 1]]``, ascending.
    """

    terms: Ints
    starts: NDArray[np.int64]
    rows: Ints
    weights: Floats

    @classmethod
    def collect(cls, terms: Ints, rows: Ints, weights: Floats) -> Postings:
        """Group entries (term, row, weight) by term; rows ascend."""
        order = np.argsort(terms, kind="stable")
        ordered = terms[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        starts = np.append(firsts, len(ordered))
        return cls(ordered[firsts], starts, rows[order], weights[order])

    def spans(self, terms: Collection[int]) -> list[slice]:
        """The slice of entries of each term; empty for a term in no row."""
        if not len(self.terms):
            return [slice(0, 0)] * len(terms)
        numbers = np.fromiter(terms, np.int32, len(terms))
        positions = np.minimum(np.searchsorted(self.terms, numbers), len(self.terms) - 1)
        firsts = self.starts[positions]
        ends = np.where(self.terms[positions] == numbers, self.starts[positions + 1], firsts)
        return list(map(slice, firsts.tolist(), ends.tolist()))

    def rows_of(self, terms: Collection[int]) -> list[Ints]:
        """The rows with each term."""
        return [self.rows[span] for span in self.spans(terms)]

    def score(self, weights: Mapping[int, float], among: Mask) -> Floats:
        """The inner product of a sparse query with the rows of a mask, rounded as in pgvector.

        pgvector adds products by ascending terms, and rounds only after each addition. The scores
        of other rows are 0.
        """
        scores = np.zeros(len(among), np.float32)
        ascending = dict(sorted(weights.items()))
        spans = self.spans(ascending)
        rows = np.concatenate([self.rows[:0], *(self.rows[span] for span in spans)])
        # Most rows of a common term are not among them.
        kept = np.flatnonzero(among.take(rows, mode="clip"))
        ends = np.searchsorted(kept, np.cumsum([0, *(span.stop - span.start for span in spans)]))
        sent = np.array([round(weight, WEIGHT_DIGITS) for weight in ascending.values()], np.float32)
        products = np.repeat(sent.astype(np.float64), np.diff(ends))
        products *= np.concatenate([self.weights[:0], *(self.weights[s] for s in spans)])[kept]
        rows = rows[kept].astype(np.intp)
        for first, end in pairwise(ends.tolist()):
            of_term = rows[first:end]
            scores[of_term] = products[first:end] + scores[of_term]
        return scores


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """All definitions, in the order of their texts; names and kinds are positions in ``strings``.

    The definitions with the name ``folded[i]`` are ``by_name[of_folded[i]:of_folded[i + 1]]``.
    """

    strings: Strings
    texts: Ints
    names: Ints
    kinds: Ints
    starts: Ints
    ends: Ints
    depths: Ints
    by_name: Ints
    folded: Strings
    of_folded: Ints

    @classmethod
    def of(cls, columns: Ints, strings: Strings, folded: Strings) -> SymbolTable:
        """Some definitions, a row each: text, name, kind, first and last line, depth, folded name.

        The last is a position in ``folded``, which are in the order of their bytes.
        """
        texts, names, kinds, starts, ends, depths, folded_names = columns.T.copy()
        by_name = np.argsort(folded_names, kind="stable").astype(np.int32)
        of_folded = np.searchsorted(folded_names[by_name], np.arange(len(folded) + 1))
        return cls(
            strings=strings,
            texts=texts,
            names=names,
            kinds=kinds,
            starts=starts,
            ends=ends,
            depths=depths,
            by_name=by_name,
            folded=folded,
            of_folded=of_folded.astype(np.int32),
        )

    def rows_of(self, folded: str) -> Ints:
        """The definitions with a folded name."""
        number = self.folded.find(folded)
        if number is None:
            return self.by_name[:0]
        return self.by_name[self.of_folded[number] : self.of_folded[number + 1]]


@dataclass(frozen=True)  # without slots, because of the cached properties
class MemoryIndex:
    """Some snapshots of a project as arrays.

    Texts are numbered in the order of their ids, chunks in the order of text and ordinal: those of
    text t are ``first_chunks[t]`` up to ``first_chunks[t + 1]``. ``comments`` and ``file_names``
    are by text and by file, ``words`` by chunk. ``vectors`` has a column for each chunk, with which
    a product with all of them takes half the time. ``snapshots`` are the ids of the snapshots,
    ``versions`` their versions, of 16 bytes each, and ``profile`` the id of the model.
    ``incomplete`` are the texts that lack vectors.
    """

    snapshots: NDArray[np.int64]
    versions: Bytes
    profile: NDArray[np.int64]
    blob_ids: NDArray[np.int64]
    first_chunks: Ints
    text_of: Ints
    start_lines: Ints
    end_lines: Ints
    vectors: Floats
    words: Postings
    comments: Postings
    file_names: Postings
    symbols: SymbolTable
    files: Files
    incomplete: Ints
    _shown: Mask | None = None
    _filtered: dict[FileFilters, tuple[Mask, Mask]] = field(default_factory=dict)

    def showing(self, files: Mask) -> MemoryIndex:
        """The index with these files alone, and their texts."""
        return replace(self, _shown=None if files.all() else files, _filtered={})

    @cached_property
    def version(self) -> ScopeVersion:
        """The state of the snapshots that it copies."""
        return tuple(zip(self.snapshots.tolist(), _uuids(self.versions), strict=True))

    @property
    def chunk_count(self) -> int:
        """The number of all chunks."""
        return len(self.text_of)

    @property
    def size_bytes(self) -> int:
        """Its approximate size in memory."""
        return index_bytes(self.chunk_count, len(self.vectors))

    def frequencies(self, terms: Collection[int]) -> dict[int, int]:
        """The number of chunks with each of these terms."""
        shown = self._shown_chunks
        if shown is None:
            sizes = [span.stop - span.start for span in self.words.spans(terms)]
        else:
            sizes = [int(np.count_nonzero(shown[rows])) for rows in self.words.rows_of(terms)]
        counts = dict(zip(terms, sizes, strict=True))
        if ALL_CHUNKS in counts:
            counts[ALL_CHUNKS] = self.chunk_count if shown is None else np.count_nonzero(shown)
        return counts

    @cached_property
    def _shown_chunks(self) -> Mask | None:
        _, texts = self.filtered(FileFilters())
        return None if texts is None else texts[self.text_of]

    def filtered(self, filters: FileFilters) -> tuple[Mask | None, Mask | None]:
        """The files that pass the filters, and their texts, as masks; None if all pass."""
        if self._shown is None and not filters.narrow:
            return None, None
        if filters not in self._filtered:
            if len(self._filtered) >= _MAX_CACHED_FILTERS:
                self._filtered.clear()
            files = np.ones(len(self.files), np.bool_) if self._shown is None else self._shown
            if filters.narrow:
                passes = filters.test()
                tested = (
                    passes(f.repository_id, f.path, f.extension, f.language, f.kind)
                    for f in self.files
                )
                files = files & np.fromiter(tested, np.bool_, len(self.files))
            texts = np.zeros(len(self.blob_ids), np.bool_)
            texts[self.files.texts[files]] = True
            self._filtered[filters] = files, texts
        return self._filtered[filters]


def numbered(number_of: dict[str, int], strings: Iterable[str]) -> Ints:
    """The number of each string; a new string gets the next number."""
    return np.array([number_of.setdefault(s, len(number_of)) for s in strings], np.int32)


def bytes_of(ids: Iterable[UUID]) -> Bytes:
    """The bytes of ids, one after the other."""
    return np.frombuffer(b"".join(each.bytes for each in ids), np.uint8)


def _uuids(content: Bytes) -> list[UUID]:
    joined = content.tobytes()
    return [UUID(bytes=joined[first : first + 16]) for first in range(0, len(joined), 16)]


def index_bytes(chunk_count: int, dimension: int) -> int:
    """The approximate size in memory of an index with this many chunks."""
    return chunk_count * (4 * dimension + _CHUNK_BYTES)
