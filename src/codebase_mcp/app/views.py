"""Which snapshots does a ref mean? Commits become searchable when they are asked for.

A ref is a branch, a tag, a commit, or ``worktree``, the files on disk. A range is ``A..B``, or
``A...B`` from the merge base of both. Git resolves a ref at most once a second. A commit that is
not indexed yet is indexed first, as far as a time budget allows; the rest follows in the
background.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from codebase_mcp.app.freshness.trees import Tree, load_trees
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import (
    CodebaseError,
    IndexingFailed,
    InvalidInput,
    ProjectNotFound,
    SnapshotDropped,
)
from codebase_mcp.index.commits import (
    StoredCommit,
    forget_refs,
    keep_only,
    load_commit,
    load_refs,
    remember_ref,
)
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.changes import Range
from codebase_mcp.search.scope import ScopedSnapshot, load_snapshots
from codebase_mcp.search.search import Answer, SearchedSnapshots
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import matching_branches, merge_base, resolve_commit
from codebase_mcp.source.selection import Selection
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step

if TYPE_CHECKING:
    from codebase_mcp.app.freshness.verified_search import IndexFreshness
    from codebase_mcp.index.build import RunResult
    from codebase_mcp.index.commits import CommitIndexer, CommitRun

log = logging.getLogger(__name__)

# A resolved ref is valid for this time.
FRESH_S = 1.0

# A search waits this long for a commit to be indexed.
BUDGET_S = 10.0

# The largest number of branches that are kept searchable.
MAX_KEPT = 1_000

# The largest number of refs of a search.
MAX_REFS = 8

# The ref for changes that are not committed yet.
UNCOMMITTED = "uncommitted"

_RULE = (
    f"worktree, a branch, a tag or a commit; up to {MAX_REFS}, separated by spaces;"
    f" or a range A...B, or {UNCOMMITTED}"
)
_RANGE = re.compile(r"(?P<old>\S*?)(?P<dots>\.{2,3})(?P<new>\S*)")


Search = Callable[[SearchedSnapshots], Awaitable["tuple[Answer, IndexFreshness]"]]


@dataclass(frozen=True, slots=True)
class ChosenViews:
    """The snapshots that refs mean, or the changes of a range; ``names`` maps commits to refs.

    ``chosen_at`` is a monotonic time.
    """

    snapshot_ids: tuple[int, ...]
    names: Mapping[str, str]
    ranges: tuple[Range, ...] = ()
    chosen_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit of a repository, and the ref that was resolved to it.

    ``repository`` is None if it is not on this machine.
    """

    tree: Tree
    repository: GitRepository | None
    name: str
    hash: str


