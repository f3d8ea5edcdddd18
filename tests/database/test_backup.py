"""A whole project in a file: it comes back as it was, or not at all."""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import find_project
from codebase_mcp.errors import Conflict, InvalidInput, ProjectNotFound
from codebase_mcp.index.identity import repository_id_of
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

from .conftest import AnchoredProject, PlainServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def other_id(anyio_backend: str, app: App) -> AsyncIterator[str]:
    """The id of a second project, not there yet."""
    project_id = f"other-{uuid.uuid4().hex[:12]}"
    yield project_id
    with suppress(ProjectNotFound):
        await app.drop_project(project_id)


@pytest.fixture
async def kept(anchored: AnchoredProject) -> AnchoredProject:
    """A project with an index, and a task that is about a place in its code."""
    async with anchored.app.enter(anchored.project_id) as here:
        place = CodeReference(file="src/retry.py", symbol="backoff")
        await create_task(here.tx, "Wait longer ☂", notes="two\nlines", anchors=[place])
    return anchored


async def backup_of(project: AnchoredProject) -> bytes:
    file = io.BytesIO()
    await project.app.data.backup(file, project.project_id)
    return file.getvalue()


async def restore(app: App, content: bytes, project_id: str | None = None, **given: bool) -> None:
    await app.data.restore(io.BytesIO(content), "backup.tar.gz", project_id, **given)


async def state(app: App, project_id: str) -> object:
    """What a user sees of a project: answers with their scores, and every record."""
    answers = []
    for query in ("Session", "delay between attempts", "flush handlers when closed"):
        report = await app.search(query, project_id)
        hits = report.answer.hits
        answers.append([(h.file_path, h.start_line, h.similarity_score, h.content) for h in hits])
    records = [json.loads(line) async for line in app.data.export_records(project_id)]
    assert all(answers)
    assert {"task", "anchor"} <= {record["kind"] for record in records}
    return answers, records[1:]  # the header has the time


