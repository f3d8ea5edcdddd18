"""Listening to directories: what is heard, and what happens at the system's limits."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codebase_mcp.background.ears import Ears

pytestmark = pytest.mark.anyio

LIMIT_S = 30.0

BEYOND_THE_LIMIT = """
import asyncio, sys
from pathlib import Path
from codebase_mcp.background.ears import CannotListen, Ears
Path("/proc/sys/user/max_inotify_watches").write_text("10")
async def main():
    ears = Ears(lambda paths: None)
    try:
        await ears.listen(sys.argv[1:])
    except CannotListen as error:
        print(error)
asyncio.run(main())
"""


async def heard(news: list[str], name: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not any(path.endswith(name) for path in news):
        assert time.monotonic() < deadline, news
        await asyncio.sleep(0.01)


async def test_directories_that_are_added_are_heard_beside_the_others(tmp_path: Path) -> None:
    news: list[str] = []
    ears = Ears(news.extend)
    places = [tmp_path / f"d{number}" for number in range(8)]
    for place in places:
        place.mkdir()
    try:
        await ears.listen([str(places[0])])
        for number, place in enumerate(places[1:], 2):
            await ears.listen_too([str(place)], [str(one) for one in places[:number]])
        for place in places:
            (place / f"{place.name}.py").write_text("x\n")
            await heard(news, f"{place.name}.py")
    finally:
        await ears.close()


async def test_a_directory_that_has_just_gone_is_no_failure(tmp_path: Path) -> None:
    news: list[str] = []
    ears = Ears(news.extend)
    try:
        await ears.listen([str(tmp_path / "gone"), str(tmp_path)])
        (tmp_path / "a.py").write_text("x\n")
        await heard(news, "a.py")
    finally:
        await ears.close()


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
