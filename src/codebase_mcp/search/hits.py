"""Which chunks of the ranked files are shown? Loads their texts, and makes hits of them.

Each file has a hit for its best chunk, which names the lines of further good chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.model import ITEM, WORKTREE, Chunk
from codebase_mcp.search.lists import ChunkKey, chunk_parameters
from codebase_mcp.search.signals import RankedFile
from codebase_mcp.telemetry.stopwatch import step
from codebase_mcp.values import grouped

_SQL = load_queries("codebase_mcp.search", "search.sql")

# The weights that select the best chunk of a file: its share of the query's words; being in the
# list of meaning, and the distance from the last chunk there; a definition of a name of the query.
# A first chunk without such a definition counts less: mostly it has imports and an overview. From a
# softmax regression over the right files of 2,000 questions about 60 projects
# (``training/experiments.md``): 59 % of the right files of everyday questions are shown by a right
# chunk; 55 % if words have a third of the weight of meaning.
_WORDS, _NEAR, _MEANING, _DEFINITION = 1.0, 1.3, 15.0, 5.0
_FIRST_CHUNK = 0.6

# A chunk with the exact text of the query is stronger than any without it.
_EXACT = 30.0

# The namespace of chunk ids.
_CHUNKS = UUID("a912eef2-29f9-4670-acef-8425678235e8")

# The signal of definitions counts up to this value, so that the uses of a name can win as well.
_MOST_DEFINED = 0.5

# Further chunks of a file are listed with its hit if their strength is at least this share of the
# best chunk's.
_LISTED_SHARE = 0.75
_MAX_LISTED = 5

# Chunks with at least this share count as matches.
_MATCH_SHARE = 0.5


# Fields and constants are not shown as definitions, unless they are long and at the top level.
_FIELDS = frozenset({"constant", "variable", "property", "key", "type"})
_FIELD_LINES = 3

Change = Literal["added", "changed", "removed"]
"""How lines came about, in a search within changes."""


@dataclass(frozen=True, slots=True)
class Enclosing:
    """A definition of a file (lines 1-based, inclusive), with its qualified name.

    Lines outside of all definitions have none.
    """

    qualified: str | None
    kind: str
    start_line: int
    end_line: int
    depth: int

    @property
    def is_field(self) -> bool:
        """Whether it is a field, constant or item, to be shown with the lines around it."""
        is_short = self.end_line - self.start_line + 1 < _FIELD_LINES
        return self.kind == ITEM or (self.kind in _FIELDS and (is_short or self.depth > 0))


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text's lines, with line ends, and the chunks and definitions that were loaded.

    ``chunks`` are by ordinal.
    """

    lines: list[str]
    chunks: Mapping[int, Chunk]
    definitions: tuple[Enclosing, ...]


