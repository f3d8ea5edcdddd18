"""The texts of what was found, with the chunks and definitions to show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.definitions import Enclosing, ReadText, strongest_chunks
from codebase_mcp.search.hits import (
    ChosenChunk,
    ScoredFile,
    StoredChunk,
    StoredText,
    first_lines,
    other_chunks,
)

_SQL = load_queries("codebase_mcp.search", "search.sql")


async def load_definitions(tx: Transaction, files: Sequence[ScoredFile]) -> dict[int, ReadText]:
    """The texts of some files, with the strongest chunks of each and the definitions there."""
    wanted = [(f.ranked.candidate.blob_id, n) for f in files for n in strongest_chunks(f)]
    if not wanted:
        return {}
    parameters = _chunk_parameters(wanted)
    blobs = array_literal({blob_id for blob_id, _ in wanted})
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


async def load_texts(
    tx: Transaction, chosen: Sequence[ChosenChunk], context_lines: int
) -> dict[int, StoredText]:
    """The texts of some chunks, with these chunks and the other good ones of their files.

    A text is cut after the last line that may be shown.
    """
    wanted = {chunk.key for chunk in chosen}
    for file in {chunk.key[0]: chunk.file for chunk in chosen}.values():
        wanted.update(other.key for other in other_chunks(file))
    if not wanted:
        return {}
    parameters = _chunk_parameters(wanted)
    blobs = array_literal({blob_id for blob_id, _ in wanted})
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


def _chunk_parameters(chunks: Collection[tuple[int, int]]) -> dict[str, str]:
    """Chunks as parameters of the statements."""
    return {
        "blobs": array_literal(blob_id for blob_id, _ in chunks),
        "ordinals": array_literal(ordinal for _, ordinal in chunks),
    }


def _chunks_by_text(rows: Iterable[Row]) -> dict[int, dict[int, StoredChunk]]:
    """The rows of the statement ``chunks``, by text and ordinal."""
    found: dict[int, dict[int, StoredChunk]] = defaultdict(dict)
    for blob_id, ordinal, *chunk in rows:
        found[blob_id][ordinal] = StoredChunk(*chunk)
    return found
