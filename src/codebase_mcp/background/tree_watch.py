"""How does the index of one repository follow its files?

What the operating system tells is only where to look: a ``Glance`` says what has changed there, so
that ignored files, swap files and saves of the same text cost nothing, and nothing is lost that
happens while an update runs. Of a tree that cannot be listened to the whole is looked at, often.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from codebase_mcp.background.ears import LIMITS, LISTENS_TO_TREES, CannotListen, Ears
from codebase_mcp.background.restless import Restless
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.freshness import Freshness
from codebase_mcp.index.build import RunResult
from codebase_mcp.source.git_directory import records_of
from codebase_mcp.source.glance import Glance, Sight

log = logging.getLogger(__name__)

# What belongs together, as a checkout does, is waited for: until nothing has happened for so long.
QUIET_S = 0.15
QUIET_GIT_S = 0.3
MOST_WAIT_S = 5.0
# Fewer paths than this are no checkout.
MANY = 30

# Whatever was told, everything is looked at so often: systems forget, and network drives are mute.
LOOK_AGAIN_S = 300.0

# A tree that cannot be listened to is looked at so often; a large one less, so that looking takes a
# twentieth of the time at most.
POLL_S = 1.0
POLL_SHARE = 20

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
GONE_S = 1.0


@dataclass(frozen=True, slots=True)
class Followed:
    """An update that was made, or the error because of which it was not."""

    root: Path
    seconds: float
    run: RunResult | None = None
    error: CodebaseError | None = None


@dataclass(slots=True)
class _News:
    """What has happened that was not looked at yet, as paths in the tree."""

    paths: set[bytes] = field(default_factory=set)
    is_elsewhere: bool = False
    at: float = 0.0
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> set[bytes]:
        paths, self.paths = self.paths, set()
        self.is_elsewhere = False
        self.came.clear()
        return paths


class TreeWatch:
    """Follows one repository until it is cancelled.

    ``tell`` hears of each update, ``behind`` whether changes are known that are not indexed yet and
    will not be at once. Without ``listens`` the tree is only looked at, again and again.
    """

    def __init__(
        self,
        freshness: Freshness,
        project: Project,
        repository_id: UUID,
        root: Path,
        *,
        tell: Callable[[Followed], None],
        behind: Callable[[bool], Awaitable[None]],
        listens: bool = True,
    ) -> None:
        self._freshness = freshness
        self._project = project
        self._repository_id = repository_id
        self._root = root
        self._tell = tell
        self._behind = behind
        self._listens = listens
        self._news = _News()
        self._ears = Ears(self._hear)
        self._restless = Restless()
        self._glance: Glance
        self._records: Path | None = None
        self._pending: set[str] = set()
        self._is_whole = False
        self._has_new_rules = False
        self._hears = True
        self._poll_s = LOOK_AGAIN_S
        self._pause_s = 0.0

    async def run(self) -> None:
        """Bring the index up to date, then let it follow."""
        try:
            while True:
                try:
                    await self._begin()
                    await self._follow()
                except FileNotFoundError:  # the root has gone; its index is kept
                    await self._wait_for_root()
                except CodebaseError as error:  # its settings are wrong, for the moment
                    await self._fail(error, 0.0)
        finally:
            await self._ears.close()

    async def _begin(self) -> None:
        """Listen first, and then bring everything up to date: so nothing falls between."""
        if not await asyncio.to_thread(self._root.is_dir):
            raise FileNotFoundError(str(self._root))
        await self._behind(True)
        selection = await asyncio.to_thread(self._freshness.selection_of, self._root)
        self._glance = await asyncio.to_thread(Glance, self._root, selection)
        self._records = await asyncio.to_thread(records_of, self._root)
        await asyncio.to_thread(self._glance.look)
        await self._listen()
        await self._look_at_new(await self._look(self._news.take(), everywhere=True))
        self._is_whole, self._has_new_rules = True, False

    async def _follow(self) -> None:
        while True:
            is_due = not (self._pending or self._is_whole) and not await self._news_came()
            await self._gather()
            paths = self._news.take()
            await self._look_at_new(await self._look(paths, everywhere=is_due))
            if self._has_new_rules:
                await self._begin()
            await self._catch_up()

    async def _news_came(self) -> bool:
        """Wait for news; False when it is time to look at everything by ourselves."""
        restless_s = self._restless.due_s(self._poll_s)
        try:
            async with asyncio.timeout(restless_s):
                await self._news.came.wait()
        except TimeoutError:
            due = self._restless.due()
            self._pending |= due
            return bool(due)
        return True

    async def _gather(self) -> None:
        """Wait until what belongs together has come, though not for ever."""
        began = time.monotonic()
        while time.monotonic() - began < MOST_WAIT_S:
            quiet_s = await self._needs_quiet()
            left_s = self._news.at + quiet_s - time.monotonic()
            if left_s <= 0:
                return
            await self._behind(True)
            await asyncio.sleep(left_s)

    async def _needs_quiet(self) -> float:
        """For how long nothing may have happened; endless while git holds its lock."""
        if self._records is not None and self._news.is_elsewhere:
            records = self._records
            if await asyncio.to_thread((records / "index.lock").exists):
                return time.monotonic() - self._news.at + QUIET_S
            rebasing = [records / "rebase-merge", records / "rebase-apply"]
            if await asyncio.to_thread(lambda: any(place.exists() for place in rebasing)):
                return QUIET_GIT_S
        return QUIET_S if len(self._news.paths) >= MANY else 0.0

    async def _look(self, paths: set[bytes], *, everywhere: bool) -> Sight:
        """What has changed at these paths, or anywhere; it is pending from now on."""
        glance = self._glance
        within = None if everywhere else paths | {path.rpartition(b"/")[0] for path in paths}
        began = time.monotonic()
        sight = await asyncio.to_thread(glance.look, within)
        if everywhere and not self._hears:
            self._poll_s = max(POLL_S, POLL_SHARE * (time.monotonic() - began))
        # Of what was named the times prove nothing: they may be those of the moment before.
        self._pending |= {os.fsdecode(path) for path in paths if glance.knows(path)}
        self._note(sight)
        # A directory that was replaced by another of its name is not listened to any more.
        sight.new_directories += glance.within(path for path in paths if path)
        return sight

    async def _look_at_new(self, sight: Sight) -> None:
        """Listen to directories that appeared, and look into them once more."""
        while sight.new_directories and self._hears:
            new = list(dict.fromkeys(sight.new_directories))
            places = [self._glance.location(path) for path in new]
            try:
                await self._ears.listen_too(places, self._places())
            except CannotListen as error:
                await self._go_deaf(error)
            sight = await asyncio.to_thread(self._glance.look, new)
            self._note(sight)

    def _note(self, sight: Sight) -> None:
        """What was seen is pending from now on."""
        self._pending |= sight.changed
        self._is_whole |= sight.is_whole
        self._has_new_rules |= sight.new_rules

    async def _listen(self) -> None:
        self._hears = self._listens
        self._poll_s = LOOK_AGAIN_S if self._hears else POLL_S
        if not self._hears:
            return
        try:
            await self._ears.listen([str(self._root)] if LISTENS_TO_TREES else self._places())
        except CannotListen as error:
            await self._go_deaf(error)

    async def _go_deaf(self, error: CannotListen) -> None:
        self._hears, self._poll_s = False, POLL_S
        await self._ears.close()
        log.warning(
            "Cannot listen to all directories of %s (%s). It is looked through again and again"
            " instead, which is slower: %s",
            self._root,
            error,
            LIMITS,
        )

    def _places(self) -> list[str]:
        records = [] if self._records is None else [str(self._records)]
        return [*self._glance.directories, *records]

    def _hear(self, locations: set[str]) -> None:
        for location in locations:
            path = self._glance.path_of(location)
            if path is None or path.startswith(b".git/") or path == b".git":
                self._news.is_elsewhere = True
            else:
                self._news.paths.add(path)
        self._news.at = time.monotonic()
        self._news.came.set()

    async def _catch_up(self) -> None:
        """Let the index follow what is pending; where that fails it stays pending."""
        if not self._is_whole:
            self._pending = self._restless.let_through(self._pending)
        if not (self._pending or self._is_whole):
            if not self._restless.has_any:
                await self._behind(False)
            return
        paths, is_whole = self._pending, self._is_whole
        self._pending, self._is_whole = set(), False
        began = time.monotonic()
        try:
            run = await self._freshness.bring(
                self._project, self._root, None if is_whole else paths
            )
            if is_whole and run is not None:
                await self._keep_stored()
        except CodebaseError as error:
            self._pending |= paths
            self._is_whole |= is_whole
            await self._fail(error, time.monotonic() - began)
            return
        except BaseException:
            self._pending |= paths
            self._is_whole |= is_whole
            raise
        self._pause_s = 0.0
        if run is not None and (is_whole or run.files_indexed or run.files_removed):
            self._tell(Followed(self._root, time.monotonic() - began, run=run))
        if not (self._news.paths or self._restless.has_any):
            await self._behind(False)

    async def _keep_stored(self) -> None:
        """Look at what is indexed though the rules leave it out: git may have it in its index."""
        stored = await self._freshness.stored_paths(self._project, self._repository_id)
        new = await asyncio.to_thread(self._glance.keep, stored)
        await self._look_at_new(Sight(new_directories=new))

    async def _fail(self, error: CodebaseError, seconds: float) -> None:
        """Say so, and wait; longer each time."""
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._tell(Followed(self._root, seconds, error=error))
        log.warning("%s is not followed for %.1f s: %s", self._root, self._pause_s, error.message)
        await self._behind(True)
        self._news.came.clear()
        await asyncio.sleep(FIRST_PAUSE_S)
        with suppress(TimeoutError):  # what is saved next may be what was missing
            async with asyncio.timeout(self._pause_s - FIRST_PAUSE_S):
                await self._news.came.wait()

    async def _wait_for_root(self) -> None:
        log.warning("%s is not there; its index is kept", self._root)
        await self._ears.close()
        while not await asyncio.to_thread(self._root.is_dir):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(GONE_S)
