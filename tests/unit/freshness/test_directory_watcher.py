"""Watching directories: reported events, and the limits of the system."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.waiting import until

from codebase_mcp.app.freshness.directory_watcher import DirectoryWatcher, open_notify

pytestmark = pytest.mark.anyio

BEYOND_THE_LIMIT = """
import asyncio, sys
from pathlib import Path
from codebase_mcp.app.freshness.directory_watcher import CannotWatch, DirectoryWatcher
Path("/proc/sys/user/max_inotify_watches").write_text("10")
async def main():
    watcher = DirectoryWatcher(lambda paths: None)
    try:
        await watcher.watch(sys.argv[1:])
    except CannotWatch as error:
        print(error)
asyncio.run(main())
"""


async def reported(events: list[str], name: str) -> None:
    await until(lambda: any(path.endswith(name) for path in events))


async def test_added_directories_are_watched_like_the_others(tmp_path: Path) -> None:
    events: list[str] = []
    watcher = DirectoryWatcher(events.extend)
    places = [tmp_path / f"d{number}" for number in range(8)]
    for place in places:
        place.mkdir()
    try:
        await watcher.watch([str(places[0])])
        for number in range(2, len(places) + 1):
            await watcher.watch([str(one) for one in places[:number]])
        for place in places:
            (place / f"{place.name}.py").write_text("x\n")
            await reported(events, f"{place.name}.py")
    finally:
        await watcher.close()


async def test_a_directory_that_no_longer_exists_is_skipped(tmp_path: Path) -> None:
    events: list[str] = []
    watcher = DirectoryWatcher(events.extend)
    try:
        await watcher.watch([str(tmp_path / "gone"), str(tmp_path)])
        (tmp_path / "a.py").write_text("x\n")
        await reported(events, "a.py")
    finally:
        await watcher.close()


def test_watchfiles_reports_events_from_when_it_is_open_until_it_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    notify = open_notify([str(tmp_path)])
    (tmp_path / "a.py").touch()
    events = notify.watch(100, 25, 0, stop)
    assert {path for _, path in events} == {str(tmp_path / "a.py")}
    stop.set()
    assert notify.watch(100, 25, 0, stop) == "stop"
    notify.close()


@pytest.mark.skipif(not shutil.which("unshare"), reason="limits are set in a namespace of users")
def test_more_directories_than_the_system_allows_are_refused(tmp_path: Path) -> None:
    places = [tmp_path / f"d{number}" for number in range(20)]
    for place in places:
        place.mkdir()
    inner = ["unshare", "--user", "--map-root-user"]
    program = [sys.executable, "-c", BEYOND_THE_LIMIT, *map(str, places)]
    if subprocess.run([*inner, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces of users are closed here")
    done = subprocess.run([*inner, *program], capture_output=True, text=True, check=False)

    assert "limit" in done.stdout, done.stderr
