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
from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable, printable_line
from codebase_mcp.replies.excerpt import MAX_LINE_CHARS, excerpt
from codebase_mcp.replies.paths import shown_path
from codebase_mcp.search.help import NO_HINT, is_elsewhere, secondary_note, state_note
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS

if TYPE_CHECKING:
    from codebase_mcp.app.app import SearchReport
    from codebase_mcp.records.notes import Note
    from codebase_mcp.search.history import LastChange
    from codebase_mcp.search.hits import Hit

# Below this share of the first one's score, results get one line each.
SIMILAR_SHARE = 0.5
# A first result with this score, and a sharp drop after it, is shown in full.
CONFIDENT = 0.85

# How many results of similar scores are shown with code, and how many without.
MAX_WITH_CODE = 2
MAX_NAMED = 5

# A further place that scores less is left out, as is one without a name.
MIN_PLACE_SCORE = 0.05

# Where a result is used is told in about this many characters: by two places, or by one.
_MAX_USAGE_CHARS = 120

# How much is shown of the author and the subject of a commit.
_MAX_CHANGE_CHARS = 90

# The most lines of a definition that is shown in full.
MAX_DEFINITION_LINES = 30


@dataclass(frozen=True, slots=True)
class _Share:
    """How much of the reply a result gets: lines and characters of code, further places."""

    lines: int
    chars: int
    places: int


@dataclass(frozen=True, slots=True)
class Block:
    """One result as it is shown: its heading, lines of code with their numbers, details.

    Of the code, lines that are left out stand as one without a number.
    """

    number: int
    hit: Hit
    path: str
    code: tuple[tuple[int | None, str], ...]
    details: tuple[str, ...]

    @property
    def heading(self) -> str:
        """``N. PATH:FIRST-LAST  SCORE  SYMBOL``."""
        hit = self.hit
        symbol = f"  {printable_line(hit.symbol)}" if hit.symbol else ""
        symbol += f"  {hit.change}" if hit.change else ""
        lines = f"{hit.start_line}-{hit.end_line}"
        return f"{self.number}. {self.path}:{lines}  {hit.similarity_score:.2f}{symbol}"

    def margin(self, line: int | None) -> str:
        """What stands before a line of code: its number, or a mark where lines are left out."""
        width = len(str(self.hit.end_line))
        return f"{'…' if line is None else line:>{width}}"

    def lines(self) -> list[str]:
        """All of it, line by line."""
        code = [
            f"{self.margin(line)}{'   ' if line is None else '  '}{text}".rstrip()
            for line, text in self.code
        ]
        return [self.heading, *code, *self.details]


@dataclass(frozen=True, slots=True)
class SearchText:
    """The text of a search: what limits the answer, the results, what to do next."""

    head: tuple[str, ...]
    blocks: tuple[Block, ...]
    tail: tuple[str, ...]

    def lines(self) -> list[str]:
        """All of it, line by line."""
        return [*self.head, *(line for block in self.blocks for line in block.lines()), *self.tail]


