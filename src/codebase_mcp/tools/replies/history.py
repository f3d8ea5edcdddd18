"""The texts of a search of the history, and of the history of a symbol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS
from codebase_mcp.tools.text import counted, scope_note

if TYPE_CHECKING:
    from codebase_mcp.app.reports import HistoryReport, SymbolReport
    from codebase_mcp.changes.symbol_history import SymbolEvent
    from codebase_mcp.search.history import FoundCommit

_HASH_CHARS = 10
# A longer line of a message or of paths is cut.
MAX_LINE_CHARS = 160
_AUTHOR_CHARS = 40
# The most paths that are named, and about how many characters they take.
MAX_PATHS = 5
_PATHS_CHARS = 130
# Kept free for a line that says that more commits match.
_TAIL_CHARS = 13


def history_text(report: HistoryReport, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
    """The text of a search of the history, whole commits in at most ``max_chars`` characters."""
    lines, scope = _notes(report), scope_note(report.scope)
    if not report.commits:
        return "\n".join([*lines, "No commit matches.", *scope])
    room = max_chars - sum(len(line) + 1 for line in scope)
    has_more = report.has_more
    several = len({commit.repository_id for commit in report.commits}) > 1
    for rank, commit in enumerate(report.commits, 1):
        name = printable_line(report.repositories[commit.repository_id].name)
        where = f"  [{name}]" if several else ""
        details = [f"   {_line(text)}" for text in (commit.excerpt, _paths(commit)) if text]
        block = [f"{rank}. {_heading(commit)}{where}", *details]
        if rank > 1 and sum(len(line) + 1 for line in (*lines, *block)) > room - _TAIL_CHARS:
            has_more = True
            break
        lines += block
    tail = ["[more match]"] if has_more else []
    return "\n".join([*lines, *tail, *scope])


def symbol_text(report: SymbolReport, limit: int, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
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
