"""The impact of a change: the files and definitions it affects, and where to look first.

git tells what changed, the index who uses it, and the stored history which files usually change
together: how many of the commits to a changed file touched another file too. The score combines
the reasons as independent probabilities: 1 - (1 - p1)(1 - p2)…
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, prod
from typing import Any
from uuid import UUID

from codebase_mcp.changes.compare import (
    Difference,
    Differences,
    compare,
    find_differences,
)
from codebase_mcp.changes.likely import (
    History,
    LikelyFile,
    folders_of,
    likely_files,
    same_names,
)
from codebase_mcp.changes.symbols import ChangedSymbol, SymbolChanges
from codebase_mcp.changes.users import PRODUCT, User, users_of
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.source.git import shallow_commits
from codebase_mcp.source.git_changes import commits_between, empty_tree, parents_of
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_refs import resolve_commit

_SQL = load_queries("codebase_mcp.changes", "impact.sql")

# A commit with more paths, such as one that formats all files, does not show what belongs together.
MAX_COMMIT_PATHS = 50
# Limits of the query: changed files, commits that touched them, pairs.
_MAX_PATHS = 500
_MAX_COMMITS = 2_000
_MAX_PAIRS = 200
_MAX_CANDIDATES = 5_000
# So many of the files that change most often are candidates, whatever changed.
_BUSIEST = 30
# Two files that changed together once, or seldom, did so by chance.
MIN_SUPPORT = 2
MIN_CONFIDENCE = 0.1
# From this share on a file is expected to change as well.
EXPECTED = 0.5

# In fewer commits a share says little.
MIN_HISTORY = 20

MAX_PLACES = 10


@dataclass(frozen=True, slots=True)
class Change:
    """A change to examine: its differences, and its own commits, which the history leaves out."""

    label: str
    differences: Differences
    commits: Sequence[str] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Companion:
    """An unchanged file that usually changes together with ``changed_file``.

    ``support`` of the ``commits`` to ``changed_file`` touched it too.
    """

    path: str
    kind: str
    changed_file: str
    support: int
    commits: int

    @property
    def confidence(self) -> float:
        """The share of the commits."""
        return self.support / self.commits

    @property
    def is_test(self) -> bool:
        """Whether it is a test."""
        return self.kind == FileKind.TEST


@dataclass(frozen=True, slots=True)
class Activity:
    """How many of the stored commits touched the changed file that most of them touched."""

    path: str
    touched: int
    commits: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a change matters: a count, a sentence about it, and its points in the score."""

    name: str
    value: float
    points: float
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A place to look at, and why; ``likelihood`` that the change concerns it, if left alone."""

    path: str
    symbol: str | None
    line: int | None
    why: str
    likelihood: float | None = None


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change touches; ``history_commits`` is how many commits were looked at for it."""

    change: Change
    score: float
    reasons: tuple[Reason, ...]
    companions: tuple[Companion, ...]
    users: tuple[User, ...]
    places: tuple[Place, ...]
    history_commits: int


def change_named(name: str | None) -> Callable[[GitRepository], Change]:
    """The function that finds a change: a commit, a range ``A...B``, or the uncommitted work."""
    if name is None:
        return uncommitted_change
    a, dots, b = name.partition("...")
    if dots:
        return lambda repository: change_of_branch(repository, a or "HEAD", b or "HEAD")
    return lambda repository: change_of_commit(repository, name)


def change_of_commit(repository: GitRepository, name: str) -> Change:
    """The change of a commit; of a merge, relative to its first parent.

    Raises:
        InvalidInput: it is no commit, or its parent is missing.
        IndexingFailed: git cannot compare them.
    """
    commit = resolve_commit(repository, name, field="commit")
    if commit in shallow_commits(repository):
        raise InvalidInput.of(
            "commit",
            name,
            f"What {name} changed is unknown: its parent is missing, as the clone is shallow",
            rule="a commit whose parent is there",
            hint="git fetch --unshallow gets the rest.",
        )
    parents = parents_of(repository, commit)
    base = parents[0] if parents else empty_tree(commit)
    # What a merge brought is in its commits.
    commits = commits_between(repository, base, commit) if len(parents) > 1 else [commit]
    return Change(commit, find_differences(repository, base, commit), commits)


