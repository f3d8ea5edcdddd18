"""Does a search find what comparing everything finds?

Two comparisons. The ten nearest chunks in meaning that a search works with, against a scan of all
vectors. And the first ten files of the whole search, against one that may use no vector index.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import mean
from typing import Any

from codebase_mcp import App
from codebase_mcp.search.candidates import Filters, directory_pattern
from codebase_mcp.search.search import Request
from questions import Question

NEAREST = 10
LIMIT = 10

# Both sides round the question's vector, each in its own way.
_SAME_COSINE = 2e-4

_EXACT = """
SELECT v.blob_id, v.ordinal, v.dense <#> %(vector)s::halfvec AS distance
FROM chunk_vector AS v
WHERE v.blob_id IN (
    SELECT f.blob_id
    FROM file AS f
    JOIN snapshot AS s ON s.id = f.snapshot_id
    WHERE s.active
      AND (%(repository_id)s::uuid IS NULL OR s.repository_id = %(repository_id)s)
      AND (%(extensions)s::text[] IS NULL OR f.extension = ANY(%(extensions)s))
      AND (%(languages)s::text[] IS NULL OR f.language = ANY(%(languages)s))
      AND (%(directory)s::text IS NULL OR f.path ~ %(directory)s)
)
ORDER BY distance
LIMIT 100
"""
# Without plain index scans no nearest-neighbour index is used; word indexes are scanned otherwise.
_NO_INDEX_SCANS = """
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET enable_indexscan = off', current_database());
END $$
"""
_INDEX_SCANS = """
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I RESET enable_indexscan', current_database());
END $$
"""


@dataclass(frozen=True, slots=True)
class Recall:
    """What shares were found; nothing is None where nothing could be compared.

    ``filled`` is the share of the questions that got the full limit, of those for which an exact
    search finds so many; ``full`` how many these are.
    """

    nearest: float
    files: float
    filled: float | None
    full: int


@asynccontextmanager
async def exactly(app: App) -> AsyncIterator[App]:
    """The same index, searched without its vector index."""
    async with app.enter() as here:
        await here.tx.run_script(_NO_INDEX_SCANS)
    try:
        async with await App.open(app.settings) as exact:
            yield exact
    finally:
        async with app.enter() as here:
            await here.tx.run_script(_INDEX_SCANS)


async def recall(app: App, exact: App, questions: Sequence[Question], filters: Filters) -> Recall:
    """Ask all questions both ways."""
    nearest, files, filled = [], [], []
    for question in questions:
        share = await nearest_share(app, question.text, filters)
        if share is not None:
            nearest.append(share)
        found, wanted = [await _files(one, question.text, filters) for one in (app, exact)]
        if wanted:
            files.append(len(found & wanted) / len(wanted))
        if len(wanted) == LIMIT:
            filled.append(len(found) == LIMIT)
    return Recall(mean(nearest), mean(files), mean(filled) if filled else None, len(filled))


async def nearest_share(app: App, text: str, filters: Filters) -> float | None:
    """The share of the nearest chunks that a search works with; None where there are none."""
    wanted = await _nearest(app, text, filters)
    if not wanted:
        return None
    by_distance = sorted(wanted.values())[:NEAREST]
    enough = by_distance[-1] + _SAME_COSINE
    evidence = {
        file.candidate.blob_id: file.candidate.evidence.meaning
        for file in await app.rank(text, None, filters)
    }
    meant = [
        (cosine, (blob_id, ordinal))
        for blob_id, of_text in evidence.items()
        for ordinal, cosine in of_text.items()
    ]
    best = [place for _, place in sorted(meant, reverse=True)[: len(by_distance)]]
    return sum(wanted.get(place, 1.0) <= enough for place in best) / len(by_distance)


async def _nearest(app: App, text: str, filters: Filters) -> dict[tuple[int, int], float]:
    """The distance of the chunks nearest in meaning, by comparing all of them."""
    vector = await app.embedder.embed_query(text)
    parameters: dict[str, Any] = {
        "vector": "[" + ",".join(f"{x:.4f}" for x in vector.tolist()) + "]",
        "repository_id": filters.repository_id,
        "extensions": list(filters.extensions) if filters.extensions else None,
        "languages": list(filters.languages) if filters.languages else None,
        "directory": directory_pattern(filters.directory) if filters.directory else None,
    }
    async with app.enter(readonly=True) as here:
        rows = await here.tx.fetch_all(_EXACT, **parameters)
    return {(blob_id, ordinal): distance for blob_id, ordinal, distance in rows}


async def _files(app: App, text: str, filters: Filters) -> set[tuple[object, str]]:
    """The files of the first hits."""
    report = await app.search(text, request=Request(filters, limit=LIMIT, context_lines=0))
    return {(hit.repository_id, hit.file_path) for hit in report.answer.hits}