class Views:
    """Finds the snapshots of refs, and indexes missing commits.

    ``indexer`` is called when a commit has to be indexed; ``selection_of`` says which files of a
    repository are listed. With ``only_once`` a search waits for commits without a limit.
    """

    def __init__(
        self,
        database: Database,
        indexer: Callable[[], CommitIndexer],
        selection_of: Callable[[Path], Selection],
        *,
        only_once: bool = False,
    ) -> None:
        self._database = database
        self._indexer = indexer
        self._selection_of = selection_of
        self._only_once = only_once
        self._cache: dict[tuple[str, str, frozenset[UUID] | None], ChosenViews] = {}
        self._runs: dict[tuple[str, UUID, str], asyncio.Task[CommitRun]] = {}

    async def close(self) -> None:
        """Cancel the runs of commits; the next search continues them."""
        tasks = list(self._runs.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self) -> None:
        """Ask git again with the next search."""
        self._cache.clear()

    async def follow(self, project: Project, run: RunResult, patterns: Sequence[str]) -> RunResult:
        """After an index run update the branches that are kept.

        An error becomes a notice of the run.
        """
        try:
            await self.refresh(project, run.repository_id, run.root, patterns)
        except (IndexingFailed, InvalidInput) as error:
            return run.with_notice(f"Not all branches could be indexed: {error.message}")
        return run

    async def search(
        self,
        project: Project,
        ref: str,
        snapshots: SearchedSnapshots,
        search: Search,
        *,
        only: frozenset[UUID] | None = None,
    ) -> tuple[Answer, IndexFreshness, Mapping[str, str]]:
        """Search the snapshots of a ref.

        ``only`` are the ids of the repositories to search; None means all of the project. The third
        value maps commits to their refs.

        Raises:
            SnapshotDropped: they were dropped meanwhile.
            InvalidInput, IndexingFailed, DatabaseUnavailable: as ``choose``.
        """
        with step("commits"):
            chosen = await self.choose(project, ref, only)
        ids, ranges = chosen.snapshot_ids, chosen.ranges
        answer, truth = await search(replace(snapshots, ids=ids, ranges=ranges))
        self._require(ids, answer.snapshots)
        return answer, truth, chosen.names

    async def snapshots(
        self, tx: Transaction, ids: Collection[int] | None
    ) -> tuple[ScopedSnapshot, ...]:
        """Some snapshots, or those of the files on disk.

        Raises:
            SnapshotDropped: one of them is gone.
            ProjectNotFound: nothing is indexed.
        """
        snapshots = await load_snapshots(tx, ids)
        if not snapshots and ids is None:
            raise nothing_indexed()
        self._require(ids or (), snapshots)
        return snapshots

    def _require(self, ids: Collection[int], snapshots: Iterable[ScopedSnapshot]) -> None:
        """Make sure that all chosen snapshots were there; git is asked again if not."""
        if not {snapshot.id for snapshot in snapshots}.issuperset(ids):
            self.forget()
            raise SnapshotDropped

    async def choose(
        self, project: Project, ref: str, only: frozenset[UUID] | None = None
    ) -> ChosenViews:
        """The snapshots of some refs, separated by spaces, in all repositories or in ``only``.

        Raises:
            InvalidInput: no repository has such a ref, or there are too many refs.
            ProjectNotFound: the project has no repository.
            IndexingFailed, DatabaseUnavailable: a commit could not be indexed.
            SnapshotDropped: a commit was dropped meanwhile, as by a rebuild.
        """
        key = project.schema_name, ref, only
        cached = self._cache.get(key)
        if cached is not None and time.monotonic() - cached.chosen_at < FRESH_S:
            return cached
        trees = await self._trees(project, only)
        if not trees and only is None:
            raise nothing_indexed()
        bounds = _RANGE.fullmatch("HEAD..worktree" if ref == UNCOMMITTED else ref)
        if bounds is not None:
            views, is_complete = await self._choose_range(project, trees, bounds)
        else:
            views, is_complete = await self._choose_states(project, trees, ref)
        if is_complete:
            oldest = time.monotonic() - FRESH_S
            self._cache = {k: c for k, c in self._cache.items() if c.chosen_at > oldest}
            self._cache[key] = views
        return views

    async def choose_one(
        self, project: Project, ref: str, only: frozenset[UUID] | None = None
    ) -> ChosenViews:
        """The snapshots of a single branch, tag or commit, one of each repository that has it.

        Raises:
            InvalidInput: it names several states, or a change.
            ProjectNotFound, IndexingFailed, DatabaseUnavailable, SnapshotDropped: as ``choose``.
        """
        if " " not in ref and ".." not in ref:
            chosen = await self.choose(project, ref, only)
            if not chosen.names:
                raise nothing_indexed()
            if not chosen.snapshot_ids:
                raise IndexingFailed(
                    f"{ref} is still being indexed", hint="Ask again in some seconds."
                )
            if not chosen.ranges:
                return chosen
        rule = "one branch, tag or commit"
        raise InvalidInput.of("ref", ref, f"{ref!r} names several states", rule=rule)

    async def _trees(self, project: Project, only: frozenset[UUID] | None) -> list[Tree]:
        async with self._database.transaction(project, readonly=True) as tx:
            trees = await load_trees(tx)
        return [tree for tree in trees if only is None or tree.repository_id in only]

    async def _choose_states(
        self, project: Project, trees: Sequence[Tree], ref: str
    ) -> tuple[ChosenViews, bool]:
        """The snapshots of some refs, and whether all are complete."""
        names = list(dict.fromkeys(ref.split()))
        if not 0 < len(names) <= MAX_REFS:
            message = f"ref names {len(names)} states"
            raise InvalidInput.of("ref", ref, message, rule=_RULE)
        of_commits = [name for name in names if name != WORKTREE]
        commits = await self._resolve_names(project, trees, of_commits)
        stored = await self._commits(project, commits)
        ids = [tree.snapshot_id for tree in trees] if WORKTREE in names else []
        ids += [commit.snapshot_id for commit in stored if commit is not None]
        views = ChosenViews(tuple(dict.fromkeys(ids)), {c.hash: c.name for c in commits})
        return views, all(commit is not None and commit.is_complete for commit in stored)

    async def _choose_range(
        self, project: Project, trees: Sequence[Tree], bounds: re.Match[str]
    ) -> tuple[ChosenViews, bool]:
        """The snapshots before and after a change, and whether no repository is missing.

        Repositories without one of the two commits are left out.
        """
        old, dots, new = (bounds[part] for part in ("old", "dots", "new"))
        ranges: list[Range] = []
        names: dict[str, str] = {}
        error: CodebaseError | None = None
        is_complete = True
        for tree in trees:
            try:
                before, after = await self._bounds(
                    project, tree, old or "HEAD", new or "HEAD", dots
                )
            except InvalidInput as refused:
                error = error or refused
                continue
            commits = [commit for commit in (before, after) if commit is not None]
            stored = await self._commits(project, commits)
            ids = [c.snapshot_id for c in stored if c is not None and c.is_complete]
            if len(ids) < len(commits):  # half a change would show the whole second snapshot
                is_complete = False
                error = IndexingFailed(
                    f"{bounds[0]} is still being indexed", hint="Search again in a few seconds."
                )
                continue
            names |= {commit.hash: commit.name for commit in commits}
            ranges.append(Range(*ids, *([tree.snapshot_id] if after is None else [])))
        if error is not None and not ranges:
            raise error
        ids = [snapshot for change in ranges for snapshot in (change.old, change.new)]
        return ChosenViews(tuple(dict.fromkeys(ids)), names, tuple(ranges)), is_complete

    async def _bounds(
        self, project: Project, tree: Tree, old: str, new: str, dots: str
    ) -> tuple[_Commit, _Commit | None]:
        """The commits before and after a change; None means the files on disk."""
        before = await self._resolved(project, tree, old)
        after = None if new == WORKTREE else await self._resolved(project, tree, new)
        if dots == "..." and before.repository is not None:
            tip = await self._resolved(project, tree, "HEAD") if after is None else after
            base = await asyncio.to_thread(merge_base, before.repository, before.hash, tip.hash)
            if base is None:
                message = f"{old!r} and {new!r} have no commit in common"
                raise InvalidInput.of(
                    "ref", f"{old}...{new}", message, rule=_RULE, hint=f"Try {old}..{new}."
                )
            before = replace(before, hash=base)
        return before, after

    async def index(
        self,
        project: Project,
        repository_id: UUID,
        root: Path,
        names: Sequence[str],
        *,
        is_kept: bool = False,
        gone: Sequence[str] = (),
    ) -> dict[str, CommitRun]:
        """Index the commits of some refs of a repository; with ``is_kept`` they stay searchable.

        Names that are ``gone`` are forgotten, as are names that were not used for long.

        Raises:
            InvalidInput: there is no such ref.
            IndexingFailed: a commit could not be indexed.
        """
        async with self._database.transaction(project, readonly=True) as tx:
            tree = next(t for t in await load_trees(tx) if t.repository_id == repository_id)
        repository, commits = await asyncio.to_thread(resolve_branches, root, names)
        runs = {}
        for name, commit in commits.items():
            async with self._database.transaction(project) as tx:
                await remember_ref(tx, repository_id, name, commit, is_kept=is_kept)
            runs[name] = await self._run(project, _Commit(tree, repository, name, commit))
        async with self._database.transaction(project) as tx:
            await forget_refs(tx, repository_id, gone)
        return runs

    async def refresh(
        self, project: Project, repository_id: UUID, root: Path, patterns: Sequence[str]
    ) -> None:
        """Update the branches that are kept, and forget refs that vanished.

        The newest branches that match a pattern are kept, at most ``MAX_KEPT``.

        Raises:
            IndexingFailed: git cannot list the refs, or a commit could not be indexed.
        """
        async with self._database.transaction(project, readonly=True) as tx:
            stored = await load_refs(tx, repository_id)
        if not patterns and not stored:
            return
        repository = await asyncio.to_thread(git_repository_at, root)
        if repository is None:
            return
        matching = await asyncio.to_thread(matching_branches, repository, patterns)
        kept = matching[:MAX_KEPT]
        gone = [ref.name for ref in stored if not await _exists(repository, ref.name)]
        async with self._database.transaction(project) as tx:
            await keep_only(tx, repository_id, kept)
        await self.index(project, repository_id, root, kept, is_kept=True, gone=gone)

    async def _resolve_names(
        self, project: Project, trees: Sequence[Tree], names: Sequence[str]
    ) -> list[_Commit]:
        """The commits of some names; each name must be a ref of some repository."""
        commits: list[_Commit] = []
        for name in names:
            errors: list[InvalidInput] = []
            for tree in trees:
                try:
                    commits.append(await self._resolved(project, tree, name))
                except InvalidInput as error:
                    errors.append(error)
            if trees and len(errors) == len(trees):
                raise errors[0]
        return commits

    async def _resolved(self, project: Project, tree: Tree, name: str) -> _Commit:
        repository = await asyncio.to_thread(git_repository_at, tree.root)
        if repository is not None:
            commit = await asyncio.to_thread(resolve_commit, repository, name)
            return _Commit(tree, repository, name, commit)
        # The files are not on this machine: only indexed commits can be searched.
        async with self._database.transaction(project, readonly=True) as tx:
            stored = await load_refs(tx, tree.repository_id)
        for ref in stored:
            if name in (ref.name, ref.commit):
                return _Commit(tree, None, name, ref.commit)
        indexed = ", ".join(ref.name for ref in stored[:MAX_REFS])
        raise InvalidInput.of(
            "ref",
            name,
            f"{tree.root} is not a git repository on this machine, and {name!r} was not indexed",
            rule=_RULE,
            hint=f"Indexed: {indexed}." if indexed else "Leave ref out to search the files.",
        )

    async def _commits(
        self, project: Project, commits: Sequence[_Commit]
    ) -> list[StoredCommit | None]:
        """The stored commits, after missing commits have been indexed, if time allows."""
        async with self._database.transaction(project) as tx:
            # In a fixed order, so that two searches cannot deadlock.
            for commit in sorted(commits, key=lambda c: (c.tree.repository_id, c.name)):
                await remember_ref(tx, commit.tree.repository_id, commit.name, commit.hash)
            stored = await _load(tx, commits)
        tasks = [
            self._start(project, commit)
            for commit, existing in zip(commits, stored, strict=True)
            if commit.repository is not None and not (existing and existing.is_complete)
        ]
        if not tasks:
            return stored
        done, going = await asyncio.wait(tasks, timeout=None if self._only_once else BUDGET_S)
        for task in done:
            task.result()
        async with self._database.transaction(project, readonly=True) as tx:
            stored = await _load(tx, commits)
        for commit, existing in zip(commits, stored, strict=True):
            if existing is None and commit.repository is not None and not going:
                raise SnapshotDropped
        return stored

    def _start(self, project: Project, commit: _Commit) -> asyncio.Task[CommitRun]:
        """The task that indexes a commit; several searches may wait for the same."""
        key = project.schema_name, commit.tree.repository_id, commit.hash
        task = self._runs.get(key)
        if task is None:
            with no_stopwatch():
                task = self._runs[key] = asyncio.create_task(self._run_for_search(project, commit))
            task.add_done_callback(lambda ended: self._ended(key, ended))
        return task

    def _ended(self, key: tuple[str, UUID, str], task: asyncio.Task[CommitRun]) -> None:
        self._runs.pop(key, None)
        if not task.cancelled() and isinstance(error := task.exception(), CodebaseError):
            log.warning("Cannot index commit %s: %s", key[2], error.message)

    async def _run_for_search(self, project: Project, commit: _Commit) -> CommitRun:
        run = await self._run(project, commit)
        async with self._database.transaction(project) as tx:
            await forget_refs(tx, commit.tree.repository_id)
        return run

    async def _run(self, project: Project, commit: _Commit) -> CommitRun:
        assert commit.repository is not None
        tree = commit.tree
        selection = await asyncio.to_thread(self._selection_of, tree.root)
        selection = selection.ignoring(tree.root, tree.ignore_patterns)
        return await self._indexer().run(
            project, tree.repository_id, commit.repository, commit.hash, selection
        )


def resolve_branches(root: Path, names: Sequence[str]) -> tuple[GitRepository, dict[str, str]]:
    """The git repository at a directory, and the commits that some of its refs mean.

    Raises:
        InvalidInput: it is in no repository, or there is no such ref.
    """
    repository = git_repository_at(root)
    if repository is None:
        message = f"{root} is not in a git repository"
        raise InvalidInput.of("branches", list(names), message, rule="branches of a repository")
    return repository, {name: resolve_commit(repository, name, field="branches") for name in names}


async def _load(tx: Transaction, commits: Sequence[_Commit]) -> list[StoredCommit | None]:
    return [await load_commit(tx, c.tree.repository_id, c.hash) for c in commits]


async def _exists(repository: GitRepository, name: str) -> bool:
    try:
        await asyncio.to_thread(resolve_commit, repository, name)
    except InvalidInput:
        return False
    return True


def nothing_indexed() -> ProjectNotFound:
    """The error for a project that has none of the repositories of a call."""
    return ProjectNotFound("Nothing is indexed in the project", hint="Call index_repository first.")