def search_text(report: SearchReport, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
    """The text of a search by definition, of at most ``max_chars`` characters."""
    text = "\n".join(read_search(report, max_chars).lines())
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def read_search(report: SearchReport, max_chars: int = DEFAULT_REPLY_CHARS) -> SearchText:
    """What is worth reading of a search by definition, in about ``max_chars`` characters."""
    hits = report.answer.hits
    head = _head(report)
    if not hits and report.index.state == "indexing":
        return SearchText((*head, "No file that is indexed so far answers: ask again."), (), ())
    if not hits:
        return SearchText(tuple(dict.fromkeys([*head, *_help(report)])), (), ())
    elsewhere = is_elsewhere(hits)
    if report.help is not None and report.help.doubt:
        head += filter(None, [report.help.doubt, report.help.absent])
    roots = {one.repository_id: one.root for one in report.answer.snapshots}
    blocks = []
    for number, (hit, share) in enumerate(zip(hits, shares(hits, max_chars), strict=False), 1):
        root = roots[hit.repository_id]
        path = shown_path(report.scope, root, hit.file_path) + printable_line(_at(report, hit))
        notes = report.notes[number - 1] if report.notes else ()
        details = _details(report, hit, share, notes)
        if number == 1 and report.usage is not None and not elsewhere:
            details = (_usage(report, root), *details)
        if report.last_changes and (change := report.last_changes[number - 1]):
            details = (*details, _last_change(change))
        blocks.append(Block(number, hit, path, _code(hit, share), details))
    tail = [] if report.help is None or report.help.hint == NO_HINT else [report.help.hint]
    shown = _fitting(head, blocks, tail, max_chars)
    left = report.answer.file_count - shown
    if left > 0 and (len(blocks) == 1 or blocks[1].code):
        files = "1 more file" if left == 1 else f"{left} more files"
        tail.append(f"[{files}: limit, max_chars, directory]")
    return SearchText(tuple(head), tuple(blocks[:shown]), tuple(tail))


def _at(report: SearchReport, hit: Hit) -> str:
    """Which of several states a file is of; nothing for the files on disk and for new ones."""
    is_only = len({one.view for one in report.answer.snapshots}) == 1
    if is_only or hit.view == WORKTREE or hit.change in {"added", "changed"}:
        return ""
    return f"@{report.refs.get(hit.view, hit.view[:12])}"


def shares(hits: Sequence[Hit], max_chars: int) -> list[_Share]:
    """How much of the reply each result gets; what comes after those gets nothing.

    What the code hardly has gets no lines of code: readers found them of no use.
    """
    if is_elsewhere(hits):
        return [_Share(0, 0, 2)] * min(len(hits), MAX_NAMED)
    scores = [hit.similarity_score for hit in hits]
    alike = sum(1 for _ in takewhile(lambda score: score >= SIMILAR_SHARE * scores[0], scores))
    with_code = min(alike, MAX_WITH_CODE)
    scale = max_chars / DEFAULT_REPLY_CHARS
    plan = []
    for place, score in enumerate(scores[: with_code + MAX_NAMED]):
        if place >= with_code:
            plan.append(_Share(0, 0, 2 if place <= with_code + 1 else 0))
        elif place:
            lines = 7 if hits[place].matching_lines else 0
            plan.append(_Share(round(lines * scale), round(200 * scale), 3))
        elif with_code == 1 and score >= CONFIDENT:
            plan.append(_Share(round(MAX_DEFINITION_LINES * scale), round(760 * scale), 4))
        else:
            plan.append(_Share(round(14 * scale), round(520 * scale), 4))
    return plan


def _details(
    report: SearchReport, hit: Hit, share: _Share, notes: Sequence[Note]
) -> tuple[str, ...]:
    """The other places of a file, and what else was asked for."""
    roots = {one.repository_id: one.root for one in report.answer.snapshots}
    lines = []
    places = [
        f"{place.start_line}-{place.end_line}{_name(place.symbol)} {place.score:.2f}"
        for place in hit.more_in_file[: share.places]
        if place.symbol and place.score >= MIN_PLACE_SCORE
    ]
    if places:
        lines.append(f"   also {', '.join(places)}")
    if hit.also_at:
        copies = ", ".join(
            shown_path(report.scope, roots[place.repository_id], place.file_path)
            for place in hit.also_at[:3]
        )
        lines.append(f"   same text: {copies}")
    if hit.signals:
        signals = sorted(hit.signals.items(), key=lambda signal: -abs(signal[1]))
        lines.append(f"   rank: {', '.join(f'{name} {value:+.1f}' for name, value in signals)}")
    for note in notes:
        state = f" ({note.state})" if note.state != "current" else ""
        lines.append(f"   {note.record_kind} {note.id}: {printable_line(note.title)}{state}")
    return tuple(lines)


def _usage(report: SearchReport, root: str) -> str:
    """Where a result is used: ``called from: cart.py:41 checkout, api.py:8 (+3, 2 in tests)``."""
    usage = report.usage
    assert usage is not None
    places = [
        f"{shown_path(report.scope, root, one.path)}:{one.line}{_name(one.symbol)}"
        for one in usage.places
    ]
    while len(places) > 1 and len(", ".join(places)) > _MAX_USAGE_CHARS:
        places.pop()
    more = usage.more + len(usage.places) - len(places)
    others = [f"+{more}"] if more else []
    others += [f"{usage.in_tests} in tests"] if usage.in_tests else []
    rest = ", ".join(others)
    if not usage.is_all:
        rest = f"{rest} or more" if rest else "perhaps others"
    rest = f" ({rest})" if rest else ""
    return f"   {'called from' if usage.is_called else 'used in'}: {', '.join(places)}{rest}"


def _last_change(change: LastChange) -> str:
    """The commit that last changed the lines of a hit."""
    if change.commit is None or change.date is None:
        return "   changed: uncommitted"
    what = printable_line(f"{change.author}: {change.subject}")[:_MAX_CHANGE_CHARS]
    return f"   changed {change.date:%Y-%m-%d} {change.commit[:10]} {what}"


def _name(symbol: str | None) -> str:
    return f" {printable_line(symbol)}" if symbol else ""


def _code(hit: Hit, share: _Share) -> tuple[tuple[int | None, str], ...]:
    if not share.lines:
        return ()
    lines = split_lines(hit.content)
    matching = [line - hit.start_line for line in hit.matching_lines]
    shown = excerpt(lines, matching, most_lines=share.lines, most_chars=share.chars)
    out: list[tuple[int | None, str]] = []
    before = -1
    for place in [*shown, len(lines)]:
        gap = place - before - 1
        if gap == 1:  # the mark would cost as much
            out.append(_line(hit, lines, place - 1))
        elif gap and any(line.strip() for line in lines[before + 1 : place]):
            out.append((None, f"[{gap} lines]"))
        if place < len(lines):
            out.append(_line(hit, lines, place))
        before = place
    return tuple(out)


def _line(hit: Hit, lines: Sequence[str], place: int) -> tuple[int, str]:
    text = printable(lines[place].rstrip())
    text = text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"
    return hit.start_line + place, text


def _fitting(
    head: Sequence[str], blocks: Sequence[Block], tail: Sequence[str], max_chars: int
) -> int:
    """How many blocks fit; one at least."""
    room = max_chars - sum(len(line) + 1 for line in (*head, *tail)) - 50
    count = 0
    for block in blocks:
        room -= sum(len(line) + 1 for line in block.lines())
        if room < 0 and count:
            break
        count += 1
    return count


def _head(report: SearchReport) -> list[str]:
    """What limits the answer, if anything does."""
    truth = report.index
    head = [f'Read "{word}" as "{meant}".' for word, meant in report.answer.respelt.items()]
    if report.refs:
        commits = (f"{printable_line(name)} ({of[:7]})" for of, name in report.refs.items())
        is_range = any(hit.change for hit in report.answer.hits)
        head.append(f"{'Changed between' if is_range else 'In'} {', '.join(commits)}.")
    note = state_note(truth.state, truth.files_pending, truth.percent, truth.seconds_left)
    # The next search may be able to check the files; that is not worth a line in each reply.
    if note and truth.state != "unchecked":
        head.append(note)
    return [*head, *filter(None, [secondary_note(report.answer.secondary_model)])]


def _help(report: SearchReport) -> list[str]:
    """Why nothing was found, and what to ask instead."""
    help_ = report.help
    if help_ is None:
        return ["No code matches this query."]
    return [f"Nothing found. {help_.hint}", *help_.reasons]
