"""Nothing left behind, nothing lost: whatever happened to a tree and to the runs over it, after one
more run the database holds what a fresh index of the same tree holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.integration.indexes import check_frequencies

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Embedded
from codebase_mcp.errors import NotFound, ProjectNotFound
from codebase_mcp.index import store
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.read import SourceText, read_source
from codebase_mcp.source.walk import list_files

Outcome = TypeVar("Outcome")

PATHS = ("a.py", "b.py", "src/c.py", "src/d/e.ts", "src/d/f.md", "lib/g.py", "ü ñ/h.go", "src")
FUNCTIONS = "\n\n".join(
    f"def function_{n}(first, second):\n    # adds {n} to both of them\n"
    f"    total = first + second + {n}\n    return [total] * {n}\n"
    for n in range(40)
)
CONTENTS: tuple[bytes, ...] = (
    b"",
    b"def one():\n    return 1\n",
    b"def two():\n    return 2\n",
    b"class Broken(:\n  def (((\n",
    FUNCTIONS.encode(),
    FUNCTIONS.replace("adds", "subtracts").encode(),
    b"\xff\xfe\x00binary\x00",
    "# ünïcode\r\nprint('ß')\r\n".encode(),
)
IGNORED = (b"", b"*.ts\n", b"src/\n!src/c.py\n", b"lib\n*.md\n")

# What a table holds, by what does not depend on when and how often it was written.
STATE = {
    "snapshot": """
        SELECT s.view, s.active, s.files_pending, s.skipped::text, s.median_depth,
               (SELECT coalesce(jsonb_agg(f ORDER BY f), '[]')
                FROM jsonb_array_elements(s.failures) AS f)::text,
               s.indexed_at IS NOT NULL
        FROM snapshot AS s""",
    "file": """
        SELECT f.path, b.hash, f.size, f.language, f.extension, f.kind, f.name_terms
        FROM file AS f JOIN blob AS b ON b.id = f.blob_id""",
    "blob": """
        SELECT hash, language, chunk_count, text, comments::text, released_at IS NULL FROM blob""",
    "chunk": """
        SELECT b.hash, b.language, c.ordinal, c.start_line, c.end_line, c.symbol, c.kind, c.terms,
               c.lex::text
        FROM chunk AS c LEFT JOIN blob AS b ON b.id = c.blob_id""",
    "chunk_vector": """
        SELECT b.hash, b.language, v.ordinal, p.fingerprint, v.dense::text
        FROM chunk_vector AS v LEFT JOIN blob AS b ON b.id = v.blob_id
        LEFT JOIN profile AS p ON p.id = v.profile_id""",
    "symbol": """
        SELECT b.hash, b.language, s.name, s.folded, s.qualified, s.kind, s.start_line, s.end_line,
               s.depth
        FROM symbol AS s LEFT JOIN blob AS b ON b.id = s.blob_id""",
    "blob_reference": """
        SELECT b.hash, b.language, r.names, r.uses
        FROM blob_reference AS r LEFT JOIN blob AS b ON b.id = r.blob_id""",
    "term_frequency": "SELECT term, chunks FROM term_frequency",
    "repository": "SELECT root, name FROM repository",
}


class Tree(RuleBasedStateMachine):
    """A repository that is worked on, and the runs over it, of which many break off."""

    data_dir: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cbm-tree-")))
        self.root = self.folder / "repo"
        self.root.mkdir()
        self.project_id = f"test-{uuid.uuid4().hex[:12]}"
        self.commits: list[str] = []
        self.touched: set[str] = set()
        self.killed = 0
        self.runner = asyncio.Runner()
        chosen = Settings.load({"CODEBASE_MCP_DATA_DIR": str(self.data_dir)})
        self.app = self.run(App.open(chosen))
        self.git("init", "-q")

    def teardown(self) -> None:
        try:
            self.equals_a_fresh_index()
        finally:
            self.run(self.dropped(self.project_id))
            self.run(self.app.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    # What happens to the tree.

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def write(self, path: str, content: bytes) -> None:
        file = self.root / path
        self.make_way(file)
        file.write_bytes(content)
        self.touched.add(path)

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def save_atomically_with_an_old_time(self, path: str, content: bytes) -> None:
        file = self.root / path
        self.make_way(file)
        part = file.with_name(".tmp~")
        part.write_bytes(content)
        os.utime(part, ns=(10**18, 10**18))
        part.replace(file)
        self.touched.add(path)

    @rule(path=st.sampled_from((*PATHS, "src/d", "lib")))
    def delete(self, path: str) -> None:
        self.clear(self.root / path)
        self.touched.add(path)

    @rule(old=st.sampled_from((*PATHS, "src/d", "lib")), new=st.sampled_from(PATHS))
    def rename(self, old: str, new: str) -> None:
        source, target = self.root / old, self.root / new
        if source.exists() and source not in (target, *target.parents):
            self.make_way(target)
            if source.exists():
                source.rename(target)
        self.touched |= {old, new}

    @rule(rules=st.sampled_from(IGNORED))
    def ignore(self, rules: bytes) -> None:
        (self.root / ".gitignore").write_bytes(rules)
        self.touched.add(".gitignore")

    @rule()
    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")
        self.commits.append(self.git("rev-parse", "HEAD"))

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def check_out(self, data: st.DataObject) -> None:
        self.git("checkout", "-q", "-f", data.draw(st.sampled_from(self.commits)))
        self.touched |= {*PATHS, ".gitignore"}

    # What happens to the index.

    @rule(force=st.booleans())
    def index(self, force: bool) -> None:
        self.run(self.app.index(self.root, self.project_id, force_reindex=force))
        self.touched.clear()

    @rule()
    def update_what_was_touched(self) -> None:
        """As a watcher does; then the index knows these files as they are."""
        with contextlib.suppress(ProjectNotFound):
            self.run(self.app.update(self.root, sorted(self.touched), self.project_id))
            self.touched.clear()
            assert self.run(self.known_files()) == self.files_on_disk()

    @rule(force=st.booleans(), after=st.integers(0, 3))
    def cancel_a_run(self, force: bool, after: int) -> None:
        self.run(self.cancelled(force, after))

    @precondition(lambda self: self.killed < 2)
    @rule(force=st.booleans(), after=st.integers(1, 3))
    def kill_a_run(self, force: bool, after: int) -> None:
        self.killed += 1
        arguments = [str(self.data_dir), str(self.root), self.project_id, str(force), str(after)]
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments],
            cwd=Path(__file__).parents[2],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr

    @rule()
    def remove(self) -> None:
        with contextlib.suppress(NotFound, ProjectNotFound):
            self.run(self.app.remove(self.root, self.project_id))
            held = self.run(self.state(self.project_id))
            assert not any(held.values())

    @rule()
    def equals_a_fresh_index(self) -> None:
        self.run(self.app.index(self.root, self.project_id))
        self.touched.clear()
        other = f"test-{uuid.uuid4().hex[:12]}"
        self.run(self.app.index(self.root, other))
        ours, fresh = self.run(self.state(self.project_id)), self.run(self.state(other))
        self.run(self.dropped(other))
        for table in STATE:
            assert ours[table] == fresh[table], table

    # How it is done.

    def run(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        return self.runner.run(work)

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def make_way(self, file: Path) -> None:
        """Whatever stands where a file shall be, or where its directories shall be, goes."""
        for parent in reversed(file.relative_to(self.root).parents):
            if (self.root / parent).is_file():
                (self.root / parent).unlink()
        self.clear(file)
        file.parent.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def clear(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()

    async def cancelled(self, force: bool, after: int) -> None:
        reports = 0

        def count(_: RunProgress) -> None:
            nonlocal reports
            reports += 1
            if reports > after:
                task.cancel()

        task = asyncio.ensure_future(
            self.app.index(self.root, self.project_id, force_reindex=force, progress=count)
        )
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def dropped(self, project_id: str) -> None:
        with contextlib.suppress(ProjectNotFound):
            await self.app.drop_project(project_id)

    def files_on_disk(self) -> dict[str, bytes]:
        contents = [read_source(file) for file in list_files(self.root).files]
        files = [file.path for file in list_files(self.root).files]
        return {
            path: content.blob_hash
            for path, content in zip(files, contents, strict=True)
            if isinstance(content, SourceText)
        }

    async def known_files(self) -> dict[str, bytes]:
        async with self.app.enter(self.project_id, readonly=True) as here:
            rows = await here.tx.fetch_all(
                "SELECT f.path, b.hash FROM file AS f JOIN blob AS b ON b.id = f.blob_id"
                " JOIN snapshot AS s ON s.id = f.snapshot_id WHERE s.active"
            )
        return dict(rows)

    async def state(self, project_id: str) -> dict[str, list[tuple[Any, ...]]]:
        project, _ = await self.app.resolver.resolve(project_id, ANONYMOUS)
        async with self.app.enter(project_id) as here:
            await here.tx.lock(store.WRITE_LOCK)
            await store.sweep(here.tx, 0)  # as after the hour of grace
        async with self.app.enter(project_id, readonly=True) as here:
            await check_frequencies(here.tx)
            found = {
                name: sorted(await here.tx.fetch_all(query), key=repr)
                for name, query in STATE.items()
            }
        assert project.project_id == project_id
        return found


def test_after_any_sequence_of_events_the_database_equals_a_fresh_index(
    embedded: Embedded,
) -> None:
    Tree.data_dir = embedded.data_dir
    run_state_machine_as_test(
        Tree,
        settings=settings(
            max_examples=10,
            stateful_step_count=18,
            deadline=None,
            derandomize=True,  # another sequence each time belongs into a longer search, by hand
            suppress_health_check=list(HealthCheck),
        ),
    )


async def _index_and_die(data_dir: str, root: str, project_id: str, force: str, after: str) -> None:
    """One run in this process, which is killed after so many reports of progress."""
    reports = 0

    def count(_: RunProgress) -> None:
        nonlocal reports
        reports += 1
        if reports > int(after):
            os.kill(os.getpid(), signal.SIGKILL)

    chosen = Settings.load({"CODEBASE_MCP_DATA_DIR": data_dir})
    async with await App.open(chosen) as app:
        await app.index(root, project_id, force_reindex=force == "True", progress=count)


if __name__ == "__main__":
    asyncio.run(_index_and_die(*sys.argv[1:]))
