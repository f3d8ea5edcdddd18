"""The texts of a comparison, of a change's impact, of commits, and of the history of a symbol.

Below a file are its definitions: ``+`` was added, ``~`` changed, ``-`` removed, ``>`` moved or
renamed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from codebase_mcp.model import FileKind
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS
from codebase_mcp.tools.text import counted, scope_note, size_of

if TYPE_CHECKING:
    from codebase_mcp.app.reports import HistoryReport, SymbolHistoryReport
    from codebase_mcp.changes.compare import Comparison, Difference, Differences
    from codebase_mcp.changes.impact import Impact
    from codebase_mcp.changes.symbol_history import SymbolEvent
    from codebase_mcp.changes.symbols import ChangedSymbol
    from codebase_mcp.search.history import FoundCommit

LETTERS = {
    "added": "A", "removed": "D", "changed": "M", "renamed": "R", "mode": "M", "type": "T"
}  # fmt: skip

_INDENT = "    "
# A full hash is cut to its first digits.
_HASH = re.compile("[0-9a-f]{40,64}")
# Definitions of tests and documents are not listed.
_PRODUCT = (FileKind.CODE, FileKind.CONFIG)
# Of files that are less likely concerned and use nothing that changed, only the names are shown.
_LIKELY = 0.1
# The most tests that are named.
_TESTS = 5
# Kept free for counts of the files that are left out.
_TAIL_CHARS = 120

# The digits of a hash that are shown.
_HASH_CHARS = 10
# A longer line of a message or of paths is cut.
MAX_LINE_CHARS = 160
_AUTHOR_CHARS = 40
# The most paths that are named, and about how many characters they take.
MAX_PATHS = 5
_PATHS_CHARS = 130
# Kept free for a line that says that more commits match.
_MORE_CHARS = 13


def comparison_text(
    comparison: Comparison, max_chars: int, *, limit: int | None = None, note: Sequence[str] = ()
) -> str:
    """The text of a comparison with at most ``limit`` files, of about ``max_chars`` characters.

    The lines of the ``note`` come last.
    """
    a, b = printable_line(comparison.a), printable_line(comparison.b)
    ahead = counted(comparison.commits_ahead, "commit")
    counts = f"{ahead} ahead, {comparison.commits_behind} behind"
    head = [f"{a}...{b}: {counts}; {_totals(comparison.differences)}", *comparison.notices]
    room = max_chars - size_of([*head, *note])
    return "\n".join([*head, *_fitting(comparison.differences, room, limit), *note])


def _totals(differences: Differences) -> str:
    files = counted(differences.total, "file")
    if not differences.has_details:
        return f"{files} changed"
    return f"{files} changed, +{differences.lines_added} -{differences.lines_removed}"


def _file_line(difference: Difference) -> str:
    """The status, path and counts of a file."""
    file = difference.file
    text = f"{LETTERS[file.status]} {printable_line(file.path)}"
    if file.old_path is not None:
        text += f" (was {printable_line(file.old_path)})"
    if file.status == "mode" and file.old and file.new:
        text += f" (mode {file.old.mode} to {file.new.mode})"
    elif file.is_submodule:
        hashes = (side.object_id[:12] if side else "none" for side in (file.old, file.new))
        text += f" (submodule {' to '.join(hashes)})"
    lines = [(file.lines_added, "+"), (file.lines_removed, "-")]
    return " ".join([text, *(f"{sign}{count}" for count, sign in lines if count)])


def _symbol_lines(difference: Difference) -> Iterator[str]:
    """The definitions of a file that differ, each with its sign."""
    changes = difference.symbols
    if changes is None:
        return
    for sign, symbols in (("+", changes.added), ("~", changes.changed), (">", changes.moved)):
        for symbol in symbols:
            lines = f"{symbol.start_line}-{symbol.end_line}"
            origin = _origin(symbol, difference.file.path)
            yield f"{_INDENT}{sign} {printable_line(symbol.name)} {lines}{origin}"
    yield from (f"{_INDENT}- {printable_line(symbol.name)}" for symbol in changes.removed)


def impact_text(
    impact: Impact, max_chars: int, *, limit: int | None = None, note: Sequence[str] = ()
) -> str:
    """The text of an impact, of about ``max_chars`` characters, each list with at most ``limit``
    entries.

    The lines of the ``note`` come last.
    """
    label, differences = impact.change.label, impact.change.differences
    short = label[:12] if _HASH.fullmatch(label) else printable_line(label)
    head = [
        f"impact {impact.score:.2f} of {short}; {_totals(differences)}",
        *impact.change.notices,
        *(f"  {reason.points:.2f} {printable_line(reason.text)}" for reason in impact.reasons),
        *_left_alone(impact, limit),
    ]
    if not impact.history_commits:
        head.append("no history is stored: index_codebase with depth, or index --history, reads it")
    if differences.files:
        head.append("changed:")
    room = max_chars - size_of([*head, *note])
    return "\n".join([*head, *_fitting(differences, room, limit, _PRODUCT), *note])


def _left_alone(impact: Impact, limit: int | None) -> Iterator[str]:
    """The unchanged files that a change probably concerns; of unlikely files only the names."""
    concerned = [file for file in impact.places if file.likelihood is not None]
    listed = concerned[:limit]
    likely = [p for p in listed if (p.likelihood or 0) >= _LIKELY or p.line is not None]
    if likely:
        yield "left alone, with how likely it concerns them:"
    for file in likely:
        line = f":{file.line}" if file.line is not None else ""
        symbol = f" {printable_line(file.symbol)}" if file.symbol else ""
        where = f"{printable_line(file.path)}{line}{symbol}"
        yield f"  {file.likelihood:.2f} {where}: {printable_line(file.why)}"
    if unlikely := [printable_line(file.path) for file in listed if file not in likely]:
        yield f"less likely: {', '.join(unlikely)}"
    if more := len(concerned) - len(listed):
        yield f"… {counted(more, 'more file')}"
    named = {file.path for file in concerned}
    if tests := sorted({user.path for user in impact.users if user.is_test} - named):
        paths = [printable_line(path) for path in tests[: min(limit or _TESTS, _TESTS)]]
        more = len(tests) - len(paths)
        yield f"tests that use it: {', '.join(paths)}" + (f" (+{more})" if more else "")


def _fitting(
    differences: Differences,
    max_chars: int,
    limit: int | None,
    kinds: Collection[FileKind] = tuple(FileKind),
) -> list[str]:
    """The first files, those of some kinds with their definitions, as many as fit; then how much
    is left out."""
    reasons = (f"{n} {reason.replace('_', ' ')}" for reason, n in differences.left_out.items())
    not_compared = ", ".join(reasons)
    tail = [f"definitions not compared: {not_compared}"] if not_compared else []
    room = max_chars - sum(map(len, tail)) - _TAIL_CHARS
    lines: list[str] = []
    shown = without = 0
    for difference in differences.files[:limit]:
        heading = _file_line(difference)
        symbols = [*_symbol_lines(difference)] if difference.kind in kinds else []
        size = size_of([heading])
        if size > room:
            break
        shown += 1
        if size + size_of(symbols) > room:
            without += bool(symbols)
            symbols = []
        lines += [heading, *symbols]
        room -= size + size_of(symbols)
    if without:
        lines.append(f"… definitions of {counted(without, 'file')} left out for length")
    if shown < differences.total:
        lines.append(f"… {counted(differences.total - shown, 'more file')}")
    return [*lines, *tail]


def _origin(symbol: ChangedSymbol, path: str) -> str:
    """The name and path of a definition before it moved to ``path``."""
    if symbol.old_name is None or symbol.old_path is None:
        return ""
    name = printable_line(symbol.old_name) if symbol.old_name != symbol.name else ""
    file = f"in {printable_line(symbol.old_path)}" if symbol.old_path != path else ""
    return f" (was {' '.join(filter(None, (name, file)))})"


def history_text(report: HistoryReport, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
    """The text of a search of the history, whole commits in at most ``max_chars`` characters."""
    lines, scope = _notes(report), scope_note(report.scope)
    if not report.commits:
        return "\n".join([*lines, "No commit matches.", *scope])
    room = max_chars - size_of(scope)
    has_more = report.has_more
    several = len({commit.repository_id for commit in report.commits}) > 1
    for rank, commit in enumerate(report.commits, 1):
        name = printable_line(report.repositories[commit.repository_id].name)
        where = f"  [{name}]" if several else ""
        details = [f"   {_line(text)}" for text in (commit.excerpt, _paths(commit)) if text]
        block = [f"{rank}. {_heading(commit)}{where}", *details]
        if rank > 1 and size_of((*lines, *block)) > room - _MORE_CHARS:
            has_more = True
            break
        lines += block
    tail = ["[more match]"] if has_more else []
    return "\n".join([*lines, *tail, *scope])


def symbol_history_text(
    report: SymbolHistoryReport, limit: int, max_chars: int = DEFAULT_REPLY_CHARS
) -> str:
    """The changes of a symbol, newest first: an event a line, in at most ``max_chars``."""
    lines = [printable_line(notice) for notice in report.notices]
    for repository_id, history in report.histories.items():
        root = printable_line(str(report.repositories[repository_id].root))
        before = "" if history.is_complete else "; what came before is unknown"
        changes = counted(len(history.events), "change")
        lines.append(f"{changes} in {history.commits} commits of {root}{before}")
        lines += [
            f"{event.commit[:_HASH_CHARS]} {event.at:%Y-%m-%d}"
            f" {printable_line(event.author)[:_AUTHOR_CHARS]}  {_line(_what_happened(event))}"
            f"  {_line(event.subject)}"
            for event in history.events[:limit]
        ]
    text = "\n".join(lines) or "No repository of the project has a history."
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _what_happened(event: SymbolEvent) -> str:
    """``CHANGE PATH:FIRST-LAST SYMBOL``, and from where it was moved."""
    former = f" from {event.former}" if event.former else ""
    lines = f"{event.first_line}-{event.last_line}"
    return f"{event.change} {event.path}:{lines} {event.symbol}{former}"


def _notes(report: HistoryReport) -> list[str]:
    """Which histories were read for this search, and which could not be read."""
    notes = [
        f"Read {count} commits of {printable_line(str(report.repositories[read].root))}; later"
        " searches and index runs keep them up to date."
        for read, count in report.read.items()
    ]
    has_history = report.read or any(facts.depth for facts in report.repositories.values())
    if not (has_history or report.notices):
        notes.append("No repository of the project is in git, so there is no history.")
    return [*notes, *map(printable_line, report.notices)]


def _heading(commit: FoundCommit) -> str:
    """``HASH DATE AUTHOR  +ADDED -REMOVED  SCORE  (merge)  (BRANCH)  SUBJECT``."""
    branches = printable_line(", ".join(commit.branches))[:_AUTHOR_CHARS]
    author = printable_line(commit.author_name)[:_AUTHOR_CHARS]
    parts = (
        f"{commit.hash[:_HASH_CHARS]} {commit.authored_at:%Y-%m-%d} {author}",
        None if commit.added is None else _counts(commit.added, commit.removed),
        None if commit.score is None else f"{commit.score:.2f}",
        "(merge)" if commit.is_merge else None,
        f"({branches})" if branches else None,
        _line(commit.subject),
    )
    return "  ".join(part for part in parts if part is not None)


def _counts(added: int | None, removed: int | None) -> str:
    return f"+{added or 0} -{removed or 0}"


def _line(text: str) -> str:
    """A text in one line of limited length."""
    shown = printable_line(text)
    return shown if len(shown) <= MAX_LINE_CHARS else shown[:MAX_LINE_CHARS] + "…"


def _paths(commit: FoundCommit) -> str:
    """The first paths of a commit with their lines, and the number of further paths."""
    # The former path of a renamed file stands with its new path.
    former = {change.former for change in commit.changes}
    named = [change for change in commit.changes if change.path not in former]
    left = (commit.paths_total or 0) - (len(commit.changes) - len(named))
    shown: list[str] = []
    for change in named[:MAX_PATHS]:
        lines = "" if change.added is None else f" {_counts(change.added, change.removed)}"
        path = (f"{change.former} → " if change.former else "") + change.path + lines
        if shown and sum(map(len, shown)) + len(path) > _PATHS_CHARS:
            break
        shown.append(path)
    more = [f"{left - len(shown)} more"] if left > len(shown) > 0 else []
    return ", ".join([*shown, *more])