def change_of_branch(repository: GitRepository, a: str, b: str) -> Change:
    """The change that merging ``b`` into ``a`` would make; ``b`` may be the files on disk.

    Raises:
        InvalidInput: ``a`` or ``b`` is no commit.
        IndexingFailed: git cannot compare them.
    """
    comparison = compare(repository, a, b)
    commits = commits_between(repository, comparison.base, comparison.commit_b)
    return Change(f"{a}...{b}", comparison.differences, commits, comparison.notices)


def uncommitted_change(repository: GitRepository) -> Change:
    """What the files on disk change in the commit that is checked out.

    Raises:
        InvalidInput: there is no commit, or there are no files.
        IndexingFailed: git cannot list the files.
    """
    comparison = compare(repository, "HEAD", WORKTREE)
    return Change("uncommitted work", comparison.differences, (), comparison.notices)


async def assess(tx: Transaction, repository_id: UUID, change: Change) -> Impact:
    """The impact of a change, by what changed and by the stored history."""
    files = change.differences.files
    paths = [
        path
        for difference in files
        for path in (difference.file.path, difference.file.old_path)
        if path
    ]
    parameters = {
        "repository_id": repository_id,
        "paths": paths[:_MAX_PATHS],
        "excluded": list(change.commits),
    }
    rows = await tx.fetch_all(
        _SQL["changed_together"],
        **parameters,
        max_paths=MAX_COMMIT_PATHS,
        max_commits=_MAX_COMMITS,
        min_support=MIN_SUPPORT,
        min_confidence=MIN_CONFIDENCE,
        max_pairs=_MAX_PAIRS,
    )
    # Each file once, with the changed file that it follows most reliably.
    best: dict[str, Companion] = {}
    for changed, other, support, commits, kind in rows:
        best.setdefault(other, Companion(other, kind, changed, support, commits))
    [row] = await tx.fetch_all(_SQL["busiest"], **parameters)
    busiest = Activity(*row)
    companions = tuple(best.values())
    [snapshots] = await tx.fetch_all(_SQL["snapshots"], repository_id=repository_id)
    users = await users_of(tx, snapshots[0], files)
    reasons = tuple(find_reasons(files, companions, busiest, users))
    likely = await _likely(tx, parameters, users)
    return Impact(
        change,
        round(1 - prod(1 - reason.points for reason in reasons), 2),
        reasons,
        companions,
        tuple(users),
        tuple(_places(files, likely)),
        busiest.commits,
    )


async def _likely(
    tx: Transaction, parameters: Mapping[str, Any], users: Sequence[User]
) -> list[LikelyFile]:
    """The files that a change of some paths left alone and probably concerns."""
    paths = parameters["paths"]
    rows = await tx.fetch_all(
        _SQL["history"], **parameters, max_paths=MAX_COMMIT_PATHS, max_commits=_MAX_COMMITS
    )
    history = History(paths, [touched for (touched,) in rows])
    rows = await tx.fetch_all(
        _SQL["candidates"],
        **parameters,
        known=list(history.paths(_BUSIEST)),
        folders=folders_of(paths),
        names=same_names(paths),
        max_candidates=_MAX_CANDIDATES,
    )
    return likely_files(paths, [path for (path,) in rows], history, users)


