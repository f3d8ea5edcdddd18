"""Where is the exact text of a question? From the texts on this machine, if they are there.

Else only the candidates of the search are read from the database: a search does not wait until all
texts are copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.search.changes import Touched
from codebase_mcp.search.exact import ordered
from codebase_mcp.search.literal import ExactMatches, ExactText
from codebase_mcp.search.ranking import SearchContext
from codebase_mcp.search.text_image import load_bytes
from codebase_mcp.search.text_pattern import Span, TextMatcher, TextQuery

if TYPE_CHECKING:
    from codebase_mcp.app.exact import ExactSearch

_SQL = load_queries("codebase_mcp.search", "exact.sql")

# A search waits this long for a scan; then its candidates alone are looked at.
_MOST_S = 0.5

# Beside the candidates this many texts are ranked; of each this many lines count.
_MORE_TEXTS = 100
_MOST_LINES = 50


async def look_up(
    exact: ExactSearch,
    text: ExactText,
    project: Project,
    context: SearchContext,
    candidates: Collection[int],
    *,
    only_once: bool,
) -> ExactMatches:
    """The lines with the exact text of a question; the candidates' and some more are ranked.

    Unless the search is the ``only_once``, missing texts are copied for the next.
    """
    from codebase_mcp.app.text_scan import TextQuestion  # noqa: PLC0415 - seldom needed

    tx, scope, touched = context.tx, context.source.scope, context.touched
    pattern, is_regex = text.pattern
    question = TextQuestion(TextQuery(pattern, is_regex), scope.filters)
    scan = await exact.scan_index(tx, project, scope.snapshots, question, touched, within_s=_MOST_S)
    if scan is None:
        if not only_once:
            exact.copy_texts(project, scope.snapshots)
        matcher, texts = TextMatcher.compile(question.query), await load_bytes(tx, candidates)
        matching = ((text_id, _numbers(t, matcher.spans(t))) for text_id, t in texts.items())
        lines = {text_id: numbers for text_id, numbers in matching if numbers}
        return ExactMatches(text, await _by_chunk(tx, lines, touched))
    numbers: dict[int, list[int]] = {}
    more = _MORE_TEXTS
    files = ordered(scan.matches)
    for matches in files:
        text_id, snapshot_id = matches.file.text_id, matches.file.snapshot.id
        if text_id is None or text_id in numbers:
            continue
        more -= text_id not in candidates
        if text_id in candidates or more >= 0:
            numbers[text_id] = _numbers(scan.texts[snapshot_id].text(text_id), matches.spans)
    return ExactMatches(
        text,
        await _by_chunk(tx, numbers, touched),
        line_count=sum(matches.count for matches in files),
        file_count=len(files),
    )


def _numbers(text: bytes, spans: Iterable[Span]) -> list[int]:
    """The numbers of the lines at which some matches begin."""
    numbers, number, position = list[int](), 1, 0
    for first, _ in islice(spans, _MOST_LINES):
        number += text.count(b"\n", position, first)
        position = first
        numbers.append(number)
    return numbers


async def _by_chunk(
    tx: Transaction, lines: Mapping[int, Collection[int]], touched: Touched | None
) -> dict[int, dict[int, list[int]]]:
    """The lines by text and chunk; of a change only those in chunks that it touched."""
    pairs = [(text_id, line) for text_id, numbers in lines.items() for line in numbers]
    chunks: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    if pairs:
        rows = await tx.fetch_all(
            _SQL["chunks_with"],
            texts=array_literal(text_id for text_id, _ in pairs),
            lines=array_literal(line for _, line in pairs),
        )
        for text_id, ordinal, line in rows:
            if touched is None or (text_id, ordinal) in touched.chunks:
                chunks[text_id][ordinal].append(line)
    return {text_id: dict(by_ordinal) for text_id, by_ordinal in chunks.items()}