async def load_texts(
    tx: Transaction, keys: Collection[ChunkKey], *, with_definitions: bool
) -> dict[int, StoredText]:
    """The texts of some chunks, with these and their definitions. Ends the transaction."""
    if not keys:
        return {}
    parameters = chunk_parameters(keys)
    texts, chunks, *definitions = await tx.fetch_last(
        [
            (_SQL["texts"], {"blobs": array_literal({blob_id for blob_id, _ in keys})}),
            (_SQL["chunks"], parameters),
            *([(_SQL["enclosing"], parameters)] if with_definitions else []),
        ]
    )
    chunks_of: dict[int, dict[int, Chunk]] = defaultdict(dict)
    for blob_id, ordinal, *chunk in chunks:
        chunks_of[blob_id][ordinal] = Chunk(*chunk)
    enclosing = chain.from_iterable(definitions)
    defined = grouped((blob_id, Enclosing(*definition)) for blob_id, *definition in enclosing)
    return {
        blob_id: StoredText(split_lines(text), chunks_of[blob_id], tuple(defined[blob_id]))
        for blob_id, text in texts
    }


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines worth reading."""

    start_line: int
    end_line: int
    symbol: str | None
    score: float


@dataclass(frozen=True, slots=True)
class Location:
    """A further location of the same text."""

    repository_id: UUID
    file_path: str
    start_line: int
    end_line: int
    view: str = WORKTREE


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk of a file with the lines around it, or a definition.

    ``matching_lines`` are line numbers of a definition, the best first; ``exact_lines`` have the
    query's exact text. ``view`` is ``worktree`` or the commit that has the file; ``change`` is the
    kind of change, in a search within changes.
    """

    chunk_id: UUID
    repository_id: UUID
    file_path: str
    language: str
    file_kind: str
    content: str
    start_line: int
    end_line: int
    symbol: str | None
    kind: str
    similarity_score: float
    context_before: str
    context_after: str
    more_in_file: tuple[LineRange, ...] = ()
    also_at: tuple[Location, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    matching_lines: tuple[int, ...] = ()
    exact_lines: tuple[int, ...] = ()
    view: str = WORKTREE
    change: Change | None = None


class ScoredFile(NamedTuple):
    """A ranked file with its calibrated score, its repository and its view.

    A file ``far_behind`` the first is shown only if there are fewer results than requested.
    """

    ranked: RankedFile
    similarity: float
    repository_id: UUID
    view: str = WORKTREE
    far_behind: bool = False

    @property
    def exact_lines(self) -> list[int]:
        """The lines with the query's exact text."""
        return sorted({*chain.from_iterable(self.ranked.candidate.evidence.exact.values())})


def chunk_strengths(file: RankedFile) -> dict[int, float]:
    """The strength of each chunk in the candidate lists; else the first chunk."""
    evidence = file.candidate.evidence
    top = evidence.best_words or 1.0
    words = _WORDS * min(file.coverage, 1.0) / top
    strengths = {ordinal: words * score for ordinal, score in evidence.words.items()}
    for ordinal, cosine in evidence.meaning.items():
        near = _NEAR + _MEANING * max(cosine - evidence.least_meaning, 0.0)
        strengths[ordinal] = strengths.get(ordinal, 0.0) + near
    defining = {d.ordinal for d in evidence.definitions if d.ordinal is not None}
    if 0 in strengths and 0 not in defining:
        strengths[0] *= _FIRST_CHUNK
    for ordinal in defining:
        strength = _DEFINITION * min(file.signals["definition"], _MOST_DEFINED)
        strengths[ordinal] = strengths.get(ordinal, 0.0) + strength
    for ordinal in evidence.exact:
        strengths[ordinal] = strengths.get(ordinal, 0.0) + _EXACT
    return strengths or dict(evidence.expansion) or {0: 1.0}


class ChosenChunk(NamedTuple):
    """A chunk of a file that is worth showing, with its score."""

    file: ScoredFile
    ordinal: int
    score: float

    @property
    def key(self) -> tuple[int, int]:
        """Its blob id and its ordinal."""
        return self.file.ranked.candidate.blob_id, self.ordinal


def good_chunks(file: ScoredFile, least: float = _MATCH_SHARE) -> list[ChosenChunk]:
    """The chunks of a file with at least a share of the best chunk's strength, best first.

    Their scores are shares of the file's score. With 0 as the ``least`` share all chunks are good.
    """
    every = range(file.ranked.candidate.evidence.chunk_count)
    strengths = dict.fromkeys(every, 0.0) if least == 0 else {}
    strengths |= chunk_strengths(file.ranked)
    best = max(strengths.values()) or 1.0
    good = sorted((-s, ordinal) for ordinal, s in strengths.items() if s >= least * best)
    return [
        ChosenChunk(file, ordinal, round(file.similarity * -negative / best, 4))
        for negative, ordinal in good or [(0.0, min(strengths))]
    ]


def choose(files: Sequence[ScoredFile], count: int) -> list[ChosenChunk]:
    """Select ``count`` chunks to show, by score.

    First the best chunk of each file and then further good chunks, of files that are not far
    behind; then those of files far behind; then any chunks. Files with the same text count once;
    their chunks follow each other.
    """
    kept: dict[tuple[int, int], dict[tuple[int, str], ChosenChunk]] = {}
    behind = [file for file in files if file.far_behind]
    leading = [file for file in files if not file.far_behind]
    for group, least in ((leading, _MATCH_SHARE), (behind, _MATCH_SHARE), (files, 0.0)):
        if len(kept) >= count:
            break
        of_file = [good_chunks(file, least) for file in _of_best_texts(group, count)]
        best = [chunks[0] for chunks in of_file]
        further = [chunk for chunks in of_file for chunk in chunks[1:]]
        for chunk in (*_by_score(best), *_by_score(further)):
            if chunk.key in kept or len(kept) < count:
                candidate = chunk.file.ranked.candidate
                copies = kept.setdefault(chunk.key, {})
                copies.setdefault((candidate.snapshot_id, candidate.path), chunk)
    first_copies = _by_score(next(iter(copies.values())) for copies in kept.values())
    return [chunk for first in first_copies for chunk in kept[first.key].values()]


def _of_best_texts(files: Iterable[ScoredFile], most: int) -> Iterator[ScoredFile]:
    """The files of the best texts, at most ``most`` texts; best first."""
    texts: set[int] = set()
    for file in sorted(files, key=lambda file: -round(file.similarity, 4)):
        blob_id = file.ranked.candidate.blob_id
        if blob_id in texts or len(texts) < most:
            texts.add(blob_id)
            yield file


def _by_score(chunks: Iterable[ChosenChunk]) -> list[ChosenChunk]:
    return sorted(chunks, key=lambda chunk: -chunk.score)


async def chunk_hits(
    tx: Transaction,
    files: Sequence[ScoredFile],
    count: int,
    context_lines: int,
    *,
    explain: bool,
) -> list[Hit]:
    """The best chunks of some files as hits, at most ``count``. Ends the transaction."""
    chosen = choose(files, count)
    keys = {chunk.key for chunk in chosen}
    for file in {chunk.key[0]: chunk.file for chunk in chosen}.values():
        keys.update(further.key for further in further_chunks(file))
    with step("texts"):
        texts = await load_texts(tx, keys, with_definitions=False)
    with step("hits"):
        return make_hits(chosen, texts, context_lines=context_lines, explain=explain)


def make_hits(
    chosen: Iterable[ChosenChunk],
    texts: Mapping[int, StoredText],
    *,
    context_lines: int,
    explain: bool,
) -> list[Hit]:
    """The chosen chunks as hits, in their order.

    Files with the same text become one hit, and no chunk is listed twice.
    """
    copies = {key: list(same) for key, same in groupby(chosen, key=lambda chunk: chunk.key)}
    listed = set(copies)
    hits = []
    for first, *further_copies in copies.values():
        text = texts[first.key[0]]
        more = [chunk for chunk in further_chunks(first.file) if chunk.key not in listed]
        listed.update(chunk.key for chunk in more)
        chunk = text.chunks[first.ordinal]
        hits.append(
            hit_at(
                chunk,
                [first.file, *(copy.file for copy in further_copies)],
                text.lines,
                context_lines,
                score=first.score,
                more=[_line_range(further, text) for further in more],
                explain=explain,
            )
        )
    return hits


def further_chunks(file: ScoredFile) -> list[ChosenChunk]:
    """The chunks of a file that are listed with its hit, without the best chunk."""
    return good_chunks(file, _LISTED_SHARE)[1 : 1 + _MAX_LISTED]


def _line_range(chunk: ChosenChunk, text: StoredText) -> LineRange:
    lines = text.chunks[chunk.ordinal]
    return LineRange(lines.start_line, lines.end_line, lines.symbol, chunk.score)


def hit_at(
    chunk: Chunk,
    files: Sequence[ScoredFile],
    lines: Sequence[str],
    context_lines: int,
    *,
    score: float,
    more: Iterable[LineRange],
    explain: bool,
) -> Hit:
    """Some lines of a file as a hit; ``files`` are this one and others with the same text."""
    file, *copies = files
    candidate = file.ranked.candidate
    first, last = chunk.start_line - 1, chunk.end_line
    content = "".join(lines[first:last])
    return Hit(
        chunk_id=chunk_id_of(content),
        repository_id=file.repository_id,
        file_path=candidate.path,
        language=candidate.language,
        file_kind=candidate.kind.value,
        content=content,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        symbol=chunk.symbol,
        kind=chunk.kind,
        similarity_score=score,
        context_before="".join(lines[max(first - context_lines, 0) : first]),
        context_after="".join(lines[last : last + context_lines]),
        more_in_file=tuple(more),
        also_at=tuple(
            Location(c.repository_id, c.ranked.candidate.path, first + 1, last, c.view)
            for c in copies
        ),
        signals=file.ranked.weighted() if explain else {},
        exact_lines=tuple(
            line for line in file.exact_lines if chunk.start_line <= line <= chunk.end_line
        ),
        view=file.view,
    )


def chunk_id_of(content: str) -> UUID:
    """A chunk's id: the same as long as its text is."""
    return uuid5(_CHUNKS, content)