def find_reasons(
    files: Sequence[Difference],
    companions: Sequence[Companion],
    busiest: Activity,
    users: Sequence[User] = (),
) -> list[Reason]:
    """Why the change matters, the weightiest first."""
    product = [difference for difference in files if difference.kind in PRODUCT]
    expected = [companion for companion in companions if companion.confidence >= EXPECTED]
    reasons = [
        _removed(_count(product, lambda symbols: symbols.removed)),
        _changed(_count(product, lambda symbols: symbols.changed)),
        _still_used(sum(user.is_removed for user in users)),
        _used({user.path for user in users if not user.is_removed}, len(users)),
        _spread(len({difference.file.path.rpartition("/")[0] for difference in product})),
        _left_alone(len(expected), sum(companion.confidence for companion in expected)),
        _active(busiest),
    ]
    code = sum(file.kind is FileKind.CODE for file in files)
    if code and not any(file.kind is FileKind.TEST for file in files):
        text = f"{_of(code, 'file')} of code changed, and no test did."
        reasons.append(Reason("no_test_changed", code, 0.2, text))
    shown = [reason for reason in reasons if reason.points >= 0.01]
    return sorted(shown, key=lambda reason: -reason.points)


def _removed(count: int) -> Reason:
    text = f"{_of(count, 'definition')} removed: whatever uses them breaks."
    return Reason("definitions_removed", count, _points(0.5, count / 3), text)


def _still_used(count: int) -> Reason:
    text = f"{_of(count, 'place')} elsewhere {_use(count)} the name of a removed definition."
    return Reason("removed_but_used", count, _points(0.6, count / 2), text)


def _used(paths: Collection[str], count: int) -> Reason:
    text = f"{_of(count, 'place')} in {_of(len(paths), 'other file')} {_use(count)} what changed."
    return Reason("users", count, _points(0.4, len(paths) / 6), text)


def _changed(count: int) -> Reason:
    text = f"{_of(count, 'definition')} changed."
    return Reason("definitions_changed", count, _points(0.4, count / 15), text)


def _spread(count: int) -> Reason:
    text = f"The change is spread over {_of(count, 'directory', 'directories')}."
    return Reason("directories", count, _points(0.3, max(count - 1, 0) / 5), text)


def _left_alone(count: int, total: float) -> Reason:
    text = (
        f"{_of(count, 'file')} left alone that at least half of the earlier commits to a changed "
        "file touched."
    )
    return Reason("companions_left_alone", count, _points(0.4, total / 2), text)


def _active(busiest: Activity) -> Reason:
    """A file that changes often; the history must be long enough to tell."""
    path, touched, commits = busiest.path, busiest.touched, busiest.commits
    share = touched / commits if commits >= MIN_HISTORY else 0.0
    text = f"{path} was touched by {touched} of the last {commits} commits."
    return Reason("busiest_file", touched, _points(0.2, share * 10), text)


def _points(most: float, amount: float) -> float:
    """Points that grow with an amount, ever more slowly, towards a maximum."""
    return round(most * (1 - exp(-amount)), 2)


def _use(count: int) -> str:
    return "uses" if count == 1 else "use"


def _of(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _count(
    files: Iterable[Difference], listed: Callable[[SymbolChanges], list[ChangedSymbol]]
) -> int:
    return sum(len(listed(file.symbols)) for file in files if file.symbols is not None)


def _places(files: Sequence[Difference], likely: Sequence[LikelyFile]) -> list[Place]:
    """Where to look first: files that were left alone, then what was removed, then the longest
    definitions that changed."""
    symbols = [file.symbols for file in files if file.kind in PRODUCT and file.symbols is not None]
    removed = [symbol for changes in symbols for symbol in changes.removed]
    changed = [symbol for changes in symbols for symbol in changes.changed]
    changed.sort(key=lambda symbol: symbol.start_line - symbol.end_line)
    places = [
        Place(
            file.path,
            file.user.enclosing if file.user else None,
            file.user.line if file.user else None,
            file.why,
            round(file.score, 2),
        )
        for file in likely[:MAX_PLACES]
    ]
    places += [
        Place(symbol.path, symbol.name, None, "removed: look for what still uses it")
        for symbol in removed
    ]
    places += [Place(symbol.path, symbol.name, symbol.start_line, "changed") for symbol in changed]
    return places[:MAX_PLACES]
