"""Whatever happened to a repository and its index: each view holds, and answers, what a fresh index
of that state does.

``VIEW_WALKS=200`` in the environment takes that many walks, with another seed each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.integration.indexes import check_frequencies

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.views import Views
from codebase_mcp.database.connection import Embedded
from codebase_mcp.errors import NotFound, ProjectNotFound
from codebase_mcp.index import batches
from codebase_mcp.index.commits import CommitIndexer, CommitRun
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings

Outcome = TypeVar("Outcome")
Files = list[tuple[Any, ...]]
Answers = list[list[tuple[str, int, float]]]

WALKS = int(os.environ.get("VIEW_WALKS", "0"))

COMPARED_EVERY = 10  # steps

PATHS = ("a.py", "core/b.py", "core/c.py", "core/test/d.py", "lib/e.ts", "docs/f.md")
# Most files are the same everywhere, so that snapshots of commits differ from others.
SAME = {
    f"same/part_{n}.py": f"def part_{n}(whole):\n    return whole.parts[{n}]\n" for n in range(12)
}
BRANCHES = ("main", "one", "two", "kept", "work")
TAGS = ("v1", "v2")

SEVERAL = "\n\n".join(
    f"def step_{n}(first, second):\n    # adds {n} to both\n    return first + second + {n}\n"
    for n in range(12)
)
CONTENTS = (
    "def count_stripes(zebra):\n    return zebra.stripes\n",
    "def count_spots(leopard):\n    # spots, not stripes\n    return len(leopard.spots)\n",
    "class Retry:\n    def backoff(self, attempt):\n        return 2 ** attempt\n",
    "# Zebras\n\nHow stripes are counted, and why a failed count is retried.\n",
    SEVERAL,
    SEVERAL.replace("adds", "subtracts zebras"),
    "",
    "\0binary\0",
)
ATTRIBUTES = ("", "*.py linguist-generated\n", "core/** linguist-vendored\nlib/* -text\n")
IGNORED = ("", "*.ts\n", "core/c.py\ndocs/\n")

QUERIES = ("count the stripes of a zebra", "backoff", "how are failed attempts retried", "step_3")

FILES = """
    SELECT r.root, f.path, encode(b.hash, 'hex'), f.size, f.language, f.kind, f.extension,
           f.name_terms, (b.counted_for IS NOT NULL) >= s.active
    FROM view_file AS f
    JOIN blob AS b ON b.id = f.blob_id
    JOIN snapshot AS s ON s.id = f.snapshot_id
    JOIN repository AS r ON r.id = s.repository_id
    WHERE s.view = %(view)s
    ORDER BY r.root, f.path
