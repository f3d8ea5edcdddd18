"""A scan at a tree: what has changed since the last one, by names and times alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.source.selection import Patterns, Selection
from codebase_mcp.source.tree_scan import TreeScan
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]


@pytest.fixture
def root(make_repo: Callable[..., Path]) -> Path:
    files = {
        "a.py": "a\n",
        "src/b.py": "b\n",
        "src/deep/c.py": "c\n",
        ".gitignore": "out/\n*.log\n",
    }
    return make_repo({**files, "out/d.py": "d\n", "node_modules/e.js": "e\n", "x.log": "x\n"})


@pytest.fixture
def work_tree(root: Path, git: Git) -> Path:
    git(root, "init")
    git(root, "add", "--all")
    return root


def seen(root: Path, selection: Selection | None = None) -> TreeScan:
    scan = TreeScan(root, selection or Selection())
    assert scan.changes().is_empty
    return scan


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda root: (root / "a.py").write_text("longer\n"), {"a.py"}),
        (lambda root: (root / "src/deep/new.py").write_text("n\n"), {"src/deep/new.py"}),
        (lambda root: (root / "src/b.py").unlink(), {"src/b.py"}),
        (lambda root: shutil.rmtree(root / "src"), {"src"}),
        (lambda root: (root / "src").rename(root / "lib"), {"src", "lib/b.py", "lib/deep/c.py"}),
        (lambda root: os.utime(root / "a.py", ns=(1, 1)), {"a.py"}),
        (lambda root: (root / "empty/below").mkdir(parents=True), set()),
        (lambda root: (root / "out/d.py").write_text("changed\n"), set()),
        (lambda root: (root / "y.log").write_text("y\n"), set()),
        (lambda root: (root / "node_modules/f.js").write_text("f\n"), set()),
        (lambda root: (root / "logo.png").write_bytes(b"\x89PNG"), set()),
        (lambda root: (root / "link.py").symlink_to("a.py"), set()),
    ],
    ids=lambda value: ",".join(sorted(value)) or "nothing" if isinstance(value, set) else "change",
)
@pytest.mark.parametrize("in_git", [False, True], ids=["bare", "git"])
def test_a_scan_finds_changes_and_nothing_that_is_ignored(
    root: Path,
    change: Callable[[Path], object],
    expected: set[str],
    in_git: bool,
    request: pytest.FixtureRequest,
) -> None:
    if in_git:
        request.getfixturevalue("work_tree")
    scan = seen(root)

    change(root)

    changes = scan.changes()
    assert (changes.changed, changes.needs_full_run) == (expected, False)
    assert scan.changes().is_empty


def test_a_file_that_became_a_link_is_gone(root: Path) -> None:
    scan = seen(root)
    (root / "a.py").unlink()
    (root / "a.py").symlink_to("src/b.py")

    assert scan.changes().changed == {"a.py"}


def test_an_ignored_file_that_git_tracks_is_scanned(work_tree: Path, git: Git) -> None:
    git(work_tree, "add", "--force", "out/d.py")
    scan = seen(work_tree)
    scan.track(file.path for file in list_files(work_tree).files)

    (work_tree / "out/d.py").write_text("changed\n")
    assert scan.changes().changed == {"out/d.py"}
    (work_tree / "out/d.py").unlink()
    assert scan.changes().changed == {"out/d.py"}
    (work_tree / "out/d.py").write_text("back\n")
    assert scan.changes().changed == {"out/d.py"}


@pytest.mark.parametrize(
    "name", [".gitignore", ".mcpignore", "src/.gitignore", ".mcp-context.toml"]
)
def test_a_changed_rule_file_needs_a_full_run(root: Path, name: str) -> None:
    scan = seen(root)

    (root / name).write_text("# changed\n")

    changes = scan.changes()
    assert (changes.needs_full_run, changes.has_new_rules) == (True, True)


def test_a_change_of_the_git_index_needs_a_full_run(work_tree: Path, git: Git) -> None:
    scan = seen(work_tree)

    git(work_tree, "add", "--force", "out/d.py")

    changes = scan.changes()
    assert (changes.needs_full_run, changes.has_new_rules) == (True, False)


def test_a_rule_above_the_root_counts(work_tree: Path) -> None:
    scan = seen(work_tree / "src")

    (work_tree / ".gitignore").write_text("deep/\n")

    assert scan.changes().has_new_rules


def test_a_nested_repository_has_its_own_rules(work_tree: Path, git: Git) -> None:
    inner = work_tree / "inner"
    inner.mkdir()
    git(inner, "init")
    (inner / ".gitignore").write_text("secret.py\n")
    scan = seen(work_tree)

    (inner / "secret.py").write_text("s\n")
    (inner / "open.log").write_text("o\n")

    assert scan.changes().changed == {"inner/open.log"}


def test_patterns_of_the_settings_count(root: Path) -> None:
    scan = seen(root, Selection(patterns=(Patterns(root, ("src/",)),)))

    (root / "src/b.py").write_text("changed\n")

    assert scan.changes().is_empty


def test_a_scan_of_some_directories_finds_changes_there(root: Path) -> None:
    scan = seen(root)
    (root / "a.py").write_text("changed\n")
    (root / "src/b.py").write_text("changed\n")
    (root / "src/new").mkdir()
    (root / "src/new/f.py").write_text("f\n")

    changes = scan.changes([b"src"])

    assert changes.changed == {"src/b.py", "src/new/f.py"}
    assert changes.new_directories == [b"src/new"]
    assert scan.changes().changed == {"a.py"}


def test_a_missing_root_is_not_a_tree_of_deleted_files(root: Path) -> None:
    scan = seen(root)
    root.rename(root.with_name("elsewhere"))

    with pytest.raises(FileNotFoundError):
        scan.changes()


def test_names_that_are_not_utf8_are_scanned(root: Path) -> None:
    scan = seen(root)
    (root / os.fsdecode(b"caf\xe9.py")).write_text("c\n")

    assert scan.changes().changed == {os.fsdecode(b"caf\xe9.py")}


def test_all_directories_that_may_contain_source_are_listed(work_tree: Path) -> None:
    (work_tree / "empty").mkdir()
    scan = seen(work_tree)

    places = {str(work_tree / path) for path in ("", "src", "src/deep", "empty")}
    assert set(scan.directories) == places