def rewritten(content: bytes, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The same archive with members changed, or left out."""
    target = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as source,
        tarfile.open(fileobj=target, mode="w:gz") as archive,
    ):
        for member in source:
            file = source.extractfile(member)
            assert file is not None
            data = change(member.name, file.read())
            if data is not None:
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def with_manifest(content: bytes, **values: object) -> bytes:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps({**json.loads(data), **values}).encode() if name[:4] == "mani" else data

    return rewritten(content, change)


async def test_a_project_that_was_dropped_comes_back_as_it_was(kept: AnchoredProject) -> None:
    before = await state(kept.app, kept.project_id)
    content = await backup_of(kept)
    await kept.app.drop_project(kept.project_id)
    with pytest.raises(ProjectNotFound):
        await kept.app.search("Session", kept.project_id)
    await restore(kept.app, content)
    assert await state(kept.app, kept.project_id) == before


async def test_a_restored_index_is_the_repositorys_and_needs_no_new_run(
    kept: AnchoredProject,
) -> None:
    content = await backup_of(kept)
    await kept.app.drop_project(kept.project_id)
    await restore(kept.app, content)
    kept.write("src/new.py", "def added_later():\n    return 1\n")
    report = await kept.app.index(kept.root, kept.project_id)
    assert (report.run.files_indexed, report.run.files_unchanged) == (1, 3)


async def test_under_another_id_it_is_a_project_of_its_own(
    kept: AnchoredProject, other_id: str
) -> None:
    before = await state(kept.app, kept.project_id)
    await restore(kept.app, await backup_of(kept), other_id)
    answers, _ = await state(kept.app, other_id)  # type: ignore[misc]
    assert answers == before[0]  # type: ignore[index]
    assert await state(kept.app, kept.project_id) == before
    report = await kept.app.index(kept.root, other_id)
    assert (report.run.files_indexed, report.run.files_unchanged) == (0, 3)
    [mine] = {
        h.repository_id for h in (await kept.app.search("backoff", kept.project_id)).answer.hits
    }
    [others] = {h.repository_id for h in (await kept.app.search("backoff", other_id)).answer.hits}
    assert mine != others == report.run.repository_id
    async with kept.app.enter(other_id, readonly=True) as here:
        anchors = await here.tx.fetch_all("SELECT DISTINCT repository_id FROM anchor")
    assert anchors == [(others,)]


async def test_what_a_project_holds_is_replaced_only_on_request(kept: AnchoredProject) -> None:
    before = await state(kept.app, kept.project_id)
    content = await backup_of(kept)
    kept.write("src/new.py", "def added_later():\n    return 1\n")
    await kept.index()
    with pytest.raises(Conflict, match="not empty") as caught:
        await restore(kept.app, content)
    assert "--replace" in str(caught.value.hint)
    assert (await kept.app.search("added_later", kept.project_id)).answer.hits
    (kept.root / "src/new.py").unlink()  # or the next search would index it again
    await restore(kept.app, content, replace=True)
    assert await state(kept.app, kept.project_id) == before


async def test_a_run_that_goes_on_is_waited_for_before_its_project_is_replaced(
    kept: AnchoredProject,
) -> None:
    before = await state(kept.app, kept.project_id)
    content = await backup_of(kept)
    database = kept.app.database
    project = await find_project(database, kept.project_id)
    repository_id = repository_id_of(project, kept.root)
    async with database.session_locks(project, [index_lock(repository_id)]):
        task = asyncio.create_task(restore(kept.app, content, replace=True))
        done, _ = await asyncio.wait([task], timeout=0.3)
        assert not done
    await task
    assert await state(kept.app, kept.project_id) == before


async def test_a_project_that_is_empty_takes_a_backup(kept: AnchoredProject, other_id: str) -> None:
    await kept.app.resolver.create(other_id, Identity(), name="Empty", description=None)
    await restore(kept.app, await backup_of(kept), other_id)
    await state(kept.app, other_id)


async def test_a_backup_is_one_state_while_others_write(kept: AnchoredProject) -> None:
    async def write(number: int) -> None:
        async with kept.app.enter(kept.project_id) as here:
            await create_task(here.tx, f"Task {number}", anchors=[CodeReference(file="README.md")])

    _, content = await asyncio.gather(
        asyncio.gather(*(write(number) for number in range(20))), backup_of(kept)
    )
    await restore(kept.app, content, replace=True)
    async with kept.app.enter(kept.project_id, readonly=True) as here:
        without = await here.tx.fetch_one(
            "SELECT count(*) FROM task AS t WHERE NOT EXISTS"
            " (SELECT FROM anchor AS a WHERE a.record_id = t.id)"
        )
    assert without == (0,)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[: len(content) // 2], "damaged or incomplete"),
        (lambda content: content[:-2000] + bytes(1000) + content[-1000:], "damaged"),
        (lambda content: rewritten(content, lambda n, d: None if n[:3] == "end" else d), "damaged"),
        (
            lambda content: rewritten(content, lambda n, d: None if n[:5] == "task/" else d),
            "damaged",
        ),
        (
            lambda content: rewritten(
                content, lambda n, d: d.replace(b"Wait", b"Want") if n[:5] == "task/" else d
            ),
            "checksums differ",
        ),
        (lambda content: b"", "not a backup"),
        (lambda content: b"-- PostgreSQL database dump", "not a backup"),
        (lambda content: rewritten(content, lambda n, d: b"[]"), "not a backup"),
        (lambda content: with_manifest(content, format=2), "newer than this one"),
        (
            lambda content: with_manifest(content, migrations=[[n, ""] for n in range(1, 99)]),
            "newer than this one",
        ),
        (lambda content: with_manifest(content, migrations=[[1, "another"]]), "different text"),
        (lambda content: with_manifest(content, tables=[]), "tables do not match"),
    ],
    ids=[
        "cut", "damaged", "without its end", "a table lost", "a value changed", "empty",
        "another program's", "no manifest", "newer format", "newer schema", "another history",
        "other tables",
    ],
)  # fmt: skip
async def test_an_invalid_backup_changes_nothing(
    kept: AnchoredProject, damage: Callable[[bytes], bytes], message: str
) -> None:
    before = await state(kept.app, kept.project_id)
    content = damage(await backup_of(kept))
    with pytest.raises(InvalidInput, match=message) as caught:
        await restore(kept.app, content, replace=True)
    assert "nothing was restored" in caught.value.message
    assert await state(kept.app, kept.project_id) == before
    async with kept.app.enter(kept.project_id, readonly=True) as here:
        left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'restore%%'"
        assert await here.tx.fetch_one(left) == (0,)


async def test_a_restore_that_is_broken_off_leaves_nothing(
    kept: AnchoredProject, other_id: str
) -> None:
    content = await backup_of(kept)
    reached, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Stalled(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 0:
                loop.call_soon_threadsafe(reached.set)
                go_on.wait()
            return super().read(size)

    file = Stalled(content)
    file.read(1)
    file.seek(0)
    task = asyncio.create_task(kept.app.data.restore(file, "backup", other_id))
    await reached.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProjectNotFound):
        await kept.app.search("Session", other_id)


async def test_a_backup_of_an_earlier_version_lists_indexes_which_are_not_made(
    kept: AnchoredProject, other_id: str
) -> None:
    manifest = b""

    def list_index(name: str, data: bytes) -> bytes:
        nonlocal manifest
        if name == "manifest.json":
            index = "CREATE INDEX observation_vector_near ON observation_vector (dense)"
            manifest = json.dumps({**json.loads(data), "vector_indexes": [index]}).encode()
            return manifest
        if name == "end.json":
            digest = hashlib.sha256(manifest).hexdigest()
            return json.dumps({**json.loads(data), "manifest_sha256": digest}).encode()
        return data

    await restore(kept.app, rewritten(await backup_of(kept), list_index), other_id)
    assert await state(kept.app, other_id)


async def test_it_moves_to_another_server(
    kept: AnchoredProject, plain_server: PlainServer, settings: Settings
) -> None:
    before = await state(kept.app, kept.project_id)
    name = f"test_{uuid.uuid4().hex[:12]}"
    plain_server.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    try:
        target = replace(settings, database_url=plain_server.url(name))
        async with await App.open(target) as other:
            await restore(other, await backup_of(kept))
            assert await state(other, kept.project_id) == before
            assert (await other.data.migrate(every=True, check=True))[1].behind == 0
    finally:
        plain_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def command(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codebase_mcp.cli.main", *arguments],
        env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


async def test_from_the_shell_a_file_appears_only_when_it_is_whole(
    kept: AnchoredProject, other_id: str, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tar.gz"
    made = command(settings, "backup", "--project", kept.project_id, "--output", str(file))
    assert (made.returncode, made.stderr) == (0, "")
    assert f"Project {kept.project_id}: " in made.stdout
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.tar.gz"]
    done = command(settings, "restore", str(file), "--project", other_id, "--json")
    assert json.loads(done.stdout)["project_id"] == other_id
    nowhere = command(settings, "backup", "--output", str(tmp_path / "no" / "file"))
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "No such file or directory" in nowhere.stderr


async def test_a_backup_that_its_disk_cannot_hold_is_an_error(kept: AnchoredProject) -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, piece: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="space"):
        await kept.app.data.backup(cast(BinaryIO, Full()), kept.project_id)
    await state(kept.app, kept.project_id)
