"""Listing some paths of a tree finds what listing all of it finds there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from codebase_mcp.source.listing_builder import PathFilter
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]

FILES = {
    ".gitignore": "*.log\nbuild/\n",
    ".mcpignore": "private/\n",
    "a.py": "a = 1\n",
    "a/b.py": "b = 1\n",
    "a/c/d.py": "d = 1\n",
    "a/c/.gitignore": "!kept.log\nhidden.py\n",
    "a/c/kept.log": "log\n",
    "a/c/hidden.py": "h = 1\n",
    "ab/e.py": "e = 1\n",
    "build/f.py": "f = 1\n",
    "private/g.py": "g = 1\n",
    "node_modules/h/i.js": "let i\n",
    "inner/j.py": "j = 1\n",
    "inner/k/l.py": "l = 1\n",
    "inner/k/m.log": "log\n",
    "ü ñ.md": "# text\n",
}
ASKED = (
    ".", "a", "a.py", "a/b.py", "a/c", "a/c/kept.log", "a/c/hidden.py", "build", "build/f.py",
    "private/g.py", "node_modules", "inner", "inner/k", "inner/k/m.log", "inner/k/l.py", "ü ñ.md",
    "gone.py", "gone/for/ever.py", "link", "link/b.py", "sub", "sub/n.py",
)  # fmt: skip


KINDS = ["plain", "git", "nested", "impostor", "records", "submodule", "subdirectory", "ignored"]


@pytest.fixture(params=KINDS)
def root(tree: Path, git: Git, request: pytest.FixtureRequest) -> Path:
    """The same files in trees of several kinds."""
    kind = request.param
    top = tree / "top"
    root = top / "here" if kind in ("subdirectory", "ignored") else top
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    (root / "link").symlink_to("a")
    if kind == "plain":
        return root
    git(top, "init")
    if kind == "ignored":
        (top / ".gitignore").write_text("here/\n")
    if kind == "nested":
        git(root / "inner", "init")
        (root / "inner/k/.gitignore").write_text("l.py\n")
    if kind == "impostor":
        git(tree, "init", "other")
        (root / "inner/.git").write_text(f"gitdir: {tree / 'other/.git'}\n")
    if kind == "records":
        git(root / "inner", "init", "--bare")
    if kind == "submodule":
        other = tree / "other"
        other.mkdir()
        git(other, "init")
        (other / "n.py").write_text("n = 1\n")
        git(other, "add", "-A")
        git(other, "commit", "-m", "one")
        git(root, "-c", "protocol.file.allow=always", "submodule", "add", str(other), "sub")
    if kind == "git":
        git(top, "add", "a.py", "a/c/d.py")
    return root


def test_some_paths_are_listed_as_the_whole_is(root: Path) -> None:
    selection = Selection(include_submodules=True)
    whole = {file.path: file for file in list_files(root, selection).files}
    assert len(whole) >= 8
    wanted = [{path} for path in ASKED] + [set(pair) for pair in combinations(ASKED[1:], 2)][::7]
    for paths in wanted:
        asked = {"" if path == "." else path for path in paths}
        path_filter = PathFilter(path.encode() for path in asked)
        expected = [file for path, file in whole.items() if path_filter.covers(path.encode())]
        found = list(list_files(root, selection, asked).files)
        assert found == expected, paths


def test_an_extent_covers_what_is_named_and_below() -> None:
    path_filter = PathFilter([b"a/b", b"c"])
    assert (
        path_filter.covers(b"a/b") and path_filter.covers(b"a/b/c/d") and path_filter.covers(b"c")
    )
    assert (
        not path_filter.covers(b"a")
        and not path_filter.covers(b"a/bc")
        and not path_filter.covers(b"")
    )
    assert (
        path_filter.may_contain(b"a")
        and path_filter.may_contain(b"")
        and not path_filter.may_contain(b"d")
    )
    assert path_filter.relative_to(b"a") == [b"b"]
    assert path_filter.relative_to(b"") == [b"a/b", b"c"]
    assert path_filter.relative_to(b"a/b") is None
    assert path_filter.relative_to(b"d") == []


def test_without_paths_everything_is_covered() -> None:
    assert (
        PathFilter().covers(b"a/b")
        and PathFilter().may_contain(b"a")
        and PathFilter().relative_to(b"a") is None
    )
    assert PathFilter([b""]).covers(b"a/b") and PathFilter([b""]).relative_to(b"") is None
