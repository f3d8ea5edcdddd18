"""What does a reader get from a search of the history? A few lines for each commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line
from codebase_mcp.replies.paths import scope_note
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS

if TYPE_CHECKING:
    from codebase_mcp.app.reports import HistoryReport, SymbolReport
    from codebase_mcp.changes.symbol_history import SymbolEvent
    from codebase_mcp.search.history import FoundCommit
    from codebase_mcp.source.commit_log import PathChange

NOTHING = "No commit matches."
HASH_CHARS = 10
# A line of a message or of paths that is longer is cut.
MAX_LINE_CHARS = 160
_AUTHOR_CHARS = 40
# How many paths are named, and about how many characters they take.
MAX_PATHS = 5
_PATHS_CHARS = 130
# Kept free for a line that says that more commits match.
_TAIL_CHARS = 13


def history_text(report: HistoryReport, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
    """The text of a search of the history, whole commits in at most ``max_chars`` characters."""
    lines, scope = history_notes(report), scope_note(report.scope)
    if not report.commits:
        return "\n".join([*lines, NOTHING, *scope])
    room = max_chars - sum(len(line) + 1 for line in scope)
    has_more = report.has_more
    several = len({commit.repository_id for commit in report.commits}) > 1
    for number, commit in enumerate(report.commits, 1):
        where = f"  [{printable_line(_name(report, commit))}]" if several else ""
        block = [f"{number}. {commit_heading(commit)}{where}", *_details(commit)]
        if number > 1 and sum(len(line) + 1 for line in (*lines, *block)) > room - _TAIL_CHARS:
            has_more = True
            break
        lines += block
    tail = ["[more match]"] if has_more else []
    return "\n".join([*lines, *tail, *scope])


def symbol_text(report: SymbolReport, limit: int, max_chars: int = DEFAULT_REPLY_CHARS) -> str:
    """What became of a symbol, newest first: an event a line, in at most ``max_chars``."""
    lines = [printable_line(notice) for notice in report.notices]
    for one, history in report.histories.items():
        root = printable_line(str(report.repositories[one].root))
        before = "" if history.is_complete else "; what came before is unknown"
        count = len(history.events)
        changes = "1 change" if count == 1 else f"{count} changes"
        lines.append(f"{changes} in {history.commits} commits of {root}{before}")
        lines += [
            f"{event.commit[:HASH_CHARS]} {event.at:%Y-%m-%d}"
            f" {printable_line(event.author)[:_AUTHOR_CHARS]}  {line(what_happened(event))}"
            f"  {line(event.subject)}"
            for event in history.events[:limit]
        ]
    text = "\n".join(lines) or "No repository of the project has a history."
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def what_happened(event: SymbolEvent) -> str:
    """``CHANGE PATH:FIRST-LAST SYMBOL``, and from where it was moved."""
    former = f" from {event.former}" if event.former else ""
    lines = f"{event.first_line}-{event.last_line}"
    return f"{event.change} {event.path}:{lines} {event.symbol}{former}"


def history_notes(report: HistoryReport) -> list[str]:
    """What was read for this search, and what could not be."""
    notes = [
        f"Read {count} commits of {printable_line(str(report.repositories[one].root))}; later"
        " searches and index runs keep them up to date."
        for one, count in report.read.items()
    ]
    has_history = report.read or any(one.depth for one in report.repositories.values())
    if not (has_history or report.notices):
        notes.append("No repository of the project is in git, so there is no history.")
    return [*notes, *map(printable_line, report.notices)]


def commit_heading(commit: FoundCommit) -> str:
    """``HASH DATE AUTHOR  +ADDED -REMOVED  SCORE  (BRANCH)  SUBJECT``."""
    score = "" if commit.score is None else f"  {commit.score:.2f}"
    merge = "  (merge)" if commit.is_merge else ""
    day = f"{commit.authored_at:%Y-%m-%d}"
    author = printable_line(commit.author_name)[:_AUTHOR_CHARS]
    lines = f"  {counts(commit.added, commit.removed)}" if commit.added is not None else ""
    subject = line(commit.subject)
    names = printable_line(", ".join(commit.branches))[:_AUTHOR_CHARS]
    branches = f"  ({names})" if names else ""
    return f"{commit.hash[:HASH_CHARS]} {day} {author}{lines}{score}{merge}{branches}  {subject}"


def counts(added: int | None, removed: int | None) -> str:
    """``+ADDED -REMOVED``."""
    return f"+{added or 0} -{removed or 0}"


def line(text: str) -> str:
    """A text as one line that is not too long."""
    shown = printable_line(text)
    return shown if len(shown) <= MAX_LINE_CHARS else shown[:MAX_LINE_CHARS] + "…"


def paths_line(commit: FoundCommit) -> str:
    """The first paths of a commit with their lines, and how many more there are."""
    # The former path of a renamed file stands with its new one.
    former = {change.former for change in commit.changes}
    named = [change for change in commit.changes if change.path not in former]
    left = (commit.paths_total or 0) - (len(commit.changes) - len(named))
    shown: list[str] = []
    for change in named[:MAX_PATHS]:
        path = _path(change)
        if shown and sum(map(len, shown)) + len(path) > _PATHS_CHARS:
            break
        shown.append(path)
    more = [f"{left - len(shown)} more"] if left > len(shown) > 0 else []
    return line(", ".join([*shown, *more]))


def _path(change: PathChange) -> str:
    lines = "" if change.added is None else f" {counts(change.added, change.removed)}"
    former = f"{change.former} → " if change.former else ""
    return f"{former}{change.path}{lines}"


def _details(commit: FoundCommit) -> list[str]:
    return [f"   {line(text)}" for text in (commit.excerpt, paths_line(commit)) if text]


def _name(report: HistoryReport, commit: FoundCommit) -> str:
    return report.repositories[commit.repository_id].name
