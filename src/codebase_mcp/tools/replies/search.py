"""The text of a search, which spends its characters where the answer is.

The best result comes with its lines of code, the next results with fewer or none, depending on how
sure the answer is. The form is the contract's, "Replies for models and replies for programs".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable_line
from codebase_mcp.search.help import NO_HINT, exact_note, is_elsewhere, secondary_note, state_note
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS
from codebase_mcp.tools.replies.excerpts import Around, ShownLine, numbered, shown_lines
from codebase_mcp.tools.text import scope_note, shown_path, size_of

if TYPE_CHECKING:
    from uuid import UUID

    from codebase_mcp.app.app import SearchReport
    from codebase_mcp.records.anchors import Note
    from codebase_mcp.search.history import LastChange
    from codebase_mcp.search.hits import Hit
    from codebase_mcp.symbols.references import Usage

# Below this share of the first result's score, a result gets a line without code.
SIMILAR_SHARE = 0.5
# A first result with this score, and a sharp drop after it, is shown in full.
CONFIDENT = 0.85

# The most results of similar scores that are shown with code, and the most without code.
MAX_WITH_CODE = 2
MAX_NAMED = 5

# Results after these are named together in a line; at most this number of results in all.
MAX_RESULTS = 10
_NAMED_LEAD = "also: "

# Kept free for how many files are left out.
_LEFT_CHARS = 50

# A further range of a file that scores less, or has no name, is left out.
MIN_RANGE_SCORE = 0.05

# The line on where a result is used has about this number of characters.
_MAX_USAGE_CHARS = 120

# The most characters of a commit's author and subject.
_MAX_CHANGE_CHARS = 90

# The most lines of a definition that is shown in full.
MAX_DEFINITION_LINES = 30


@dataclass(frozen=True, slots=True)
class _Share:
    """How much of the reply a result gets: lines and characters of code, further ranges."""

    lines: int
    chars: int
    ranges: int


@dataclass(frozen=True, slots=True)
class _Block:
    """A result as it is shown: its heading, lines of code, details."""

    heading: str
    code: tuple[ShownLine, ...]
    details: tuple[str, ...]
    last_line: int

    def lines(self) -> list[str]:
        return [self.heading, *numbered(self.code, self.last_line), *self.details]


def search_text(
    report: SearchReport, max_chars: int = DEFAULT_REPLY_CHARS, context_lines: int = 0
) -> str:
    """The text of a search by definition, of at most ``max_chars`` characters.

    ``context_lines`` are shown around each line of code, as far as there is room.
    """
    text = "\n".join(dict.fromkeys(_without_hits(report)) if not report.answer.hits
                     else _with_hits(report, max_chars, context_lines))  # fmt: skip
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _without_hits(report: SearchReport) -> list[str]:
    head, scope, advice = _head(report), scope_note(report.scope), report.help
    if report.index.state == "indexing":
        return [*head, "No file that is indexed so far answers: ask again.", *scope]
    if advice is None:
        return [*head, "No code matches this query.", *scope]
    return [*head, f"Nothing found. {advice.hint}", *advice.reasons, *scope]


def _with_hits(report: SearchReport, max_chars: int, context_lines: int) -> list[str]:
    hits, head, scope = report.answer.hits, _head(report), scope_note(report.scope)
    if report.help is not None and report.help.doubt:
        head += filter(None, [report.help.doubt, report.help.absent])
    hint = [] if report.help is None or report.help.hint == NO_HINT else [report.help.hint]
    plan = _shares(hits, max_chars)
    blocks = [_block(report, rank, share) for rank, share in enumerate(plan)]
    room = max_chars - size_of([*head, *hint, *scope]) - _LEFT_CHARS
    del blocks[_fitting(blocks, room) :]
    room -= sum(size_of(block.lines()) for block in blocks)
    named = _named(report, len(blocks), room)
    tail = [_NAMED_LEAD + ", ".join(named)] if named else []
    room -= size_of(tail)
    for rank, block in enumerate(blocks):  # the best result gets its context lines first
        blocks[rank] = _with_context(block, hits[rank], plan[rank], context_lines, room)
        room -= size_of(blocks[rank].lines()) - size_of(block.lines())
    return [*head, *(line for block in blocks for line in block.lines()), *tail, *hint, *scope]


def _block(report: SearchReport, rank: int, share: _Share) -> _Block:
    """The result at a rank (from 0), without further lines around it."""
    hit = report.answer.hits[rank]
    details = _details(report, hit, share, report.notes[rank] if report.notes else ())
    if rank == 0 and report.usage is not None and not is_elsewhere(report.answer.hits):
        details.insert(0, _usage(report, report.usage, _roots(report)[hit.repository_id]))
    if report.last_changes and (change := report.last_changes[rank]):
        details.append(_last_change(change))
    about = _name(hit.symbol, "  ") + (f"  {hit.change}" if hit.change else "")
    lines = f"{hit.start_line}-{hit.end_line}"
    heading = f"{rank + 1}. {_path(report, hit)}:{lines}  {hit.similarity_score:.2f}{about}"
    return _Block(heading, _code(hit, share), tuple(details), hit.end_line)


def _named(report: SearchReport, first: int, room: int) -> list[str]:
    """The lines and names of the results from ``first`` on, as many as fit."""
    room -= len(_NAMED_LEAD)
    named = []
    for hit in report.answer.hits[first:MAX_RESULTS]:
        text = f"{_path(report, hit)}:{hit.start_line}-{hit.end_line}"
        text += _name(_last_part(hit.symbol)) + (f" {hit.change}" if hit.change else "")
        room -= len(text) + 2
        if room < 0:
            break
        named.append(text)
    return named


def _with_context(block: _Block, hit: Hit, share: _Share, context_lines: int, room: int) -> _Block:
    """The block with as many of the context lines as there is room for."""
    size = size_of(block.lines())
    for around in range(context_lines if block.code else 0, 0, -1):
        wider = replace(block, code=_code(hit, share, around))
        if size_of(wider.lines()) - size <= room:
            return wider
    return block


def _roots(report: SearchReport) -> dict[UUID, str]:
    return {snapshot.repository_id: snapshot.root for snapshot in report.answer.snapshots}


def _path(report: SearchReport, hit: Hit) -> str:
    """The path of a hit, with ``@REF`` where several states of the code were searched.

    Files on disk, and new files in a search within changes, have no ref.
    """
    path = shown_path(report.scope, _roots(report)[hit.repository_id], hit.file_path)
    is_only = len({snapshot.view for snapshot in report.answer.snapshots}) == 1
    if is_only or hit.view == WORKTREE or hit.change in {"added", "changed"}:
        return path
    return path + printable_line(f"@{report.refs.get(hit.view, hit.view[:12])}")


def _shares(hits: Sequence[Hit], max_chars: int) -> list[_Share]:
    """How much of the reply each of the first results gets.

    Weak results get no lines of code: readers found them of no use.
    """
    if is_elsewhere(hits):
        return [_Share(0, 0, 2)] * min(len(hits), MAX_NAMED)
    scores = [hit.similarity_score for hit in hits]
    alike = sum(
        1 for _ in itertools.takewhile(lambda score: score >= SIMILAR_SHARE * scores[0], scores)
    )
    with_code = min(alike, MAX_WITH_CODE)
    scale = max_chars / DEFAULT_REPLY_CHARS
    plan = []
    for rank, score in enumerate(scores[: with_code + MAX_NAMED]):
        if rank >= with_code:
            plan.append(_Share(0, 0, 2 if rank <= with_code + 1 else 0))
        elif rank:
            lines = 7 if hits[rank].matching_lines else 0
            plan.append(_Share(round(lines * scale), round(200 * scale), 3))
        elif with_code == 1 and score >= CONFIDENT:
            plan.append(_Share(round(MAX_DEFINITION_LINES * scale), round(760 * scale), 4))
        else:
            plan.append(_Share(round(14 * scale), round(520 * scale), 4))
    return plan


def _details(report: SearchReport, hit: Hit, share: _Share, notes: Sequence[Note]) -> list[str]:
    """Further ranges of the file, copies, and what else was requested."""
    lines = []
    ranges = [
        f"{part.start_line}-{part.end_line}{_name(part.symbol)} {part.score:.2f}"
        for part in hit.more_in_file[: share.ranges]
        if part.symbol and part.score >= MIN_RANGE_SCORE
    ]
    if ranges:
        lines.append(f"   also {', '.join(ranges)}")
    if hit.also_at:
        roots = _roots(report)
        copies = ", ".join(
            shown_path(report.scope, roots[copy.repository_id], copy.file_path)
            for copy in hit.also_at[:3]
        )
        lines.append(f"   same text: {copies}")
    if hit.signals:
        signals = sorted(hit.signals.items(), key=lambda signal: -abs(signal[1]))
        lines.append(f"   rank: {', '.join(f'{name} {value:+.1f}' for name, value in signals)}")
    for note in notes:
        state = f" ({note.state})" if note.state != "current" else ""
        lines.append(f"   {note.record_kind} {note.id}: {printable_line(note.title)}{state}")
    return lines


def _usage(report: SearchReport, usage: Usage, root: str) -> str:
    """Where a result is used: ``called from: cart.py:41 checkout, api.py:8 (+3, 2 in tests)``."""
    uses = [
        f"{shown_path(report.scope, root, use.path)}:{use.line}{_name(use.symbol)}"
        for use in usage.places
    ]
    while len(uses) > 1 and len(", ".join(uses)) > _MAX_USAGE_CHARS:
        uses.pop()
    more = usage.more + len(usage.places) - len(uses)
    counts = [f"+{more}"] if more else []
    counts += [f"{usage.in_tests} in tests"] if usage.in_tests else []
    rest = ", ".join(counts)
    if not usage.is_all:
        rest = f"{rest} or more" if rest else "perhaps others"
    rest = f" ({rest})" if rest else ""
    return f"   {'called from' if usage.is_called else 'used in'}: {', '.join(uses)}{rest}"


def _last_change(change: LastChange) -> str:
    """The commit that last changed the lines of a hit."""
    if change.commit is None or change.date is None:
        return "   changed: uncommitted"
    what = printable_line(f"{change.author}: {change.subject}")[:_MAX_CHANGE_CHARS]
    return f"   changed {change.date:%Y-%m-%d} {change.commit[:10]} {what}"


def _last_part(symbol: str | None) -> str | None:
    """``run`` of ``Server.run``; None for a heading of a document, whose place tells as much."""
    part = (symbol or "").rpartition(".")[2]
    return part if part.isidentifier() else None


def _name(symbol: str | None, lead: str = " ") -> str:
    return f"{lead}{printable_line(symbol)}" if symbol else ""


def _code(hit: Hit, share: _Share, around: int = 0) -> tuple[ShownLine, ...]:
    """The lines of a hit that are worth showing, with ``around`` more before and after each."""
    if not share.lines:
        return ()
    before, after = split_lines(hit.context_before), split_lines(hit.context_after)
    return shown_lines(
        split_lines(hit.content),
        hit.start_line,
        hit.matching_lines,
        most_lines=share.lines,
        most_chars=share.chars,
        around=Around(around, before, after),
    )


def _fitting(blocks: Sequence[_Block], room: int) -> int:
    """The number of blocks that fit, 1 or more."""
    count = 0
    for block in blocks:
        room -= size_of(block.lines())
        if room < 0 and count:
            break
        count += 1
    return count


def _head(report: SearchReport) -> list[str]:
    """What limits the answer."""
    index = report.index
    head = [f'Read "{word}" as "{meant}".' for word, meant in report.answer.respelt.items()]
    if report.refs:
        commits = (f"{printable_line(name)} ({of[:7]})" for of, name in report.refs.items())
        is_range = any(hit.change for hit in report.answer.hits)
        head.append(f"{'Changed between' if is_range else 'In'} {', '.join(commits)}.")
    note = state_note(index.state, index.files_pending, index.percent, index.seconds_left)
    # The next search may be able to check the files; that is not worth a line in each reply.
    if note and index.state != "unchecked":
        head.append(note)
    answer = report.answer
    notes = secondary_note(answer.secondary_model), exact_note(answer.exact, answer.hits)
    return [*head, *filter(None, notes)]
