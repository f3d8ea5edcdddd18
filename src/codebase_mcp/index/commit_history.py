"""How is the stored history updated to the newest commits of a repository, and made searchable?

Commits never change, so their hashes are compared, and only commits that are not stored yet are
read: after a commit or a pull the new commits, after a rebase the rewritten commits, after a reset
none.

Searches find a commit by words and vectors, which the primary model makes from the stored commit.
They are made for every commit that lacks them: new commits, those of an earlier version or another
model, and those of which a path was erased.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.naming import Project, index_lock
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.commits import load_refs
from codebase_mcp.index.prepare import bm25_weights, strongest
from codebase_mcp.index.store import WRITE_LOCK
from codebase_mcp.secrets.masking import SECRETS_VERSION, mask
from codebase_mcp.source.commit_log import (
    Commit,
    Tip,
    branches_by_commit,
    find_tip,
    list_commits,
    read_commits,
)
from codebase_mcp.telemetry.stopwatch import step
from codebase_mcp.text.counting import Lexicon, term_table
from codebase_mcp.text.tokens import TOKENS_VERSION

_SQL = load_queries("codebase_mcp.index", "commit_history.sql")

# How many commits are read, stored or embedded at once, to limit memory.
_BATCH = 500

# Increment when the stored terms or vectors of a commit change.
_TEXTS_VERSION = 1

# The length, in terms, of a typical commit: a subject, some sentences, the words of some paths.
_AVERAGE_TERMS = 40.0

# The rest of a long message, or of a list of paths, says little about the purpose of a commit.
MAX_CHARS = 3_000
MAX_PATHS = 20

# Lines for programs and of courtesy, which every commit of a project may have.
_TRAILER = re.compile(r"^(?:[A-Za-z]+(?:-[A-Za-z]+)*-(?:by|id|on|to)|git-svn-id): .*$", re.M | re.I)
_SEPARATORS = re.compile(r"[/._\-\s]+")


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored history of a repository: its depth, the fingerprint of its tip, and its size.

    ``refs`` are the names that searches used for commits, the last used first.
    """

    depth: int
    tip: str | None
    commits: int
    refs: tuple[str, ...]

    def is_of(self, depth: int, tip: Tip | None) -> bool:
        """Whether the history was read with this depth and this tip."""
        return self.depth == depth and self.tip == (None if tip is None else tip.fingerprint)


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """A repository of a project, and how many of its commits to keep."""

    repository_id: UUID
    root: Path
    name: str
    depth: int


async def load_histories(tx: Transaction) -> list[HistoryFacts]:
    """The repositories of a project, by root."""
    rows = await tx.fetch_all(_SQL["histories"])
    return [HistoryFacts(id_, Path(root), name, depth) for id_, root, name, depth in rows]


async def refresh_history(
    database: Database,
    model: Model,
    project: Project,
    repository_id: UUID,
    root: Path,
    *,
    depth: int | None = None,
    wait: bool = True,
    renew: bool = False,
) -> int:
    """Store exactly the newest ``depth`` commits of HEAD and the indexed branches.

    Returns their number. ``model`` is the primary model. With ``renew`` words and vectors of an
    earlier version are replaced too, and secrets in its messages are masked.

    Without ``depth`` the stored depth is used. If neither HEAD, nor a branch, nor the depth has
    changed, nothing is read. A directory outside git and a repository that is not indexed have no
    commits.

    Raises:
        IndexingFailed: git cannot read the history, or without ``wait``, an index run is in
            progress; the stored history stays.
        DatabaseUnavailable: the database is unavailable.
    """
    async with database.transaction(project, readonly=True) as tx:
        stored = await _stored(tx, repository_id)
        renew = renew and bool(stored and stored.commits) and await lacks_texts(tx, model)
        is_locked = not wait and bool(await tx.held([index_lock(repository_id)]))
    if stored is None:
        return 0
    depth = stored.depth if depth is None else depth
    if depth == stored.depth == 0:
        return 0
    tip = await _tip(root, depth, stored.refs)
    if stored.is_of(depth, tip) and not renew:
        return stored.commits
    if is_locked:
        raise IndexingFailed("an index run is in progress")
    lock = database.session_locks(project, [index_lock(repository_id)])
    async with step("history"), lock, database.transaction(project) as tx:
        # The previous holder of the lock may have updated the history, or removed the repository.
        stored = await _stored(tx, repository_id)
        if stored is None:
            return 0
        tip = await _tip(root, depth, stored.refs)
        count = stored.commits
        if not stored.is_of(depth, tip):
            count = await _make_equal(tx, repository_id, tip, depth)
        await make_searchable(tx, model)
        return count


async def _stored(tx: Transaction, repository_id: UUID) -> _Stored | None:
    row = await tx.fetch_one(_SQL["stored"], repository_id=repository_id)
    if row is None:
        return None
    refs = tuple(ref.name for ref in await load_refs(tx, repository_id))
    return _Stored(*(*row, refs))


async def _tip(root: Path, depth: int, refs: Sequence[str]) -> Tip | None:
    return await asyncio.to_thread(find_tip, root, refs) if depth else None


