"""The impact of a change: the files and definitions it affects, and where to look first.

git tells what changed, the index who uses it, and the stored history which files usually change
together: how many of the commits to a changed file touched another file too. The score combines
the reasons as independent probabilities: 1 - (1 - p1)(1 - p2)…
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, prod
from uuid import UUID

from codebase_mcp.changes.compare import (
    Difference,
    Differences,
    compare,
    find_differences,
)
from codebase_mcp.changes.likely import (
    Companion,
    History,
    LikelyFile,
    User,
    folders_of,
    likely_files,
    same_names,
)
from codebase_mcp.changes.symbols import SymbolChanges
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE, FileKind, ReferenceKind
from codebase_mcp.source.git import shallow_commits
from codebase_mcp.source.git_changes import commits_between, empty_tree, parents_of
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_refs import resolve_commit
from codebase_mcp.symbols.candidates import BY_NAME
from codebase_mcp.symbols.definition import FoundUse
from codebase_mcp.symbols.lookup import resolve_names
from codebase_mcp.symbols.references import meaning

_SQL = load_queries("codebase_mcp.changes", "impact.sql")

# A commit with more paths, such as one that formats all files, does not show what belongs together.
MAX_COMMIT_PATHS = 50
# Limits of the queries: changed files, commits, files that may be concerned.
_MAX_PATHS = 500
_MAX_COMMITS = 2_000
_MAX_CANDIDATES = 5_000
# So many of the files that change most often are candidates, whatever changed.
_BUSIEST = 30
# From this share on a file is expected to change as well.
EXPECTED = 0.5

# In fewer commits a share says little.
MIN_HISTORY = 20

MAX_PLACES = 10

# The most definitions that are looked up, and the most uses of a name.
MAX_SYMBOLS = 100
MAX_USES = 500

# A use that is less sure to mean the definition is left out.
LEAST_CONFIDENCE = 0.5

# The kinds of files whose definitions count; tests, documents and generated files do not.
PRODUCT = (FileKind.CODE, FileKind.CONFIG)

_UNDEFINED = "nothing of this name is defined any more"


@dataclass(frozen=True, slots=True)
class Change:
    """A change to examine: its differences, and its own commits, which the history leaves out."""

    label: str
    differences: Differences
    commits: Sequence[str] = ()
    notices: tuple[str, ...] = ()


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
    paths = paths[:_MAX_PATHS]
    parameters = {
        "repository_id": repository_id,
        "paths": paths,
        "excluded": list(change.commits),
    }
    rows = await tx.fetch_all(
        _SQL["history"], **parameters, max_paths=MAX_COMMIT_PATHS, max_commits=_MAX_COMMITS
    )
    history = History(paths, [touched for (touched,) in rows])
    kinds = await tx.fetch_all(
        _SQL["candidates"],
        **parameters,
        known=list(history.paths(_BUSIEST)),
        folders=folders_of(paths),
        names=same_names(paths),
        max_candidates=_MAX_CANDIDATES,
    )
    companions = history.companions(dict(kinds))
    [row] = await tx.fetch_all(_SQL["busiest"], **parameters)
    busiest = Activity(*row)
    [snapshots] = await tx.fetch_all(_SQL["snapshots"], repository_id=repository_id)
    users = await _users_of(tx, snapshots[0], files)
    reasons = tuple(find_reasons(files, companions, busiest, users))
    likely = likely_files(paths, dict(kinds), history, users)
    return Impact(
        change,
        round(1 - prod(1 - reason.points for reason in reasons), 2),
        reasons,
        tuple(companions),
        tuple(users),
        tuple(_places(files, likely)),
        busiest.commits,
    )


async def _users_of(
    tx: Transaction, snapshot_ids: Sequence[int], files: Sequence[Difference]
) -> list[User]:
    """The users of changed or removed definitions in files that the change did not touch.

    The surest come first, code before tests; of several uses in a definition only the first. Uses
    of a removed definition are the uses of its name, if nothing else has that name.
    """
    changes = _product_symbols(files)
    changed = [symbol for each in changes for symbol in each.changed][:MAX_SYMBOLS]
    removed = [symbol for each in changes for symbol in each.removed][:MAX_SYMBOLS]
    names = list(dict.fromkeys(symbol.last_name for symbol in (*removed, *changed)))
    if not names:
        return []
    definitions, uses = await resolve_names(tx, names, snapshot_ids, most_uses=MAX_USES)
    places = {(symbol.path, symbol.name) for symbol in changed}
    targets = {d.key for d in definitions if (d.file.path, d.qualified) in places}
    matches = [
        (use, use.definition.qualified)
        for use in meaning(targets, uses)
        if use.definition is not None
        and use.use.kind is not ReferenceKind.IMPORT
        and use.confidence >= LEAST_CONFIDENCE
    ]
    gone = {symbol.last_name: symbol.name for symbol in removed}
    for name in {definition.name for definition in definitions}:
        gone.pop(name, None)
    matches += [
        (FoundUse(use.use, use.around, None, BY_NAME, _UNDEFINED), gone[use.use.name])
        for use in uses
        if use.use.name in gone
    ]
    touched = {difference.file.path for difference in files}
    first: dict[tuple[str, str | None, str], User] = {}
    for use, symbol in sorted(matches, key=lambda pair: (pair[0].use.file.path, pair[0].use.line)):
        path = use.use.file.path
        if path not in touched:
            first.setdefault(
                (path, use.enclosing, symbol),
                User(
                    path=path,
                    line=use.use.line,
                    enclosing=use.enclosing,
                    symbol=symbol,
                    is_removed=use.definition is None,
                    is_test=use.use.file.is_test,
                    confidence=use.confidence,
                    reason=use.reason,
                ),
            )
    return sorted(
        first.values(),
        key=lambda user: (
            user.is_test, not user.is_removed, -user.confidence, user.path, user.line
        ),
    )  # fmt: skip


def find_reasons(
    files: Sequence[Difference],
    companions: Sequence[Companion],
    busiest: Activity,
    users: Sequence[User] = (),
) -> list[Reason]:
    """Why the change matters, the weightiest first."""
    product = [difference for difference in files if difference.kind in PRODUCT]
    symbols = _product_symbols(files)
    removed = sum(len(changes.removed) for changes in symbols)
    changed = sum(len(changes.changed) for changes in symbols)
    still_used = sum(user.is_removed for user in users)
    using = len({user.path for user in users if not user.is_removed})
    directories = len({difference.file.path.rpartition("/")[0] for difference in product})
    expected = [c.confidence for c in companions if c.confidence >= EXPECTED]
    path, touched, commits = busiest.path, busiest.touched, busiest.commits
    code = sum(file.kind is FileKind.CODE for file in files)
    is_tested = any(file.kind is FileKind.TEST for file in files)
    reasons = [
        Reason("definitions_removed", removed, _points(0.5, removed / 3),
            f"{_of(removed, 'definition')} removed: whatever uses them breaks."),
        Reason("definitions_changed", changed, _points(0.4, changed / 15),
            f"{_of(changed, 'definition')} changed."),
        Reason("removed_but_used", still_used, _points(0.6, still_used / 2),
            f"{_of(still_used, 'place')} elsewhere {_use(still_used)} the name of a removed"
            " definition."),
        Reason("users", len(users), _points(0.4, using / 6),
            f"{_of(len(users), 'place')} in {_of(using, 'other file')} {_use(len(users))} what"
            " changed."),
        Reason("directories", directories, _points(0.3, max(directories - 1, 0) / 5),
            f"The change is spread over {_of(directories, 'directory', 'directories')}."),
        Reason("companions_left_alone", len(expected), _points(0.4, sum(expected) / 2),
            f"{_of(len(expected), 'file')} left alone that at least half of the earlier commits to"
            " a changed file touched."),
        Reason("busiest_file", touched,
            _points(0.2, touched / commits * 10 if commits >= MIN_HISTORY else 0.0),
            f"{path} was touched by {touched} of the last {commits} commits."),
        Reason("no_test_changed", code, 0.2 if code and not is_tested else 0.0,
            f"{_of(code, 'file')} of code changed, and no test did."),
    ]  # fmt: skip
    shown = [reason for reason in reasons if reason.points >= 0.01]
    return sorted(shown, key=lambda reason: -reason.points)


def _points(most: float, amount: float) -> float:
    """Points that grow with an amount, ever more slowly, towards a maximum."""
    return round(most * (1 - exp(-amount)), 2)


def _use(count: int) -> str:
    return "uses" if count == 1 else "use"


def _of(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _product_symbols(files: Iterable[Difference]) -> list[SymbolChanges]:
    return [file.symbols for file in files if file.kind in PRODUCT and file.symbols is not None]


def _places(files: Sequence[Difference], likely: Sequence[LikelyFile]) -> list[Place]:
    """Where to look first: files that were left alone, then what was removed, then the longest
    definitions that changed."""
    symbols = _product_symbols(files)
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
