"""What does a reader get from a search? A text that spends its characters where the answer is.

The best place comes with its lines, others with fewer or none: how many follows from how sure the
answer is. The form is the contract's, "Replies for models and replies for programs". Lines around
those that answer are shown on request, as far as everything else leaves room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable, printable_line
from codebase_mcp.replies.excerpt import MAX_LINE_CHARS, excerpt, widened
from codebase_mcp.replies.paths import scope_note, shown_path
from codebase_mcp.search.help import NO_HINT, is_elsewhere, secondary_note, state_note
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS

if TYPE_CHECKING:
    from uuid import UUID

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

# Results after these are named together in a line, up to so many in all.
MAX_RESULTS = 10
_OTHERS = "also: "

# Kept free for how many files are left out.
_LEFT_CHARS = 50

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
        width = len(str(max(self.hit.end_line, *(line or 0 for line, _ in self.code), 0)))
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


def search_text(
    report: SearchReport, max_chars: int = DEFAULT_REPLY_CHARS, context_lines: int = 0
) -> str:
    """The text of a search by definition, of at most ``max_chars`` characters."""
    text = "\n".join(read_search(report, max_chars, context_lines).lines())
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def read_search(
    report: SearchReport, max_chars: int = DEFAULT_REPLY_CHARS, context_lines: int = 0
) -> SearchText:
    """What is worth reading of a search by definition, in about ``max_chars`` characters.

    ``context_lines`` are shown around each line of code, as far as there is room.
    """
    hits = report.answer.hits
    head, scope = _head(report), scope_note(report.scope)
    if not hits and report.index.state == "indexing":
        asked = "No file that is indexed so far answers: ask again."
        return SearchText((*head, asked, *scope), (), ())
    if not hits:
        return SearchText(tuple(dict.fromkeys([*head, *_help(report), *scope])), (), ())
    if report.help is not None and report.help.doubt:
        head += filter(None, [report.help.doubt, report.help.absent])
    hint = [] if report.help is None or report.help.hint == NO_HINT else [report.help.hint]
    plan = shares(hits, max_chars)
    blocks = [_block(report, place, share) for place, share in enumerate(plan)]
    room = max_chars - _size([*head, *hint, *scope]) - _LEFT_CHARS
    shown = _fitting(blocks, room)
    del blocks[shown:]
    room -= sum(_size(block.lines()) for block in blocks)
    others = _others(report, shown, room)
    tail = [_OTHERS + ", ".join(others)] if others else []
    blocks = _with_context(blocks, plan, context_lines, room - _size(tail))
    return SearchText(tuple(head), tuple(blocks), (*tail, *hint, *scope))


def _block(report: SearchReport, place: int, share: _Share) -> Block:
    """The result at a place, as it is shown without further lines around it."""
    hit = report.answer.hits[place]
    notes = report.notes[place] if report.notes else ()
    details = _details(report, hit, share, notes)
    if place == 0 and report.usage is not None and not is_elsewhere(report.answer.hits):
        details = (_usage(report, _roots(report)[hit.repository_id]), *details)
    if report.last_changes and (change := report.last_changes[place]):
        details = (*details, _last_change(change))
    return Block(place + 1, hit, _path(report, hit), _code(hit, share), details)


def _others(report: SearchReport, shown: int, room: int) -> list[str]:
    """The places and names of the results after those that are shown, as far as they fit."""
    room -= len(_OTHERS)
    places = []
    for hit in report.answer.hits[shown:MAX_RESULTS]:
        place = f"{_path(report, hit)}:{hit.start_line}-{hit.end_line}"
        place += _name(_last_part(hit.symbol)) + (f" {hit.change}" if hit.change else "")
        room -= len(place) + 2
        if room < 0:
            break
        places.append(place)
    return places


def _with_context(
    blocks: Sequence[Block], plan: Sequence[_Share], context_lines: int, room: int
) -> list[Block]:
    """The results with lines around their code, as many as fit: the best result first."""
    shown = []
    for block, share in zip(blocks, plan, strict=False):
        best, size = block, _size(block.lines())
        for around in range(context_lines if block.code else 0, 0, -1):
            wider = replace(block, code=_code(block.hit, share, around))
            more = _size(wider.lines()) - size
            if more <= room:
                best, room = wider, room - more
                break
        shown.append(best)
    return shown


def _roots(report: SearchReport) -> dict[UUID, str]:
    return {one.repository_id: one.root for one in report.answer.snapshots}


def _path(report: SearchReport, hit: Hit) -> str:
    path = shown_path(report.scope, _roots(report)[hit.repository_id], hit.file_path)
    return path + printable_line(_at(report, hit))


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
    roots = _roots(report)
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


def _last_part(symbol: str | None) -> str | None:
    """``run`` of ``Server.run``; None for a heading of a document, whose place tells as much."""
    part = (symbol or "").rpartition(".")[2]
    return part if part.isidentifier() else None


def _name(symbol: str | None) -> str:
    return f" {printable_line(symbol)}" if symbol else ""


def _code(hit: Hit, share: _Share, around: int = 0) -> tuple[tuple[int | None, str], ...]:
    """The lines of a hit that are worth showing, with so many around each."""
    if not share.lines:
        return ()
    content, before = split_lines(hit.content), split_lines(hit.context_before)
    lines = [*before, *content, *split_lines(hit.context_after)]
    start, end = len(before), len(before) + len(content)
    matching = [line - hit.start_line for line in hit.matching_lines]
    places = excerpt(content, matching, most_lines=share.lines, most_chars=share.chars)
    first = hit.start_line - start
    code: list[tuple[int | None, str]] = []
    following = start
    for place in widened([start + place for place in places], around, len(lines)):
        code += _gap(lines, range(following, place), first)
        code.append(_line(lines, place, first))
        following = place + 1
    return (*code, *_gap(lines, range(following, end), first))


def _gap(lines: Sequence[str], places: range, first: int) -> list[tuple[int | None, str]]:
    """What stands for lines that are left out; a mark would cost as much as a single one."""
    if len(places) == 1:
        return [_line(lines, places[0], first)]
    if not any(lines[place].strip() for place in places):
        return []
    return [(None, f"[{len(places)} lines]")]


def _line(lines: Sequence[str], place: int, first: int) -> tuple[int, str]:
    text = printable(lines[place].rstrip())
    text = text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"
    return first + place, text


def _fitting(blocks: Sequence[Block], room: int) -> int:
    """How many blocks fit; one at least."""
    count = 0
    for block in blocks:
        room -= _size(block.lines())
        if room < 0 and count:
            break
        count += 1
    return count


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


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
