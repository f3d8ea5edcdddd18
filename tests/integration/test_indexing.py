"""Indexing real trees into the real database: what users of such tools suffer from, each a test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git
from tests.integration.indexes import found_paths, later, rows
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import InvalidInput, NotFound, ProjectNotFound
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


async def test_an_unchanged_tree_is_not_read_again(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    first = await app.index(root, project_id)
    again = await app.index(root, project_id)
    assert first.run.files_indexed == again.run.files_unchanged == 8
    assert (again.run.files_indexed, again.run.chunks_created) == (0, 0)


async def test_what_a_run_made_is_what_the_inventory_counts_though_files_are_alike(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    text = "def pelican():\n    return 1\n"
    report = await app.index(make_repo({"a.py": text, "b.py": text, "c.py": "c = 3\n"}), project_id)
    [facts] = [one for one in await app.projects() if one.project.project_id == project_id]
    assert facts.repositories[0].files == 3
    assert facts.repositories[0].chunks == report.run.chunks_created == 2


async def test_an_edit_replaces_what_was_found_before(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    assert (await found_paths(app, project_id, "backoff"))[0] == "lib/retry.ts"
    later(root / "lib/retry.ts", "export const pelican = (fish: string) => fish.trim();\n")
    report = await app.index(root, project_id)
    assert (report.run.files_indexed, report.run.files_unchanged) == (1, 7)
    found = await app.search("backoff", project_id)
    assert not any("backoff" in hit.content for hit in found.answer.hits)
    assert (await found_paths(app, project_id, "pelican"))[0] == "lib/retry.ts"


async def test_an_edit_of_the_same_size_and_time_is_seen(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "def alpha_one():\n    pass\n"})
    await app.index(root, project_id)
    before = (root / "a.py").stat()
    (root / "a.py").write_text("def gamma_two():\n    pass\n")
    os.utime(root / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    report = await app.index(root, project_id)
    assert report.run.files_indexed == 1
    assert await found_paths(app, project_id, "gamma_two") == ["a.py"]


async def test_a_deleted_file_leaves_no_trace(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    (root / "lib/retry.ts").unlink()
    report = await app.index(root, project_id)
    assert (report.run.files_removed, report.run.files_unchanged) == (1, 7)
    assert "lib/retry.ts" not in await found_paths(app, project_id, "RetryPolicy backoff")


async def test_a_rename_embeds_nothing(app: App, make_repo: MakeRepo, project_id: str) -> None:
    root = make_repo()
    await app.index(root, project_id)
    (root / "lib/retry.ts").rename(root / "lib/policy.ts")
    report = await app.index(root, project_id)
    assert (report.run.files_indexed, report.run.files_removed) == (1, 1)
    assert report.run.chunks_created == 0
    assert (await found_paths(app, project_id, "RetryPolicy"))[0] == "lib/policy.ts"


async def test_going_back_to_an_earlier_state_embeds_nothing(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    await app.index(root, project_id)
    git(root, "checkout", "-qb", "feature")
    (root / "lib/retry.ts").write_text("export const throttle = 5;\n")
    (root / "src/new.py").write_text("def brand_new():\n    pass\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two")
    feature = await app.index(root, project_id)
    assert feature.run.chunks_created == 2
    git(root, "checkout", "-q", "main")
    main = await app.index(root, project_id)
    assert (main.run.chunks_created, main.run.files_removed) == (0, 1)
    assert (await found_paths(app, project_id, "backoff"))[0] == "lib/retry.ts"
    assert "src/new.py" not in await found_paths(app, project_id, "brand_new")


async def test_two_repositories_share_a_text_and_part_again(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    licence = "Permission is hereby granted, free of charge, to any person.\n"
    first = make_repo({"LICENSE": licence, "a.py": "def zebra_crossing():\n    pass\n"}, "first")
    second = make_repo({"LICENSE": licence, "b.py": "def quartz_watch():\n    pass\n"}, "second")
    await app.index(first, project_id)
    report = await app.index(second, project_id)
    assert report.run.chunks_created == 1
    answer = (await app.search("permission granted free of charge", project_id)).answer
    [hit] = [hit for hit in answer.hits if hit.file_path == "LICENSE"]
    assert [place.file_path for place in hit.also_at] == ["LICENSE"]
    await app.remove(first, project_id)
    answer = (await app.search("permission granted free of charge", project_id)).answer
    assert [hit.also_at for hit in answer.hits if hit.file_path == "LICENSE"] == [()]
    assert await found_paths(app, project_id, "zebra_crossing") == []


async def test_a_moved_repository_embeds_nothing(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    moved = root.with_name("moved")
    root.rename(moved)
    report = await app.index(moved, project_id)
    assert (report.run.files_indexed, report.run.chunks_created) == (8, 0)
    await app.remove(root, project_id)
    hits = (await app.search("authenticate", project_id)).answer.hits
    assert {hit.repository_id for hit in hits} == {report.run.repository_id}


async def test_removing_leaves_no_row_behind(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    later(root / "lib/retry.ts", "export const other = 1;\n")
    await app.index(root, project_id)
    await app.remove(root, project_id)
    assert set((await rows(database, project_id)).values()) == {0}
    with pytest.raises(ProjectNotFound):
        await app.search("authenticate", project_id)
    with pytest.raises(NotFound):
        await app.remove(root, project_id)


async def test_a_forced_run_equals_a_fresh_index(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    before = await rows(database, project_id)
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(await found_paths(app, project_id, "authenticate"))

    looks: list[asyncio.Task[None]] = []
    report = await app.index(
        root,
        project_id,
        force_reindex=True,
        progress=lambda _: looks.append(asyncio.create_task(look())),
    )
    await asyncio.gather(*looks)
    assert report.run.files_indexed == 8
    assert seen
    assert all(paths and paths[0] == "src/auth.py" for paths in seen)
    assert await rows(database, project_id) == before


async def test_two_runs_at_once_wait_and_both_answer(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    first, second = await asyncio.gather(app.index(root, project_id), app.index(root, project_id))
    assert {first.run.files_indexed, second.run.files_indexed} == {8, 0}
    assert first.run.repository_id == second.run.repository_id


async def test_two_repositories_at_once_keep_the_counts_right(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    shared = {f"shared/m{n}.py": f"def shared_{n}():\n    return {n}\n" for n in range(40)}
    roots = [make_repo({**shared, "own.py": f"def own_{r}(): ...\n"}, f"r{r}") for r in range(4)]
    await asyncio.gather(*(app.index(root, project_id) for root in roots))
    counted = await rows(database, project_id)
    assert (counted["file"], counted["blob"]) == (4 * 41, 44)
    for root in roots:
        await app.remove(root, project_id)
    assert set((await rows(database, project_id)).values()) == {0}


async def test_a_cancelled_run_keeps_its_batches_and_the_next_finishes(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    files = {f"m{n}.py": f"def number_{n}():\n    return {n}\n" * 60 for n in range(2000)}
    root = make_repo(files)
    done = asyncio.Event()

    def watch(progress: RunProgress) -> None:
        if progress.done:
            done.set()

    run = asyncio.create_task(app.index(root, project_id, progress=watch))
    await done.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await app.rank("number", project_id, FileFilters())).files  # a search would finish it
    [facts] = [one for one in await app.projects() if one.project.project_id == project_id]
    assert facts.repositories[0].files_pending > 0
    report = await app.index(root, project_id)
    assert report.run.files_unchanged > 0
    assert report.run.files_indexed + report.run.files_unchanged == 2000


async def test_a_killed_run_loses_a_batch_at_most_and_leaves_no_process(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    files = {f"m{n}.py": f"def number_{n}():\n    return {n}\n" * 60 for n in range(2000)}
    root = make_repo(files)
    indexer = subprocess.Popen(
        [sys.executable, "-c", INDEXER, str(root), project_id],
        env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert indexer.stdout is not None
    first = indexer.stdout.readline()
    workers = children_of(indexer.pid)
    os.kill(indexer.pid, signal.SIGKILL)
    indexer.wait()
    indexer.stdout.close()
    assert int(first) > 0
    assert workers
    await until(lambda: not any(is_alive(pid) for pid in workers))
    report = await app.index(root, project_id)
    assert report.run.status == "success"
    assert report.run.files_unchanged >= int(first)
    assert report.run.files_indexed + report.run.files_unchanged == 2000


INDEXER = """
import asyncio, sys
from codebase_mcp import App
async def main():
    app = await App.open()
    def tell(progress):
        if progress.done:
            print(progress.done, flush=True)
    await app.index(sys.argv[1], sys.argv[2], progress=tell)
