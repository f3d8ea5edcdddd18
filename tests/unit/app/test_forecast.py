"""What is expected of a run, from its files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from codebase_mcp.app.forecast import (
    SAMPLE_FILES,
    Forecast,
    Share,
    Stored,
    forecast,
    largest_folders,
)
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.source_tree import source_tree_at
from codebase_mcp.source.walk import list_files


def make_file(path: str, size: int) -> SourceFile:
    return SourceFile(path, path, size, 0, 0, "python", FileKind.CODE, named_as_source=True)


def forecast_of(root: Path, workers: int = 2) -> Forecast:
    return forecast(
        source_tree_at(root),
        Stored(),
        model=StaticEmbedder.load(),
        dimension=256,
        workers=workers,
    )


def test_the_largest_folders_count_all_below_them_and_say_nothing_twice() -> None:
    files = [
        make_file("top.py", 1000),
        make_file("a/only/x.py", 90),
        make_file("a/only/y.py", 5),
        make_file("b/one/z.py", 30),
        make_file("b/two/z.py", 30),
    ]
    assert largest_folders(files) == (
        Share("a/only", 2, 95),
        Share("b", 2, 60),
        Share("b/one", 1, 30),
        Share("b/two", 1, 30),
    )
    assert largest_folders(files, most=1) == (Share("a/only", 2, 95),)
    assert largest_folders([make_file("top.py", 1)]) == ()


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """More files than are looked at, each of two chunks."""
    half = "\n".join(f"def f{n}(x):\n    return x + {n}\n" for n in range(35))
    for number in range(3 * SAMPLE_FILES):
        folder = tmp_path / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"m{number}.py").write_text(half)
    return tmp_path


def test_a_sample_tells_what_all_files_are(many: Path) -> None:
    listing = list_files(many)
    first, second = (forecast_of(many) for _ in range(2))
    assert first.sample.files == SAMPLE_FILES
    assert first.chunks == first.sample.chunks * 3 == second.chunks
    assert first.seconds > first.sample.seconds > 0
    assert first.database_bytes > first.bytes == sum(file.size for file in listing.files)
    assert (first.new, first.unchanged, first.removed) == (3 * SAMPLE_FILES, 0, 0)


def test_nothing_to_do_takes_nothing(tmp_path: Path) -> None:
    found = forecast_of(tmp_path)
    assert (found.files, found.chunks, found.seconds, found.database_bytes) == (0, 0, 0.0, 0)