async def _make_equal(tx: Transaction, repository_id: UUID, tip: Tip | None, depth: int) -> int:
    """Store the commits from a tip on, and forget all others; returns their number."""
    scope = {"repository_id": repository_id}
    await tx.execute(_SQL["forget_uncertain"], **scope)
    rows = await tx.fetch_all(_SQL["known"], **scope)
    stored: dict[str, int] = {row[0]: row[1] for row in rows}
    listed: list[str] = []
    positions: dict[str, int] = {}
    branches: dict[str, list[str]] = {}
    if tip is not None:
        listed = await asyncio.to_thread(list_commits, tip, depth)
        branches = await asyncio.to_thread(branches_by_commit, tip, depth)
        positions = assign_positions(listed, stored)
        new = [commit for commit in listed if commit not in stored]
        for first in range(0, len(new), _BATCH):
            await _add(tx, repository_id, tip, new[first : first + _BATCH], positions)
    await tx.lock(WRITE_LOCK)
    if gone := [commit for commit in stored if commit not in positions]:
        await tx.execute(_SQL["forget"], **scope, hashes=gone)
    if moved := [c for c in listed if c in stored and stored[c] != positions[c]]:
        moved_to = [positions[commit] for commit in moved]
        await tx.execute(_SQL["move"], **scope, hashes=moved, positions=moved_to)
    before = {row[0]: row[2] for row in rows}
    if renamed := [c for c in listed if branches.get(c, []) != before.get(c, [])]:
        commits = [{"hash": commit, "branches": branches.get(commit, [])} for commit in renamed]
        await tx.execute(_SQL["name_branches"], **scope, commits=json.dumps(commits))
    fingerprint = None if tip is None else tip.fingerprint
    await tx.execute(_SQL["end"], **scope, depth=depth, tip=fingerprint)
    return len(listed)


async def _add(
    tx: Transaction,
    repository_id: UUID,
    tip: Tip,
    hashes: Sequence[str],
    positions: Mapping[str, int],
) -> None:
    commits = await asyncio.to_thread(read_commits, tip, hashes)
    content = [_row(commit) | {"position": positions[commit.hash]} for commit in commits]
    await tx.execute(_SQL["add"], repository_id=repository_id, commits=json.dumps(content))


def _row(commit: Commit) -> dict[str, object]:
    return {
        "hash": commit.hash,
        "author_name": commit.author_name,
        "author_email": commit.author_email,
        "authored_at": commit.authored_at,
        "message": commit.message,
        "paths": commit.paths,
        "path_added": [change.added for change in commit.changes],
        "path_removed": [change.removed for change in commit.changes],
        "path_former": [change.former for change in commit.changes],
        "paths_total": commit.paths_total,
        "lines_added": commit.added,
        "lines_removed": commit.removed,
        "is_merge": commit.is_merge,
    }


def assign_positions(listed: Sequence[str], stored: Mapping[str, int]) -> dict[str, int]:
    """Positions that increase from the last commit of a list to its first.

    Stored positions are kept where possible: new commits before or after them move none of them.
    """
    oldest_first = listed[::-1]
    behind = next((n for n, commit in enumerate(oldest_first) if commit in stored), None)
    last = -1 if behind is None else stored[oldest_first[behind]] - behind - 1
    positions = {}
    for commit in oldest_first:
        position = stored.get(commit, last)
        last = position if position > last else last + 1
        positions[commit] = last
    return positions


def commit_text(message: str, paths: Sequence[str]) -> tuple[str, str]:
    """The subject of a commit, and its message without trailers with each word of its paths."""
    said = _TRAILER.sub("", message[:MAX_CHARS]).strip()
    words = dict.fromkeys(
        word for path in paths[:MAX_PATHS] for word in _SEPARATORS.split(path) if word
    )
    return said.partition("\n")[0], "\n".join(filter(None, [said, " ".join(words)]))


def texts_version(model: Model) -> str:
    """The version of the words and vectors of commits; vectors of other versions do not compare."""
    return f"{_TEXTS_VERSION}.{TOKENS_VERSION}.{SECRETS_VERSION}-{model.facts.fingerprint}"


async def lacks_texts(tx: Transaction, model: Model) -> bool:
    """Whether a stored commit has no words and vectors of this model."""
    return bool(await tx.fetch_all(_SQL["missing"], model=texts_version(model), limit=1))


async def make_searchable(tx: Transaction, model: Model) -> None:
    """Give every stored commit of a project its words and vectors."""
    version = texts_version(model)
    while rows := await tx.fetch_all(_SQL["missing"], model=version, limit=_BATCH):
        # An earlier version stored messages with their secrets.
        messages = [mask(message).text for _, _, message, _ in rows]
        texts = [commit_text(message, row[3]) for message, row in zip(messages, rows, strict=True)]
        subjects, wholes = zip(*texts, strict=True)
        vectors = await model.embedder.embed_passages([*wholes, *subjects])
        columns = await asyncio.to_thread(_columns, wholes, vectors)
        commits = {"repository_ids": [row[0] for row in rows], "hashes": [row[1] for row in rows]}
        await tx.execute(_SQL["mask"], **commits, messages=messages)
        await tx.execute(_SQL["store"], model=version, **commits, **columns)


def _columns(texts: Sequence[str], vectors: Vectors) -> dict[str, list[str]]:
    """The columns of some commits, in PostgreSQL's text syntax."""
    counts = term_table().count(Lexicon().bags(texts))
    weights = bm25_weights(counts, _AVERAGE_TERMS)
    terms, lex = [], []
    for row in range(len(texts)):
        span = slice(counts.starts[row], counts.starts[row + 1])
        items, of_items = strongest(counts.items[span], weights[span])
        terms.append(array_literal(items.tolist()))
        lex.append(sparse_literal(dict(zip(items.tolist(), of_items.tolist(), strict=True))))
    literals = [dense_literal(vector) for vector in vectors]
    dense, subject = literals[: len(texts)], literals[len(texts) :]
    return {"terms": terms, "lex": lex, "dense": dense, "subjects": subject}