"""


class Stopped(Exception):
    """Ends a run in the middle."""


@dataclass(frozen=True)
class StoppedIndexer(CommitIndexer):
    """Indexes a commit until it has reported some times."""

    after: int
    by_cancelling: bool

    async def run(self, *arguments: Any, **_: Any) -> CommitRun:
        """Index, as far as it goes."""
        task = asyncio.current_task()
        assert task is not None
        progress = stop_after(self.after, task if self.by_cancelling else None)
        return await CommitIndexer.run(self, *arguments, progress=progress)


def stop_after(reports: int, task: asyncio.Task[Any] | None) -> Callable[[RunProgress], None]:
    """Cancels a task after so many reports of progress, or raises."""
    left = reports

    def count(_: RunProgress) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            if task is None:
                raise Stopped
            task.cancel()

    return count


class Walk(RuleBasedStateMachine):
    """Work in a repository, and the use of its index, of which some breaks off."""

    data_dir: Path
    fresh: dict[Any, tuple[Files, Answers]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cbm-walk-")))
        self.root = self.folder / "repo"
        self.linked = self.folder / "linked"
        self.project_id = f"test-{uuid.uuid4().hex[:12]}"
        self.steps = 0
        self.commits: list[str] = []
        self.purged: dict[UUID | int, set[str]] = {}
        self.runner = asyncio.Runner()
        chosen = Settings.load({"CODEBASE_MCP_DATA_DIR": str(self.data_dir)})
        chosen = replace(chosen, git_branches=("kept",), workers=1, check_ms=30_000)
        self.app = self.run(App.open(chosen))
        self.by_database = self.run(App.open(replace(chosen, search_memory_mb=0)))
        self.pool = PreparerPool(1)

    @initialize()
    def begin(self) -> None:
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        for path, content in [*SAME.items(), *zip(PATHS, CONTENTS, strict=False)]:
            self.write(path, content)
        self.commit()
        self.write(PATHS[0], CONTENTS[4])
        self.git("checkout", "-q", "-b", "one")
        self.commit()
        self.run(self.app.index(self.root, self.project_id))

    def teardown(self) -> None:
        for app in (self.by_database, self.app):
            with contextlib.suppress(ProjectNotFound):  # the other one dropped it
                self.run(app.drop_project(self.project_id))
            self.run(app.close())
        self.pool.close()
        self.runner.close()
        shutil.rmtree(self.folder)

    # What happens to the repository.

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def edit(self, path: str, content: str) -> None:
        self.write(path, content)

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def edit_and_commit(self, path: str, content: str) -> None:
        self.write(path, content)
        self.commit()

    @rule(folder=st.sampled_from(("", "core/")), rules=st.sampled_from(ATTRIBUTES))
    def set_attributes(self, folder: str, rules: str) -> None:
        self.edit_and_commit(f"{folder}.gitattributes", rules)

    @rule(name=st.sampled_from((".gitignore", ".mcpignore")), rules=st.sampled_from(IGNORED))
    def ignore(self, name: str, rules: str) -> None:
        self.edit_and_commit(name, rules)

    @rule(path=st.sampled_from(PATHS))
    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    @rule(old=st.sampled_from(PATHS), new=st.sampled_from(PATHS))
    def rename(self, old: str, new: str) -> None:
        if (self.root / old).exists():
            self.write(new, "")
            (self.root / old).rename(self.root / new)

    @rule(branch=st.sampled_from(BRANCHES), is_committed=st.booleans())
    def check_out(self, branch: str, is_committed: bool) -> None:
        if is_committed:
            self.commit()
        if branch in self.refs("heads"):
            self.git("checkout", "-q", "-f", "--ignore-other-worktrees", branch)
        else:
            self.git("checkout", "-q", "-b", branch)

    @rule(branch=st.sampled_from(BRANCHES), data=st.data())
    def force_branch(self, branch: str, data: st.DataObject) -> None:
        """Another commit has the name, as after a forced push; or a new branch begins."""
        if branch not in self.checked_out():
            self.git("branch", "-q", "-f", branch, self.draw_commit(data))

    @rule(branch=st.sampled_from(BRANCHES))
    def delete_branch(self, branch: str) -> None:
        if branch in self.refs("heads") and branch not in self.checked_out():
            self.git("branch", "-q", "-D", branch)

    @rule(tag=st.sampled_from(TAGS), is_annotated=st.booleans(), data=st.data())
    def set_tag(self, tag: str, is_annotated: bool, data: st.DataObject) -> None:
        options = ["-a", "-m", "tag"] if is_annotated else []
        self.git("tag", "-f", *options, tag, self.draw_commit(data))

    @rule(branch=st.sampled_from(BRANCHES))
    def rebase(self, branch: str) -> None:
        self.commit()
        if branch in self.refs("heads"):
            try:
                self.git("rebase", "-q", "-X", "theirs", branch)
            except subprocess.CalledProcessError:
                self.git("rebase", "--abort")

    @rule(data=st.data())
    def link_worktree(self, data: st.DataObject) -> None:
        if not self.linked.exists():
            commit = self.draw_commit(data)
            self.git("worktree", "add", "-q", "--detach", str(self.linked), commit)
            self.run(self.app.index(self.linked, self.project_id))

    @precondition(lambda self: self.linked.exists())
    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def edit_linked_worktree(self, path: str, content: str) -> None:
        self.write(str(self.linked / path), content)

    @precondition(lambda self: self.linked.exists())
    @rule()
    def remove_linked_worktree(self) -> None:
        self.git("worktree", "remove", "--force", str(self.linked))
        self.run(self.app.remove(self.linked, self.project_id))

    # What happens to the index.

    @rule(force=st.booleans())
    def index(self, force: bool) -> None:
        self.run(self.app.index(self.root, self.project_id, force_reindex=force))

    @rule(path=st.sampled_from(PATHS))
    def update(self, path: str) -> None:
        """As a watcher does."""
        self.run(self.app.update(self.root, [path], self.project_id))

    @rule(force=st.booleans(), after=st.integers(1, 4))
    def stop_indexing(self, force: bool, after: int) -> None:
        stop = stop_after(after, None)
        index = self.app.index(self.root, self.project_id, force_reindex=force, progress=stop)
        with contextlib.suppress(Stopped), one_file_a_batch():
            self.run(index)

    @rule(after=st.integers(1, 4), by_cancelling=st.booleans(), then=st.booleans(), data=st.data())
    def stop_indexing_a_commit(
        self, after: int, by_cancelling: bool, then: bool, data: st.DataObject
    ) -> None:
        """Often somebody checks out the branch that is being indexed, or has just left it."""
        ref = data.draw(st.sampled_from(["work", *self.refs("heads", "tags")]))
        if ref == "work":
            self.leave_work_behind()
        self.run(self.stopped(ref, after, by_cancelling=by_cancelling))
        if then:
            self.git("checkout", "-q", "-f", "--ignore-other-worktrees", ref)
            self.run(self.app.index(self.root, self.project_id))

    def leave_work_behind(self) -> None:
        """The branch ``work`` has new files that the working tree has not."""
        self.commit()
        before = self.git("rev-parse", "HEAD")
        self.git("checkout", "-q", "-B", "work")
        for number, path in enumerate(PATHS[:3]):
            self.write(path, f"def work_{self.steps}_{number}(zebra):\n    return zebra\n")
        self.commit()
        self.git("checkout", "-q", "--detach", before)
        self.run(self.app.index(self.root, self.project_id))

    @rule(in_memory=st.booleans(), query=st.sampled_from(QUERIES), data=st.data())
    def search(self, in_memory: bool, query: str, data: st.DataObject) -> None:
        refs = self.refs("heads", "tags")
        chosen = data.draw(st.sampled_from([*refs, "worktree", f"worktree {refs[0]}"]))
        app = self.app if in_memory else self.by_database
        self.run(app.search(query, self.project_id, ref=chosen))
        if in_memory:
            self.run(app.memory_indexes.wait_idle())

    @rule(path=st.sampled_from(PATHS))
    def purge(self, path: str) -> None:
        complete = "SELECT id FROM snapshot WHERE view <> 'worktree' AND indexed_at IS NOT NULL"
        ids = [row[0] for row in self.run(self.rows(complete))]
        with contextlib.suppress(NotFound):
            target = self.run(self.app.data.find(self.root / path, self.project_id))
            self.run(self.app.data.purge(target))
        for snapshot_id in ids:
            self.purged.setdefault(snapshot_id, set()).add(path)

    # What must be true.

    @invariant()
    def every_view_equals_a_fresh_index(self) -> None:
        self.steps += 1
        if self.steps % COMPARED_EVERY == 0:
            self.compare()

    def compare(self) -> None:
        roots = [root for root in (self.root, self.linked) if root.exists()]
        for root in roots:
            self.run(self.app.index(root, self.project_id))
        self.run(self.check_frequencies())
        files, answers = self.run(self.fresh_index(roots))
        assert self.run(self.files_of(self.project_id, "worktree")) == files
        # Trees that were not rebuilt equally often do not share texts: each copy is found.
        generations = "SELECT DISTINCT generation FROM snapshot WHERE active"
        if len(self.run(self.rows(generations))) == 1:
            self.answers_equal("worktree", None, answers)
        self.app.views.forget()
        self.by_database.views.forget()
        [[repository_id]] = self.run(
            self.rows("SELECT id FROM repository WHERE root = %(root)s", root=str(self.root))
        )
        for ref in self.refs("heads", "tags"):
            self.run(self.by_database.search("anything", self.project_id, ref=ref))
            commit = self.git("rev-parse", f"{ref}^{{commit}}")
            files, answers = self.fresh_commit(commit, self.purged_of(repository_id, commit))
            held = self.run(self.files_of(self.project_id, commit))
            assert [row[1:] for row in held if row[0] == str(self.root)] == files, ref
            self.answers_equal(ref, repository_id, answers)

    def answers_equal(self, ref: str, repository_id: UUID | None, wanted: Answers) -> None:
        """Both by the database and in memory."""
        found = self.run(self.answers(self.by_database, self.project_id, ref, repository_id))
        assert found == wanted, f"{ref} by the database"
        self.run(self.answers(self.app, self.project_id, ref, repository_id))
        self.run(self.app.memory_indexes.wait_idle())
        found = self.run(self.answers(self.app, self.project_id, ref, repository_id))
        assert found == wanted, f"{ref} in memory"

    def purged_of(self, repository_id: UUID, commit: str) -> frozenset[str]:
        statement = "SELECT id FROM snapshot WHERE repository_id = %(id)s AND view = %(view)s"
        [[snapshot_id]] = self.run(self.rows(statement, id=repository_id, view=commit))
        return frozenset(self.purged.get(snapshot_id, ()))

    def fresh_commit(self, commit: str, without: frozenset[str]) -> tuple[Files, Answers]:
        """What an index of a clone holds and answers; commits with the same files share it."""
        key = self.git("rev-parse", f"{commit}^{{tree}}"), without
        if key not in self.fresh:
            clone = self.folder / "clone"
            self.git("clone", "-q", "--shared", "--no-checkout", str(self.root), str(clone))
            self.git("-C", str(clone), "checkout", "-q", "--detach", commit)
            for path in without:
                (clone / path).unlink(missing_ok=True)
            files, answers = self.run(self.fresh_index([clone]))
            self.fresh[key] = [row[1:] for row in files], answers
            shutil.rmtree(clone)
        return self.fresh[key]

    async def fresh_index(self, roots: list[Path]) -> tuple[Files, Answers]:
        fresh = f"test-{uuid.uuid4().hex[:12]}"
        for root in roots:
            await self.by_database.index(root, fresh)
        try:
            files = await self.files_of(fresh, "worktree")
            return files, await self.answers(self.by_database, fresh, "worktree", None)
        finally:
            await self.by_database.drop_project(fresh)

    # How it is done.

    def run(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        return self.runner.run(work)

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
        when = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.root,
            env=os.environ | when,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, path: str, content: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(content)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")
        self.commits.append(self.git("rev-parse", "HEAD"))

    def draw_commit(self, data: st.DataObject) -> str:
        return self.commits[data.draw(st.integers(-4, -1)) % len(self.commits)]

    def refs(self, *kinds: str) -> list[str]:
        names = [f"refs/{kind}" for kind in kinds]
        return self.git("for-each-ref", "--format=%(refname:short)", *names).split()

    def checked_out(self) -> list[str]:
        return self.git("branch", "--show-current").split()

    async def rows(self, statement: str, **parameters: object) -> Files:
        async with self.app.enter(self.project_id, readonly=True) as here:
            return await here.tx.fetch_all(statement, **parameters)  # type: ignore[arg-type]

    async def check_frequencies(self) -> None:
        async with self.app.enter(self.project_id, readonly=True) as here:
            await check_frequencies(here.tx)

    async def files_of(self, project_id: str, view: str) -> Files:
        async with self.app.enter(project_id, readonly=True) as here:
            return await here.tx.fetch_all(FILES, view=view)

    async def answers(
        self, app: App, project_id: str, ref: str, repository_id: UUID | None
    ) -> Answers:
        """Paths, lines and scores; equally good ones may come in any order."""
        request = Request(FileFilters(repository_id=repository_id), limit=30)
        found = []
        for query in QUERIES:
            report = await app.search(query, project_id, request, ref=ref)
            assert ref == "worktree" or report.index.state == "ready"
            hits = report.answer.hits
            found.append(sorted((h.file_path, h.start_line, h.similarity_score) for h in hits))
        return found

    async def stopped(self, ref: str, after: int, *, by_cancelling: bool) -> None:
        project, _ = await self.app.resolver.resolve(self.project_id, ANONYMOUS)
        indexer = StoppedIndexer(
            self.app.database, self.app.models, self.pool, after, by_cancelling=by_cancelling
        )
        views = Views(self.app.database, lambda: indexer, self.app.trees.selection_of)
        with contextlib.suppress(Stopped, asyncio.CancelledError), one_file_a_batch():
            await views.choose(project, ref)


@contextlib.contextmanager
def one_file_a_batch() -> Iterator[None]:
    """A run can break off after each file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH_FILES", 1)
        yield


@pytest.mark.usefixtures("loads_at_once")
@pytest.mark.timeout(0 if WALKS else 300)
def test_each_view_equals_a_fresh_index_after_any_sequence_of_events(
    embedded: Embedded,
) -> None:
    Walk.data_dir, Walk.fresh = embedded.data_dir, {}
    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=WALKS or 2,
            stateful_step_count=50,
            deadline=None,
            derandomize=not WALKS,
            database=None,
            phases=[Phase.generate],  # a walk is long, and replaying it takes seconds
            suppress_health_check=list(HealthCheck),
        ),
    )
