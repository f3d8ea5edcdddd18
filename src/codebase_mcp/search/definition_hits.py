"""How does a ranked file become something to read at once? Pure: rows in, one hit a file out.

A hit is the definition that answers best, whole, with its own lines in the order in which they
match; the file's other good definitions, those around it too, are named inside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codebase_mcp.search.definitions import (
    Enclosing,
    Part,
    Weights,
    matching_lines,
    parts_of,
    score_parts,
)
from codebase_mcp.search.hits import (
    Hit,
    LineRange,
    Location,
    ScoredFile,
    StoredChunk,
    chunk_strengths,
    hit_at,
)

# How many chunks of a file are split into definitions: in 95 % of right files, these include the
# right place.
CHUNKS_READ = 6

_MORE_PLACES = 5

# What holds a method, but tells no more of it than the file does.
_LOOSE = frozenset({"text", "section", "module", "key"})

# Of the first files lines are put in order; of the others a name and a range will do.
FILES_WITH_LINES = 5


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text's lines, their ends kept, with the chunks and definitions that were loaded of it."""

    lines: list[str]
    chunks: Mapping[int, StoredChunk]
    definitions: tuple[Enclosing, ...]


def strongest_chunks(file: ScoredFile) -> list[int]:
    """The chunks of a file that are taken apart, by number, the strongest first."""
    strengths = chunk_strengths(file.ranked)
    return sorted(strengths, key=lambda ordinal: (-strengths[ordinal], ordinal))[:CHUNKS_READ]


def distinct_files(files: Sequence[ScoredFile]) -> list[list[ScoredFile]]:
    """The files that hold the same text together, in the order of their scores."""
    by_text: dict[int, list[ScoredFile]] = {}
    for file in sorted(files, key=lambda one: -one.similarity):
        by_text.setdefault(file.ranked.candidate.blob_id, []).append(file)
    return list(by_text.values())


def make_definition_hits(
    copies: Sequence[Sequence[ScoredFile]],
    texts: Mapping[int, ReadText],
    weights: Weights,
    *,
    context_lines: int,
    explain: bool,
) -> list[Hit]:
    """A hit for each text, which several files may hold."""
    read = [texts[files[0].ranked.candidate.blob_id] for files in copies]
    parts_in = [_parts(files[0], text) for files, text in zip(copies, read, strict=True)]
    every = [part for parts in parts_in for part in parts]
    lines_of = [text.lines for text, parts in zip(read, parts_in, strict=True) for _ in parts]
    scores = iter(score_parts(every, lines_of, weights))
    hits = []
    for place, (files, text, parts) in enumerate(zip(copies, read, parts_in, strict=True)):
        scored = sorted(
            ((next(scores), part) for part in parts),
            key=lambda found: (-found[0], found[1].start_line),
        )
        hit = _hit(files, text, scored, context_lines, explain=explain)
        if place < FILES_WITH_LINES:
            hit = replace(hit, matching_lines=matching_lines(scored[0][1], text.lines, weights))
        hits.append(hit)
    return hits


def _parts(file: ScoredFile, text: ReadText) -> list[Part]:
    strengths = chunk_strengths(file.ranked)
    top = max(strengths.values()) or 1.0
    chunks = [
        (chunk.start_line, chunk.end_line, strengths[ordinal] / top)
        for ordinal, chunk in text.chunks.items()
    ]
    return parts_of(chunks, text.definitions, text.lines)


def _hit(
    files: Sequence[ScoredFile],
    text: ReadText,
    scored: Sequence[tuple[float, Part]],
    context_lines: int,
    *,
    explain: bool,
) -> Hit:
    first = files[0]
    best_score, best = scored[0]
    places: list[LineRange] = []
    beside = [best]
    for score, part in scored[1:]:
        is_around = _is_around(part, best)
        if len(places) < _MORE_PLACES and (is_around or not _overlaps(part, beside)):
            share = math.exp((score - best_score) / 2)
            score_there = round(first.similarity * share, 4)
            places.append(LineRange(part.start_line, part.end_line, part.symbol, score_there))
            beside += [] if is_around else [part]
    whole = StoredChunk(best.start_line, best.end_line, best.symbol, best.kind)
    return replace(
        hit_at(whole, first, text.lines, context_lines, explain=explain),
        more_in_file=tuple(places),
        also_at=tuple(
            Location(
                copy.repository_id,
                copy.ranked.candidate.path,
                best.start_line,
                best.end_line,
                copy.view,
            )
            for copy in files[1:]
        ),
    )


def _is_around(part: Part, best: Part) -> bool:
    """Whether it is a definition that holds the best one, as a class holds its method."""
    holds = part.start_line <= best.start_line and best.end_line <= part.end_line
    return holds and part.kind not in _LOOSE


def _overlaps(part: Part, others: Sequence[Part]) -> bool:
    return any(
        part.start_line <= other.end_line and other.start_line <= part.end_line for other in others
    )
