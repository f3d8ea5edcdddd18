"""Files are told by paths of other machines, components, names and folders."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from codebase_mcp.context.features import (
    COLUMNS,
    Features,
    FileTable,
    Seed,
    add_neighbours,
    add_paths,
    add_scopes,
    rows_of_path,
)
from codebase_mcp.context.task import Task, TaskPath
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.search.exact import TextFile
from codebase_mcp.search.scope import ScopedSnapshot

SNAPSHOT = ScopedSnapshot(
    Profile.__new__(Profile), uuid4(), "worktree", 1, uuid4(), "/repo", "repo", 1.0, 0, 0, "{}",
    datetime.now(UTC),
)  # fmt: skip
PATHS = {
    "src/net/retry.py": "code",
    "src/jobs/retry.py": "code",
    "src/net/client.py": "code",
    "tests/net/test_client.py": "test",
    "docs/client.md": "docs",
}


@pytest.fixture
def features() -> Features:
    return Features(
        FileTable(
            TextFile(SNAPSHOT, path, number, "python", path.rpartition(".")[2], kind)
            for number, (path, kind) in enumerate(PATHS.items())
        )
    )


def told(features: Features, column: str) -> dict[str, float]:
    numbers = features.columns[column]
    return {
        file.path: round(float(number), 2)
        for file, number in zip(features.files, numbers, strict=True)
        if number
    }


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/srv/app/src/net/retry.py", ["src/net/retry.py"]),
        (r"C:\work\SRC\net\retry.py", ["src/net/retry.py"]),
        ("retry.py", ["src/net/retry.py", "src/jobs/retry.py"]),
        ("other.py", []),
    ],
)
def test_a_path_means_the_files_with_the_longest_common_end(
    features: Features, path: str, paths: list[str]
) -> None:
    assert [features.files[row].path for row in rows_of_path(features, path)] == paths


def test_the_innermost_own_frame_counts_most(features: Features) -> None:
    frames = [("lib/site-packages/x.py", 1, True), ("net/client.py", 2, False),
              ("jobs/retry.py", 3, False)]  # fmt: skip
    paths = tuple(TaskPath(p, "trace", 7, None, n, is_library) for p, n, is_library in frames)
    lines = add_paths(features, Task("", "", paths=paths))
    assert told(features, "frame") == {"src/net/client.py": 1.0, "src/jobs/retry.py": 0.5}
    assert lines == {2: [7], 1: [7]}
    assert features.reasons(2) == ("in the trace:7, frame 2",)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/opt/env/lib/python3.11/site-packages/net/client.py", True),
        ("/home/me/node_modules/shop/net/client.py", True),
        ("/usr/lib/python3.11/net/client.py", False),
        ("/opt/env/site-packages/client.py", False),
    ],
)
def test_a_frame_in_an_installed_copy_is_one_of_ours(
    features: Features, path: str, is_own: bool
) -> None:
    add_paths(features, Task("", "", paths=(TaskPath(path, "trace", 7, None, 1, True),)))
    assert bool(features.columns["frame"][2]) == is_own


def test_the_lines_of_a_hunk_are_behind_its_head(features: Features) -> None:
    assert add_paths(features, Task("", "", paths=(TaskPath("net/client.py", "change", 40),))) == {
        2: [43]
    }


def test_a_component_is_a_file_or_a_folder(features: Features) -> None:
    add_scopes(features, Task("", "", scopes=("net",)))
    assert set(told(features, "scope")) == {
        "src/net/retry.py", "src/net/client.py", "tests/net/test_client.py"
    }  # fmt: skip


def test_neighbours_are_named_alike_or_lie_together(features: Features) -> None:
    add_neighbours(features, [Seed(2, 1.0)], "given")
    assert set(told(features, "name_of_given")) == {"tests/net/test_client.py", "docs/client.md"}
    assert set(told(features, "folder_of_given")) == {"src/net/retry.py"}
    assert features.reasons(3) == ("test named after client.py",)


def test_a_weak_reason_is_not_told_beside_a_strong_one(features: Features) -> None:
    for reason, weight in [("weak", 0.1), ("strong", 0.9), ("good", 0.6), ("fair", 0.5)]:
        features.put("named", 0, weight, reason, weight)
    assert features.reasons(0) == ("strong", "good")
    assert features.matrix([0])[0, COLUMNS.index("named")] == pytest.approx(0.9)
