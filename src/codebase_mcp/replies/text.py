"""What does a reader get from a search? A text that spends its characters where the answer is.

The best place comes with its lines, others with fewer or none: how many follows from how sure the
answer is. The form is the contract's, "Replies for models and replies for programs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.printable import printable
from codebase_mcp.replies.excerpt import MAX_LINE_CHARS, excerpt

if TYPE_CHECKING:
    from codebase_mcp.app import SearchReport
    from codebase_mcp.records.notes import Note
    from codebase_mcp.search.hits import Hit

DEFAULT_CHARS = 2_000
MOST_CHARS = 4_000

# A reply asks for so many files: what comes after them is named by their number alone.
FILES_ASKED = 10

# What scores less is no place to read: readers found such code of no use.
POOR = 0.25
# Below this share of the first one's score there is a cliff: what follows gets a line each.
CLIFF = 0.6
# An answer that is that sure, with a cliff behind it, is shown as far as it goes.
SURE = 0.7

# How many results come with code where several are about as good, and how many without.
MOST_WITH_CODE = 4
MOST_NAMED = 5

# A definition of so many lines is shown whole where it is the one that was meant.
WHOLE_LINES = 30

_NOTES = {
    "indexing": "Index: a run is going on, {} not searchable yet.",
    "incomplete": "Index: the last run broke off, {} missing.",
    "stale": "Index: {} changed since.",
    "outdated": "Index: made by an earlier version; words and names answer until it is made anew.",
    "absent": "No repository here has that repository_id.",
}


@dataclass(frozen=True, slots=True)
class _Share:
    """How much of the reply a result gets: lines and characters of code, further places."""

    lines: int
    chars: int
    places: int


def search_text(report: SearchReport, max_chars: int = DEFAULT_CHARS) -> str:
    """The text of a search by definition, of at most so many characters."""
    hits = report.answer.hits
    head = _head(report)
    if not hits:
        return _cut("\n".join([*head, *_help(report)]) or "Nothing found.", max_chars)
    plan = shares(hits, max_chars)
    blocks = [
        _block(number, hit, share) + _beside(hit, report.notes[number - 1 : number])
        for number, (hit, share) in enumerate(zip(hits, plan, strict=False), 1)
    ]
    tail = [] if report.help is None else [report.help.hint]
    shown = _fitting(head, blocks, tail, max_chars)
    left = report.answer.file_count - shown
    if left > 0:
        tail.append(f"[{left} more files: limit, max_chars, directory]")
    lines = [*head, *(line for block in blocks[:shown] for line in block), *tail]
    return _cut("\n".join(lines), max_chars)


def shares(hits: Sequence[Hit], max_chars: int) -> list[_Share]:
    """How much of the reply each result gets; what comes after those gets nothing."""
    scores = [hit.similarity_score for hit in hits]
    alike = sum(1 for _ in takewhile(lambda score: score >= CLIFF * scores[0], scores))
    with_code = min(alike, MOST_WITH_CODE)
    scale = max_chars / DEFAULT_CHARS
    plan = []
    for place, score in enumerate(scores[: with_code + MOST_NAMED]):
        if place >= with_code or (score < POOR and place):
            plan.append(_Share(0, 0, 2 if place <= with_code + 1 else 0))
        elif place:
            plan.append(_Share(round(6 * scale), round(240 * scale), 3))
        elif with_code == 1 and score >= SURE:
            plan.append(_Share(round(WHOLE_LINES * scale), round(760 * scale), 4))
        else:
            plan.append(_Share(round(14 * scale), round(520 * scale), 4))
    return plan


def _block(number: int, hit: Hit, share: _Share) -> list[str]:
    """A result: its heading, its lines, its further places."""
    symbol = f"  {printable(hit.symbol)}" if hit.symbol else ""
    path = printable(hit.file_path)
    heading = (
        f"{number}. {path}:{hit.start_line}-{hit.end_line}  {hit.similarity_score:.2f}{symbol}"
    )
    block = [heading]
    if share.lines:
        block += _code(hit, share)
    places = [
        f"{place.start_line}-{place.end_line}{_last_name(place.symbol)} {place.score:.2f}"
        for place in hit.more_in_file[: share.places]
    ]
    if places:
        block.append(f"   also {', '.join(places)}")
    if hit.also_at:
        copies = ", ".join(printable(place.file_path) for place in hit.also_at[:3])
        block.append(f"   same text: {copies}")
    return block


def _beside(hit: Hit, notes: Sequence[Sequence[Note]]) -> list[str]:
    """What was asked for beside the place: what made its rank, what records say of it."""
    lines = []
    if hit.signals:
        signals = sorted(hit.signals.items(), key=lambda signal: -abs(signal[1]))
        lines.append(f"   rank: {', '.join(f'{name} {value:+.1f}' for name, value in signals)}")
    for note in (note for of_hit in notes for note in of_hit):
        state = f" ({note.state})" if note.state != "current" else ""
        lines.append(f"   {note.record_kind} {note.id}: {printable(note.title)}{state}")
    return lines


def _last_name(symbol: str | None) -> str:
    return f" {printable(symbol)}" if symbol else ""


def _code(hit: Hit, share: _Share) -> list[str]:
    lines = split_lines(hit.content)
    matching = [line - hit.start_line for line in hit.matching_lines]
    shown = excerpt(lines, matching, most_lines=share.lines, most_chars=share.chars)
    width = len(str(hit.end_line))
    out: list[str] = []
    before = -1
    for place in [*shown, len(lines)]:
        gap = place - before - 1
        if gap and any(line.strip() for line in lines[before + 1 : place]):
            out.append(f"{' ' * (width - 1)}…   [{gap} {'line' if gap == 1 else 'lines'}]")
        if place < len(lines):
            text = printable(lines[place].rstrip())
            text = text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"
            out.append(f"{hit.start_line + place:>{width}}  {text}".rstrip())
        before = place
    return out


def _fitting(
    head: Sequence[str], blocks: Sequence[Sequence[str]], tail: Sequence[str], max_chars: int
) -> int:
    """How many blocks fit; one at least."""
    room = max_chars - sum(len(line) + 1 for line in (*head, *tail)) - 50
    count = 0
    for block in blocks:
        room -= sum(len(line) + 1 for line in block)
        if room < 0 and count:
            break
        count += 1
    return count


def _head(report: SearchReport) -> list[str]:
    """What limits the answer, if anything does."""
    truth = report.index
    head = [f'Read "{word}" as "{meant}".' for word, meant in report.answer.respelt.items()]
    if note := _NOTES.get(truth.state):
        pending = truth.files_pending
        head.append(note.format("1 file" if pending == 1 else f"{pending} files"))
    return head


def _help(report: SearchReport) -> list[str]:
    """Why nothing was found, and what to ask instead."""
    told = report.help
    if told is None:
        return ["Nothing in the code has to do with this."]
    return [f"Nothing found. {told.hint}", *told.reasons]


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
