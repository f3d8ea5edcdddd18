"""How does a ranked file become something to read? Pure: rows in, hits out.

Each file is shown once, by its best chunk; its other good places are named inside the hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from uuid import UUID

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.search.ranking import RankedFile

# What makes a chunk the best of its file: the words, as far as the file says what was asked for,
# the meaning, and the definition asked for. Of the right files of everyday questions 42 % are shown
# by a right chunk so, 36 % with a smaller share for meaning.
_WORDS, _MEANING, _DEFINITION = 1.0, 3.0, 1.0

# Other places of a file are named when they are at least this good beside its best.
_ALSO_GOOD = 0.75
_MORE_PLACES = 5

# What counts as a match is more than what is worth naming.
_COUNTED = 0.5


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """The lines of a chunk of one text."""

    ordinal: int
    start_line: int
    end_line: int
    symbol: str | None
    kind: str


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text's first lines, their ends kept, and its chunks that may be shown, in order."""

    lines: list[str]
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A range of lines worth reading."""

    start_line: int
    end_line: int
    symbol: str | None
    score: float


@dataclass(frozen=True, slots=True)
class Location:
    """Where else the very same text stands."""

    repository_id: UUID
    file_path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: a chunk of a file, with its surroundings."""

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
    more_in_file: tuple[Place, ...] = ()
    also_at: tuple[Location, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """A ranked file with its calibrated score and the repository that it belongs to."""

    ranked: RankedFile
    similarity: float
    repository_id: UUID


def first_lines(text: str, count: int) -> list[str]:
    """So many lines of a text, their ends kept; of a long one splitting all would take longer."""
    if "\r" in text:
        return split_lines(text)[:count]
    lines = text.split("\n", count)
    rest = lines.pop()
    whole = [line + "\n" for line in lines]
    return [*whole, rest] if rest and len(whole) < count else whole


def chunk_strengths(file: RankedFile) -> dict[int, float]:
    """How strongly each chunk that was found speaks for its file."""
    evidence = file.candidate.evidence
    top = evidence.best_words or 1.0
    words = _WORDS * min(file.coverage, 1.0) / top
    strengths = {ordinal: words * score for ordinal, score in evidence.words.items()}
    for ordinal, cosine in evidence.meaning.items():
        strengths[ordinal] = strengths.get(ordinal, 0.0) + _MEANING * max(cosine, 0.0)
    return strengths


def best_chunks(file: RankedFile) -> list[int]:
    """As many chunks, the strongest first, as one file may be shown by."""
    strengths = chunk_strengths(file)
    return sorted(strengths, key=lambda ordinal: -strengths[ordinal])[: 1 + _MORE_PLACES]


def good_chunks(file: RankedFile) -> list[int]:
    """The chunks that are above the floor, given that their file is: not far below its best."""
    strengths = chunk_strengths(file)
    best = max(strengths.values(), default=0.0)
    return [ordinal for ordinal, strength in strengths.items() if strength >= _COUNTED * best]


def make_hits(
    files: Sequence[ScoredFile],
    texts: Mapping[int, StoredText],
    *,
    limit: int,
    context_lines: int,
    explain: bool,
) -> list[Hit]:
    """The best ``limit`` hits: one a file, then further chunks where files are too few."""
    shown: list[_Shown] = []
    for file in files:
        text = texts.get(file.ranked.candidate.blob_id)
        if text is not None and text.chunks:
            shown.append(_Shown(file, text, _scored(file, text)))
    hits: dict[UUID, Hit] = {}
    for one in shown:
        hit = _hit(one, one.scored[0], context_lines, explain=explain)
        known = hits.get(hit.chunk_id)
        if known is not None:
            hits[hit.chunk_id] = replace(known, also_at=(*known.also_at, _location(hit)))
        elif len(hits) < limit:
            hits[hit.chunk_id] = replace(hit, more_in_file=_places(one))
    further = sorted(
        ((place, one) for one in shown for place in one.scored[1:]), key=lambda item: -item[0][0]
    )
    for place, one in further:
        if len(hits) >= limit:
            break
        hit = _hit(one, place, context_lines, explain=explain)
        hits.setdefault(hit.chunk_id, hit)
    return _never_rising(list(hits.values()))


def fit(hits: Sequence[Hit], max_chars: int) -> tuple[list[Hit], bool]:
    """The hits cut to a budget of characters, and whether anything was cut.

    Context goes first, from the last hit upwards; then whole hits from the end; of a first hit
    that alone is too long, lines at its end.
    """
    kept = list(hits)
    total = sum(chars_of(hit) for hit in kept)
    cut = total > max_chars
    for position in range(len(kept) - 1, -1, -1):
        if total <= max_chars:
            break
        bare = replace(kept[position], context_before="", context_after="")
        total -= chars_of(kept[position]) - chars_of(bare)
        kept[position] = bare
    while len(kept) > 1 and total > max_chars:
        total -= chars_of(kept.pop())
    if kept and total > max_chars:
        kept[0] = _shortened(kept[0], max_chars)
    return kept, cut


# What a hit costs beside its text: names, numbers and punctuation of its JSON.
_OVERHEAD_CHARS = 350


def chars_of(hit: Hit) -> int:
    """About how many characters a hit takes in a reply."""
    texts = (hit.content, hit.context_before, hit.context_after, hit.file_path)
    return _OVERHEAD_CHARS + sum(map(len, texts))


def _shortened(hit: Hit, max_chars: int) -> Hit:
    room = max(max_chars - _OVERHEAD_CHARS - len(hit.file_path), 0)
    lines: list[str] = []
    for line in split_lines(hit.content):
        if lines and room < len(line):
            break
        lines.append(line[: max(room, 0)] if not lines else line)
        room -= len(line)
    end = hit.start_line + max(len(lines), 1) - 1
    return replace(hit, content="".join(lines), end_line=end)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A file with its text, and its chunks worth showing with their scores, the best first."""

    file: ScoredFile
    text: StoredText
    scored: list[tuple[float, StoredChunk]]


def _scored(file: ScoredFile, text: StoredText) -> list[tuple[float, StoredChunk]]:
    """The best chunk of a file, at the file's own score, and those not far below it."""
    evidence = file.ranked.candidate.evidence
    strengths = chunk_strengths(file.ranked)
    for definition in evidence.definitions:
        for chunk in text.chunks:
            if chunk.start_line <= definition.start_line <= chunk.end_line:
                strengths[chunk.ordinal] = strengths.get(chunk.ordinal, 0.0) + _DEFINITION
    order = sorted(
        ((strengths[c.ordinal], c) for c in text.chunks if c.ordinal in strengths),
        key=lambda item: (-item[0], item[1].ordinal),
    )
    if not order:
        return [(file.similarity, text.chunks[0])]
    best = order[0][0] or 1.0
    return [
        (file.similarity * strength / best, chunk)
        for place, (strength, chunk) in enumerate(order)
        if place == 0 or strength >= _ALSO_GOOD * best
    ]


def _places(shown: _Shown) -> tuple[Place, ...]:
    return tuple(
        Place(chunk.start_line, chunk.end_line, chunk.symbol, round(score, 4))
        for score, chunk in shown.scored[1 : 1 + _MORE_PLACES]
    )


def _hit(
    shown: _Shown, scored: tuple[float, StoredChunk], context_lines: int, *, explain: bool
) -> Hit:
    score, chunk = scored
    candidate = shown.file.ranked.candidate
    first, last = chunk.start_line - 1, chunk.end_line
    lines = shown.text.lines
    content = "".join(lines[first:last])
    return Hit(
        chunk_id=chunk_id_of(content),
        repository_id=shown.file.repository_id,
        file_path=candidate.path,
        language=candidate.language,
        file_kind=candidate.kind.value,
        content=content,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        symbol=chunk.symbol,
        kind=chunk.kind,
        similarity_score=round(score, 4),
        context_before="".join(lines[max(first - context_lines, 0) : first]),
        context_after="".join(lines[last : last + context_lines]),
        signals=shown.file.ranked.weighted() if explain else {},
    )


def chunk_id_of(content: str) -> UUID:
    """A chunk's id: the same as long as its text is. A custom UUID (version 8, RFC 9562)."""
    digest = bytearray(sha256(content.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def _location(hit: Hit) -> Location:
    return Location(hit.repository_id, hit.file_path, hit.start_line, hit.end_line)


def _never_rising(hits: Sequence[Hit]) -> list[Hit]:
    """Scores that never rise down the list: the order is the ranking's, the score another view."""
    lowest = 1.0
    out = []
    for hit in hits:
        lowest = min(lowest, hit.similarity_score)
        out.append(replace(hit, similarity_score=lowest))
    return out