if __name__ == "__main__":
    asyncio.run(main())
"""


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_projects_do_not_see_each_other(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    other = project_id + "-other"
    await app.index(make_repo({"a.py": "def zebra_crossing(): ...\n"}, "a"), project_id)
    await app.index(make_repo({"b.py": "def quartz_watch(): ...\n"}, "b"), other)
    assert await found_paths(app, project_id, "quartz_watch") == []
    assert await found_paths(app, other, "quartz_watch") == ["b.py"]
    await app.drop_project(other)


async def test_strange_trees_are_indexed_without_harm(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    terms = " ".join(f"term{n}x" for n in range(20_000))
    root = make_repo(
        {
            "one.py": "x",
            "with space/file name.py": "def spaced(): ...\n",
            "new\nline.py": "def lined(): ...\n",
            "terms.txt": terms,
            "empty.py": "",
            "blank.py": "\n\n\n",
            "big.py": "x = 1\n" * (50_000_000 // 6),
        }
    )
    (root / "loop").symlink_to(root)
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.py")).write_text("def latin_name(): ...\n")
    report = await app.index(root, project_id)
    assert report.run.status == "partial"
    assert report.run.errors == ["Failed to process big.py: File exceeds size limit"]
    assert report.run.files_skipped["symlink"] == 1
    assert await found_paths(app, project_id, "spaced") == ["with space/file name.py"]
    assert await found_paths(app, project_id, "lined") == ["new\nline.py"]
    assert await found_paths(app, project_id, "latin_name") == ["caf\\xe9.py"]
    assert (await found_paths(app, project_id, "term19000x"))[0] == "terms.txt"
    again = await app.index(root, project_id)
    assert again.run.files_indexed == 0


async def test_nothing_of_a_repository_is_executed(
    app: App, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    root = make_repo()
    git(root, "init", "-q")
    trap = tmp_path / "trap"
    script = tmp_path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "filter.x.clean", "filter.x.smudge"):
        git(root, "config", key, str(script))
    (root / ".gitattributes").write_text("* filter=x\n")
    report = await app.index(root, project_id)
    assert report.run.files_indexed >= 8
    assert not trap.exists()


async def test_a_relative_root_is_refused_by_the_api_too(app: App, project_id: str) -> None:
    with pytest.raises(InvalidInput):
        await app.index("relative", project_id)
