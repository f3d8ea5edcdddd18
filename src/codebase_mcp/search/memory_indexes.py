"""Which indexes are kept in memory, and are they up to date?

In a long-lived process (a server, a library) the first search of some snapshots loads a memory
index of them in the background. Later searches use it: they find the same candidates in a fraction
of the time. There is one index for the working trees of a project, and one for each searched
commit. Each is also a file, which all processes of the machine map: the first that needs it reads
the database, the others and the next ones find the file, also a program that ends after a single
search. PostgreSQL stays the source of truth: every search reads the versions of the snapshots
first. If an index is outdated, the search reads what has changed, and keeps it beside the index
(``segments.py``). If that is too much it uses the database, and the next index takes over what has
not changed. The database is also used where there is no index yet, and for indexes that are larger
than the memory allowed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.errors import CodebaseError
from codebase_mcp.search.image_folder import ImageFolder
from codebase_mcp.search.index_files import mapped_index, write_index
from codebase_mcp.search.index_reading import brought_up_to, current_version, read_index
from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.scope import InMemory, ScopedSnapshot, ScopeVersion, version_of
from codebase_mcp.search.segments import Segments

_log = logging.getLogger(__name__)

# Loading waits this long for the index to stop changing, as an index run commits many batches; and
# a part of it where an older index has most of the texts.
QUIET_S = 1.0
_UPDATE_SHARE = 0.2

# While an index keeps changing, loading takes at most this share of the time.
_LOAD_SHARE = 0.2

# An index that no search has used for this long is dropped.
IDLE_S = 900.0

# Whether another process has made an index is looked up after each of these times.
_CLAIMED_S = 0.2

_Key = tuple[str, "tuple[int, ...] | None"]


@dataclass(slots=True)
class _Slot:
    """An index if it is loaded; ``refused`` is a version that cannot be kept in memory.

    ``older`` is the one before, of which the next one takes what has not changed. ``seen`` tells
    the last file that was opened.
    """

    index: Segments | None = None
    older: Segments | None = None
    seen: tuple[int, int] | None = None
    loading: asyncio.Task[None] | None = None
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)
    refused: ScopeVersion | None = None
    used_at: float = 0.0
    loaded_at: float = 0.0
    load_s: float = 0.0


class MemoryIndexes:
    """The memory indexes of this process, of the most recently searched snapshots.

    ``snapshot_ids`` are snapshots of commits; None means those that are searched by default.
    """

    def __init__(self, database: Database, folder: Path, *, most_bytes: int) -> None:
        self._database = database
        self._files = ImageFolder(folder, "index")
        self._most_bytes = most_bytes
        self._slots: OrderedDict[_Key, _Slot] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def get(self, project: Project, snapshot_ids: tuple[int, ...] | None = None) -> Segments | None:
        """What is in memory of some snapshots, perhaps of an older version."""
        if not self._most_bytes:
            return None
        slot = self._slot(project, snapshot_ids)
        if slot.index is None:
            self._open(slot, _file_name(project, snapshot_ids))
            if slot.index is not None:
                self._make_room()
        return slot.index

    def getter(
        self, project: Project, snapshot_ids: tuple[int, ...] | None = None
    ) -> InMemory | None:
        """A function that gets what is in memory, brought up to date; None if nothing is."""
        if self.get(project, snapshot_ids) is None:
            return None
        slot = self._slot(project, snapshot_ids)

        async def updated(tx: Transaction, snapshots: Sequence[ScopedSnapshot]) -> Segments | None:
            version = version_of(snapshots)
            async with slot.updating:
                if slot.index is None or slot.index.version == version:
                    return slot.index
                # What was erased is in no file any more, so it should not stay here either.
                if not self._open(slot, _file_name(project, snapshot_ids)):
                    return None
                held = slot.index
                if held.version == version:
                    return held
                profiles = list({snapshot.profile.id for snapshot in snapshots})
                newer = await brought_up_to(tx, held, version, profiles)
                if newer is not None and slot.index is held:
                    slot.index = newer
                return newer

        return updated

    def _slot(self, project: Project, snapshot_ids: tuple[int, ...] | None) -> _Slot:
        """The slot of some snapshots, which are being searched."""
        key = project.schema_name, snapshot_ids
        slot = self._slots.setdefault(key, _Slot())
        self._slots.move_to_end(key)
        slot.used_at = time.monotonic()
        return slot

    def _open(self, slot: _Slot, name: str) -> bool:
        """Map the file of an index, unless it was seen before; whether there is one."""
        made = self._files.use(name)
        if made is not None and made != slot.seen:
            slot.seen = made
            with suppress(OSError, ValueError, KeyError):
                index = mapped_index(self._files.map(name))
                if index.size_bytes <= self._most_bytes:
                    slot.index = Segments(index)
        return made is not None

    def schedule(
        self,
        project: Project,
        version: ScopeVersion,
        snapshot_ids: tuple[int, ...] | None = None,
    ) -> None:
        """Put aside an index of an older version than the current ``version``; load that soon."""
        if self._closed or not self._most_bytes:
            return
        slot = self._slot(project, snapshot_ids)
        if slot.index is not None and slot.index.version != version:
            slot.older, slot.index = slot.index, None
        is_due = slot.index is None or slot.index.is_large
        if is_due and slot.refused != version and slot.loading is None:
            slot.loading = asyncio.create_task(self._load(project, snapshot_ids, slot))

    async def forget(self, project: Project) -> None:
        """Drop the indexes of a project that was dropped, and stop loading."""
        keys = [key for key in self._slots if key[0] == project.schema_name]
        dropped = [self._slots.pop(key) for key in keys]
        loading = [slot.loading for slot in dropped if slot.loading is not None]
        for task in loading:
            task.cancel()
        if loading:
            await asyncio.wait(loading)
        self._files.forget(f"{project.schema_name}-")

    async def wait_idle(self) -> None:
        """Wait until no index is being loaded."""
        tasks = [slot.loading for slot in self._slots.values() if slot.loading is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Drop all indexes."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for slot in self._slots.values():
            if slot.loading is not None:
                slot.loading.cancel()
        await self.wait_idle()
        self._slots.clear()

    async def _load(
        self, project: Project, snapshot_ids: tuple[int, ...] | None, slot: _Slot
    ) -> None:
        try:
            pause = slot.loaded_at + slot.load_s / _LOAD_SHARE - time.monotonic()
            quiet_s = QUIET_S if slot.older is None else QUIET_S * _UPDATE_SHARE
            await asyncio.sleep(max(quiet_s, pause))
            started = time.monotonic()
            await self._read(project, snapshot_ids, slot)
            slot.loaded_at = time.monotonic()
            slot.load_s = slot.loaded_at - started
            self._make_room()
            await asyncio.to_thread(return_freed_memory)
        except CodebaseError as error:
            _log.warning("could not read an index into memory: %s", error.message)
        finally:
            slot.loading = None

    async def _read(
        self, project: Project, snapshot_ids: tuple[int, ...] | None, slot: _Slot
    ) -> None:
        """Map the file that another process has made or makes, or make it."""
        name = _file_name(project, snapshot_ids)
        while True:
            with self._files.claim(name) as is_mine:
                async with self._database.transaction(project, readonly=True) as tx:
                    self._open(slot, name)
                    version, profiles = await current_version(tx, snapshot_ids)
                    held = slot.index
                    if held is not None and held.version == version and not held.is_large:
                        return
                    if is_mine:
                        older = held or slot.older
                        index = await read_index(
                            tx, self._most_bytes, version, profiles, older.base if older else None
                        )
                        slot.index, slot.older = Segments(index) if index else None, None
                if is_mine:
                    slot.refused = version if index is None else None
                    if index is not None:
                        await self._keep(slot, name, index)
                    return
            await asyncio.sleep(_CLAIMED_S)

    async def _keep(self, slot: _Slot, name: str, index: MemoryIndex) -> None:
        """Write a new index to its file, and map that instead."""

        def write() -> None:
            with self._files.new(name) as file:
                write_index(file, index)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            _log.warning("Cannot keep an index: %s", error)
        else:
            self._open(slot, name)

    def _make_room(self) -> None:
        """Drop idle indexes, and the least recently used ones if they exceed the memory."""
        oldest = time.monotonic() - IDLE_S
        held = 0
        for slot in reversed(self._slots.values()):
            if slot.index is not None:
                held += slot.index.size_bytes
                if held > self._most_bytes or slot.used_at < oldest:
                    slot.index = slot.older = slot.seen = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if held and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._make_room)


def return_freed_memory() -> None:
    """Return the memory that glibc keeps after it was freed: some 30 MB after a load."""
    import ctypes  # noqa: PLC0415 - costs a megabyte, which a command need not pay

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _file_name(project: Project, snapshot_ids: tuple[int, ...] | None) -> str:
    if snapshot_ids is None:
        return f"{project.schema_name}-worktrees"
    joined = ",".join(map(str, snapshot_ids))
    return f"{project.schema_name}-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"
