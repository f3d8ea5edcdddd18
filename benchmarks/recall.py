"""Does a search find what comparing everything finds?

Two comparisons with a search that may use no vector index: of the ten nearest chunks in meaning
that it works with, and of the first ten files of the whole search.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import mean

from codebase_mcp import App
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from questions import Question

NEAREST = 10
LIMIT = 10

# So much nearer is no nearer: both sides count with four decimals.
_SAME_COSINE = 2e-4

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

    ``filled`` is the share of the questions that got the full limit, of those ``full`` ones for
    which an exact search gets it.
    """

    nearest: float
    files: float
    filled: float | None
    full: int


@asynccontextmanager
async def exactly(app: App) -> AsyncIterator[App]:
    """The same index, searched without its vector index."""
    async with app.enter() as here:
        await here.tx.become_owner()
        await here.tx.run_script(_NO_INDEX_SCANS)
    try:
        async with await App.open(app.settings) as exact:
            yield exact
    finally:
        async with app.enter() as here:
            await here.tx.become_owner()
            await here.tx.run_script(_INDEX_SCANS)


async def recall(
    app: App, exact: App, questions: Sequence[Question], filters: FileFilters
) -> Recall:
    """Ask all questions both ways."""
    nearest, files, filled = [], [], []
    for question in questions:
        share = await nearest_share(app, exact, question.text, filters)
        if share is not None:
            nearest.append(share)
        found, wanted = [await _files(one, question.text, filters) for one in (app, exact)]
        if wanted:
            files.append(len(found & wanted) / len(wanted))
        if len(wanted) == LIMIT:
            filled.append(len(found) == LIMIT)
    return Recall(mean(nearest), mean(files), mean(filled) if filled else None, len(filled))


async def nearest_share(app: App, exact: App, text: str, filters: FileFilters) -> float | None:
    """The share of the nearest chunks that a search works with; None where there are none."""
    found, wanted = [await _nearest(one, text, filters) for one in (app, exact)]
    if not wanted:
        return None
    enough = wanted[-1] - _SAME_COSINE
    return sum(cosine >= enough for cosine in found) / len(wanted)


async def _nearest(app: App, text: str, filters: FileFilters) -> list[float]:
    """The cosines of the chunks nearest in meaning, the nearest first."""
    files = (await app.rank(text, None, filters)).files
    cosines = (c for file in files for c in file.candidate.evidence.meaning.values())
    return sorted(cosines, reverse=True)[:NEAREST]


async def _files(app: App, text: str, filters: FileFilters) -> set[tuple[object, str]]:
    """The files of the first hits."""
    report = await app.search(text, request=Request(filters, limit=LIMIT, context_lines=0))
    return {(hit.repository_id, hit.file_path) for hit in report.answer.hits}
