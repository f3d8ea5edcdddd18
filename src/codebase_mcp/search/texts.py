"""Which lines of the ranked files are shown? Loads their texts, and makes hits of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.definitions import (
    Enclosing,
    ReadText,
    Weights,
    make_definition_hits,
    strongest_chunks,
)
from codebase_mcp.search.hits import (
    ChosenChunk,
    Hit,
    ScoredFile,
    StoredChunk,
    StoredText,
    choose,
    first_lines,
    further_chunks,
    make_hits,
)
from codebase_mcp.search.lists import chunk_parameters
from codebase_mcp.telemetry.stopwatch import step

_SQL = load_queries("codebase_mcp.search", "search.sql")


async def chunk_hits(
    tx: Transaction,
    files: Sequence[ScoredFile],
    count: int,
    context_lines: int,
    *,
    explain: bool,
) -> list[Hit]:
    """The best chunks of some files as hits, at most ``count``."""
    chosen = choose(files, count)
    with step("texts"):
        texts = await _texts_of_chunks(tx, chosen, context_lines)
    with step("hits"):
        return make_hits(chosen, texts, context_lines=context_lines, explain=explain)


async def definition_hits(
    tx: Transaction,
    copies: Sequence[Sequence[ScoredFile]],
    weights: Weights,
    context_lines: int,
    *,
    explain: bool,
) -> list[Hit]:
    """The best definition of each text as a hit; ``copies`` are the files with the same text."""
    with step("texts"):
        texts = await _texts_of_files(tx, [files[0] for files in copies])
    with step("hits"):
        return make_definition_hits(
            copies, texts, weights, context_lines=context_lines, explain=explain
        )


async def _texts_of_files(tx: Transaction, files: Sequence[ScoredFile]) -> dict[int, ReadText]:
    """The texts of some files, with the strongest chunks of each and the definitions there."""
    keys = [(f.ranked.candidate.blob_id, n) for f in files for n in strongest_chunks(f)]
    if not keys:
        return {}
    parameters = chunk_parameters(keys)
    blobs = array_literal({blob_id for blob_id, _ in keys})
    chunks, definitions, texts = await tx.fetch_last(
        [
            (_SQL["chunks"], parameters),
            (_SQL["enclosing"], parameters),
            (_SQL["texts"], {"blobs": blobs}),
        ]
    )
    chunks_of = _chunks_by_text(chunks)
    defined: dict[int, list[Enclosing]] = defaultdict(list)
    for blob_id, *definition in definitions:
        defined[blob_id].append(Enclosing(*definition))
    return {
        blob_id: ReadText(split_lines(text), chunks_of[blob_id], tuple(defined[blob_id]))
        for blob_id, text in texts
    }


async def _texts_of_chunks(
    tx: Transaction, chosen: Sequence[ChosenChunk], context_lines: int
) -> dict[int, StoredText]:
    """The texts of some chunks, with these and further good chunks of their files.

    A text is cut after the last line that may be shown.
    """
    keys = {chunk.key for chunk in chosen}
    for file in {chunk.key[0]: chunk.file for chunk in chosen}.values():
        keys.update(further.key for further in further_chunks(file))
    if not keys:
        return {}
    parameters = chunk_parameters(keys)
    blobs = array_literal({blob_id for blob_id, _ in keys})
    chunks, texts = await tx.fetch_last(
        [(_SQL["chunks"], parameters), (_SQL["texts"], {"blobs": blobs})]
    )
    by_blob = _chunks_by_text(chunks)
    loaded = {}
    for blob_id, text in texts:
        shown = by_blob[blob_id]
        last = max(chunk.end_line for chunk in shown.values())
        loaded[blob_id] = StoredText(first_lines(text, last + context_lines), shown)
    return loaded


def _chunks_by_text(rows: Iterable[Row]) -> dict[int, dict[int, StoredChunk]]:
    """The rows of the statement ``chunks``, by text and ordinal."""
    by_text: dict[int, dict[int, StoredChunk]] = defaultdict(dict)
    for blob_id, ordinal, *chunk in rows:
        by_text[blob_id][ordinal] = StoredChunk(*chunk)
    return by_text
