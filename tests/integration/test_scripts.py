"""Programs of others that use the library: what indexes starts processes, which import them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.index.pool import SMALL_CHARS
from codebase_mcp.settings.loading import Settings

MakeRepo = Callable[..., Path]

LIMIT_S = 120

MAIN = """\
import asyncio
import sys
from pathlib import Path

from codebase_mcp import App

async def main():
    async with await App.open() as app:
        print((await app.index(sys.argv[1], sys.argv[2])).run.status)

"""
GUARD = 'if __name__ == "__main__":'


@pytest.fixture
def run(
    make_repo: MakeRepo, settings: Settings, tmp_path: Path, project_id: str
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a program that indexes so much that worker processes do it."""
    text = "def number():\n    return 1\n" * 2_000
    count = SMALL_CHARS // len(text) + 1
    root = make_repo({f"m{n}.py": f"# {n}\n{text}" for n in range(count)})

    def run(program: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(MAIN + program)
        return subprocess.run(
            [sys.executable, script, root, project_id],
            env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run


def test_a_program_with_the_guard_indexes(
    run: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    ended = run(f"{GUARD}\n    asyncio.run(main())\n")
    assert (ended.stdout, ended.returncode) == ("success\n", 0), ended.stderr


@pytest.mark.parametrize(
    "program",
    [
        "asyncio.run(main())\n",
        "try:\n    asyncio.run(main())\nexcept ZeroDivisionError:\n    pass\n",
        "Path('once').mkdir()\nasyncio.run(main())\n",
    ],
    ids=["plain", "in a try", "fails when imported again"],
)
def test_a_program_without_the_guard_ends_with_an_error_that_shows_it(
    run: Callable[[str], subprocess.CompletedProcess[str]], program: str
) -> None:
    ended = run(program)
    assert ended.returncode == 1
    assert not ended.stdout
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("codebase_mcp.errors.IndexingFailed: The worker processes cannot start")
    assert GUARD in last


def test_the_environment_of_a_program_stays_as_it_was(
    run: Callable[[str], subprocess.CompletedProcess[str]], settings: Settings
) -> None:
    ended = run(
        f"{GUARD}\n    import os\n    before = dict(os.environ)\n    asyncio.run(main())\n"
        "    print(set(os.environ.items()) ^ set(before.items()))\n"
    )
    assert ended.stdout == "success\nset()\n", ended.stderr
    assert list((settings.data_dir / "grammars").rglob("libtree_sitter_python.*"))
