"""Our indexing in a process of its own; ``indexing.py`` runs it and asks.

    python benchmarks/our_indexing.py DATA_DIR

Reads one request a line and answers each with a line of JSON, as ``semble_indexing.py`` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from codebase_mcp import App
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.settings.loading import Settings
from packages import LANGUAGES

PROJECT = "bench"
SCHEMA = "project_bench"

RELATIONS = """
SELECT t.relname, pg_table_size(t.oid), coalesce(i.relname, ''),
       coalesce(pg_relation_size(i.oid), 0)
FROM pg_class AS t
LEFT JOIN pg_index AS x ON x.indrelid = t.oid
LEFT JOIN pg_class AS i ON i.oid = x.indexrelid
WHERE t.relkind = 'r' AND t.relnamespace = %s::regnamespace
"""


class Side:
    """What it can be asked to do."""

    def __init__(self, app: App, data_dir: Path) -> None:
        self._app = app
        self._data_dir = data_dir

    async def warm_up(self) -> None:
        """Start the database, read the model and grammars, as a server has that was used before."""
        with tempfile.TemporaryDirectory() as folder:
            for suffix in LANGUAGES:
                Path(folder, f"nothing{suffix}").write_text("nothing\n")
            await self._app.index(folder, "warm-up")

    async def cold(self, tree: str) -> dict[str, Any]:
        """A first index, in a project that is not there yet."""
        started = time.perf_counter()
        run = (await self._app.index(tree, PROJECT)).run
        seconds = time.perf_counter() - started
        assert run.status == "success", run.errors[:5]
        return {"seconds": seconds, "files": run.files_indexed, "chunks": run.chunks_created}

    async def unchanged(self, tree: str) -> dict[str, Any]:
        """A run that finds nothing to do."""
        started = time.perf_counter()
        run = (await self._app.index(tree, PROJECT)).run
        seconds = time.perf_counter() - started
        assert run.files_indexed == 0
        return {"seconds": seconds}

    async def edit(self, tree: str, path: str, name: str) -> dict[str, Any]:
        """After an edit, until it can be searched: told what has changed, as a watcher is."""
        started = time.perf_counter()
        await self._app.update(tree, [path], PROJECT)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "found": await self._finds(path, name)}

    async def edit_unseen(self, tree: str, path: str, name: str) -> dict[str, Any]:
        """The same by a run over the whole tree, which has to find the edit."""
        started = time.perf_counter()
        await self._app.index(tree, PROJECT)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "found": await self._finds(path, name)}

    async def second(self, tree: str) -> dict[str, Any]:
        """Another repository in the same project."""
        return await self.cold(tree)

    async def disk(self, tree: str) -> dict[str, Any]:
        """The bytes that are kept: tables and indexes, the write-ahead log, and all of it."""
        with psycopg.connect(
            EmbeddedServer(Embedded(self._data_dir)).join(), autocommit=True
        ) as connection:
            connection.execute("CHECKPOINT")
            found = connection.execute(RELATIONS, [SCHEMA]).fetchall()
        tables = {table: size for table, size, _, _ in found}
        indexes = {f"{table}: {index}": size for table, _, index, size in found if index}
        return {
            "bytes": sum(tables.values()) + sum(indexes.values()),
            "by_relation": dict(sorted((tables | indexes).items(), key=lambda part: -part[1])),
            "data_dir": held_bytes(self._data_dir),
            "wal": sum(held_bytes(folder) for folder in self._data_dir.rglob("pg_wal")),
        }

    async def _finds(self, path: str, name: str) -> bool:
        hits = (await self._app.search(name, PROJECT)).answer.hits
        return any(hit.file_path == path for hit in hits)


def held_bytes(folder: Path) -> int:
    """What the files of a folder hold; some may go away meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).lstat().st_size
            except OSError:
                continue
    return total


async def main() -> None:
    """Answer until the input ends."""
    data_dir = Path(sys.argv[1])
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        side = Side(app, data_dir)
        await side.warm_up()
        print(json.dumps({"ready": True}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            print(json.dumps(await getattr(side, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
