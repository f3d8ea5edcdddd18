"""A commit has the files that its clean checkout has, whatever lies in the work tree meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import FileFailure, Listing
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_objects import read_blobs
from codebase_mcp.source.listing_builder import MISSING
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES
from codebase_mcp.source.selection import EVERYTHING, Patterns, Selection
from codebase_mcp.source.source_tree import list_files_at
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]

Files = dict[str, bytes | Path]
"""What to commit: contents, or the targets of links."""


def opened(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def committed(git: Git, root: Path, files: Files) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    git(root, "add", "--all", "--force")
    git(root, "commit", "--allow-empty", "-m", "x")
    return git(root, "rev-parse", "HEAD").decode().strip()


def as_of_a_commit(listing: Listing) -> Listing:
    """A listing of a work tree without what only files on disk have."""
    files = tuple(replace(f, location="", mtime_ns=0, ctime_ns=0) for f in listing.files)
    return replace(listing, files=files)


def mess_up(work_tree: Path) -> None:
    """Leave a work tree that says something else about every path."""
    for path in sorted(work_tree.iterdir()):
        if path.name == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (work_tree / ".mcpignore").write_text("*\n")
    (work_tree / ".gitattributes").write_text("* linguist-generated\n")


def assert_same_as_checkout(
    git: Git, repository: Path, inner: str, commit: str, selection: Selection = EVERYTHING
) -> Listing:
    """Compare with a clean checkout at the same place, then read the commit from a messy one."""
    root = repository / inner
    git(repository, "checkout", "--force", "--detach", commit)
    git(repository, "clean", "-ffdxq")
    expected = as_of_a_commit(list_files(root, selection))
    place = opened(root)
    mess_up(repository)
    root.mkdir(parents=True, exist_ok=True)
    found = list_files_at(place, commit, selection)
    assert [replace(file, location="") for file in found.files] == list(expected.files)
    assert found.skipped == expected.skipped
    assert found.failures == expected.failures
    assert found.root == root
    assert_objects_have_the_sizes(place, found)
    return found


def assert_objects_have_the_sizes(place: GitRepository, found: Listing) -> None:
    contents = dict(read_blobs(place, [file.location for file in found.files], 1 << 21))
    for file in found.files:
        content = contents[file.location]
        assert isinstance(content, bytes)
        assert len(content) == file.size


ORDINARY: Files = {
    "README.md": b"# x\n",
    "src/main.py": b"x = 1\n",
    "src/run": b"#!/bin/sh\n",
    "tests/test_main.py": b"assert x\n",
    "node_modules/x/index.js": b"x\n",
    "vendor/lib/a.go": b"package lib\n",
    "dist/app.min.js": b"x\n",
    "logo.png": b"\x89PNG",
    "empty": b"",
    ".gitignore": b"*.log\nbuild/\n",
    "tracked.log": b"x\n",
    "build/out.py": b"x\n",
}
ATTRIBUTES: Files = {
    ".gitattributes": b"*.gen.py linguist-generated\nlib/** linguist-vendored=true\n"
    b"vendor/ours.py -linguist-vendored\n*_pb2.py linguist-generated=false\n"
    b"docs/** linguist-documentation\n* filter=evil text eol=lf\n",
    "a.gen.py": b"x\n",
    "lib/b.py": b"x\n",
    "lib/.gitattributes": b"c.py -linguist-vendored\n",
    "lib/c.py": b"x\n",
    "vendor/ours.py": b"x\n",
    "vendor/theirs.py": b"x\n",
    "rpc_pb2.py": b"x\n",
    "docs/conf.py": b"x\n",
    "big.gen.py": b"x" * 3_000,
    "hidden/.mcpignore": b".gitattributes\n",
    "hidden/.gitattributes": b"* linguist-generated\n",
    "hidden/d.py": b"x\n",
    "linked/.gitattributes": Path("../.gitattributes"),
    "linked/e.gen.py": b"x\n",
    "caf\udce9/f.gen.py": b"x\n",
    "caf\udce9.gen.py": b"x\n",
}
IGNORING: Files = {
    ".mcpignore": b"data/*\n!keep.py\n*.tmp\n/only-top.py\ngone/\n",
    "data/a.py": b"x\n",
    "data/keep.py": b"x\n",
    "data/deep/keep.py": b"x\n",
    "a.tmp": b"x\n",
    "only-top.py": b"x\n",
    "src/only-top.py": b"x\n",
    "src/.mcpignore": b"!*.tmp\nlocal/\n*.secret\n",
    "src/b.tmp": b"x\n",
    "src/local/c.py": b"x\n",
    "src/deep/d.secret": b"x\n",
    "src/gone/e.py": b"x\n",
    "src/gone/.mcpignore": b"!e.py\n",
    "linked/.mcpignore": Path("local"),  # not followed, and its text is no rule
    "linked/local/f.py": b"x\n",
    "directory/.mcpignore/g.py": b"x\n",
    "other/not.mcpignore": b"*\n",
}
ODD: Files = {
    "caf\udce9.py": b"one\n",
    "caf\\xe9.py": b"the same name once escaped\n",
    "größe/日本.py": b"x\n",
    "-dash.py": b"x\n",
    "new\nline.py": b"x\n",
    'quo"te\\d.py': b"x\n",
    " space .py": b"x\n",
    "link.py": Path("src/main.py"),
    "link-to-directory": Path("src"),
    "dangling": Path("nowhere"),
    "large.py": b"x" * 3_000,
    "large.dat": b"x" * 3_000,
    "exact.py": b"x" * 2_000,
    ".hg/store.py": b"x\n",
    "src/.svn/a.py": b"x\n",
    "bare.git/HEAD": b"ref: refs/heads/main\n",
    "bare.git/config": b"[core]\n",
    "bare.git/objects/info/packs": b"x\n",
    "bare.git/refs/heads/main": b"x\n",
    "deep/gitted/HEAD/x": b"x\n",
    "deep/gitted/objects/x": b"x\n",
    "deep/gitted/refs/x": b"x\n",
    "not-bare/HEAD": b"x\n",
    "not-bare/objects": b"a file\n",
    "not-bare/refs/x": b"x\n",
    "src/main.py": b"x\n",
}
TOO_LARGE_RULES: Files = {
    ".mcpignore": b"#" * (MAX_IGNORE_BYTES + 1),
    "src/.gitattributes": b"#" * (MAX_IGNORE_BYTES + 1),
    "src/a.py": b"x\n",
    "src/exact/.mcpignore": b"b.py\n".ljust(MAX_IGNORE_BYTES, b"#"),
    "src/exact/b.py": b"x\n",
}
TREES = {
    "ordinary": ORDINARY,
    "attributes": ATTRIBUTES,
    "ignoring": IGNORING,
    "odd": ODD,
    "too-large-rules": TOO_LARGE_RULES,
    "empty": {},
    "all": {
        f"{name}/{path}": content
        for name, files in {"1": ORDINARY, "2": ATTRIBUTES, "3": IGNORING, "4": ODD}.items()
        for path, content in files.items()
    },
}


@pytest.mark.parametrize("inner", ["", "src"])
@pytest.mark.parametrize("name", TREES)
def test_a_commit_has_the_files_of_its_checkout(
    repository: Path, git: Git, name: str, inner: str
) -> None:
    commit = committed(git, repository, TREES[name] | {"src/always.py": b"x\n"})
    selection = Selection(max_file_bytes=2_000)
    found = assert_same_as_checkout(git, repository, inner, commit, selection)
    assert found.files


def test_submodules_are_counted(repository: Path, git: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init")
    committed(git, other, {"theirs.py": b"x\n"})
    for place in ("lib", "ignored/lib", "src/lib", ".hg/lib"):
        git(repository, "submodule", "add", "--force", str(other), place)
    commit = committed(git, repository, {".mcpignore": b"ignored/\n/src/lib\n", "a.py": b"x\n"})
    found = assert_same_as_checkout(git, repository, "", commit)
    assert found.skipped["submodule"] == 2
    git(repository, "checkout", "--force", commit)
    assert_same_as_checkout(git, repository, "src", commit)


def test_the_patterns_of_a_selection_apply(repository: Path, git: Git) -> None:
    commit = committed(git, repository, ORDINARY)
    selection = Selection(
        patterns=(Patterns(repository, ("*.md", "src/run")), Patterns(repository, ("!*", "tests")))
    )
    found = assert_same_as_checkout(git, repository, "", commit, selection)
    assert found.skipped["ignored"] == 3
    nested = Selection(patterns=(Patterns(repository, ("/src/run",)),))
    assert_same_as_checkout(git, repository, "src", commit, nested)


NAMES = ["a", "b.py", "c.log", "d.gen.py", "e.bin", "HEAD", "objects", "refs", ".hg", "caf\udce9"]
PATTERNS = ["a", "*.py", "!b.py", "/a/", "**/c.log", "a/**", "!a/b.py", "*.gen.*", "refs/", "!*"]


@pytest.mark.parametrize("seed", range(12))
def test_any_tree_of_files_and_rules_is_listed_as_its_checkout(
    repository: Path, git: Git, seed: int
) -> None:
    chance = random.Random(seed)
    files: Files = {}
    for _ in range(60):
        parts = chance.choices(NAMES, k=chance.randint(1, 4))
        folder = "".join(f"{part}_/" if chance.random() < 0.5 else f"{part}/" for part in parts[1:])
        kind = chance.random()
        if kind < 0.1:
            files[folder + ".mcpignore"] = _rules(chance, "")
        elif kind < 0.2:
            files[folder + ".gitattributes"] = _rules(chance, " linguist-generated")
        elif kind < 0.25:
            files[folder + ".gitattributes"] = _rules(chance, " -linguist-vendored")
        elif kind < 0.3:
            files[folder + "link"] = Path(chance.choice(NAMES))
        else:
            files[folder + parts[0]] = b"x" * chance.choice([0, 10, 100, 101])
    taken = {str(parent) for name in files for parent in Path(name).parents}
    files = {name: content for name, content in files.items() if name not in taken}
    commit = committed(git, repository, files | {"a_/always.py": b"x"})
    for inner in ("", "a_"):
        assert_same_as_checkout(git, repository, inner, commit, Selection(max_file_bytes=100))


def _rules(chance: random.Random, attribute: str) -> bytes:
    lines = chance.choices(PATTERNS, k=chance.randint(1, 4))
    return "".join(f"{line}{attribute}\n" for line in lines).encode()


def test_every_commit_has_its_own_files_and_rules(repository: Path, git: Git) -> None:
    first = committed(git, repository, {"a.py": b"1\n", "b.py": b"x\n"})
    second = committed(git, repository, {"a.py": b"22\n", ".mcpignore": b"b.py\n"})
    one, two = (list_files_at(opened(repository), commit) for commit in (first, second))
    assert [(f.path, f.size) for f in one.files] == [("a.py", 2), ("b.py", 2)]
    assert [(f.path, f.size) for f in two.files] == [(".mcpignore", 5), ("a.py", 3)]
    assert one.files[0].location != two.files[1].location


def test_bare_linked_shallow_and_longer_hashed_repositories_are_listed_alike(
    tree: Path, git: Git, tmp_path: Path
) -> None:
    git(tree, "init", "--object-format=sha256")
    commit = committed(git, tree, IGNORING | {"linked/.mcpignore2": b"x\n"})
    git(tmp_path, "clone", "--bare", str(tree), "bare.git")
    git(tmp_path, "clone", "--no-checkout", "--depth=1", f"file://{tree}", "shallow")
    git(tree, "worktree", "add", "--no-checkout", "--detach", str(tmp_path / "linked"))
    expected = list_files_at(opened(tree), commit)
    assert expected.skipped["ignored"]
    for name in ("bare.git", "shallow", "linked"):
        found = list_files_at(opened(tmp_path / name), commit)
        assert found == replace(expected, root=tmp_path / name)


def test_a_repository_of_another_user_is_listed(repository: Path, git: Git) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    commit = committed(git, repository, {"a.py": b"x\n"})
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 12345, 12345)
    assert [f.path for f in list_files_at(opened(repository), commit).files] == ["a.py"]


def partial_clone(git: Git, repository: Path, place: Path) -> Path:
    git(repository, "config", "uploadpack.allowFilter", "true")
    source = f"file://{repository}"
    git(place.parent, "clone", "--no-checkout", "--filter=blob:none", source, str(place))
    return place


def test_what_a_partial_clone_lacks_is_told(repository: Path, git: Git, tmp_path: Path) -> None:
    files: Files = {"a.py": b"x\n", "b.png": b"x", "c": b"x\n", "d.py": b"y\n", "l": Path("a.py")}
    commit = committed(git, repository, files)
    clone = partial_clone(git, repository, tmp_path / "clone")
    git(clone, "cat-file", "-e", f"{commit}:d.py")  # fetches this one
    found = list_files_at(opened(clone), commit)
    assert [(file.path, file.size) for file in found.files] == [("d.py", 2)]
    assert found.failures == (FileFailure("a.py", MISSING),)
    assert found.skipped == {"binary": 1, "missing": 1, "symlink": 1}


@pytest.mark.parametrize("name", [".mcpignore", "sub/.gitattributes"])
def test_without_its_rules_a_commit_is_not_listed(
    repository: Path, git: Git, tmp_path: Path, name: str
) -> None:
    commit = committed(git, repository, {"a.py": b"x\n", name: b"secret/\n"})
    clone = partial_clone(git, repository, tmp_path / "clone")
    with pytest.raises(IndexingFailed, match=f"{name} of commit .* cannot be read"):
        list_files_at(opened(clone), commit)


def test_a_forged_tree_does_not_mix_its_entries_up(repository: Path, git: Git) -> None:
    """Names twice, a file that is also a directory, unknown modes, a tree that is called a file."""
    committed(git, repository, {"inner/b.py": b"x\n"})
    inner = git(repository, "rev-parse", "HEAD:inner").decode().strip()
    blobs = [
        subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=repository,
            input=content,
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
        for content in (b"1\n", b"22\n")
    ]
    entries = [
        (b"100644 a.py", blobs[0]),
        (b"100644 a.py", blobs[1]),
        (b"40000 a.py", inner),
        (b"100777 odd.py", blobs[0]),
        (b"10644 pipe.py", blobs[0]),
        (b"100644 tree.py", inner),
    ]
    tree = b"".join(head + b"\0" + bytes.fromhex(object_id) for head, object_id in entries)
    made = subprocess.run(
        ["git", "hash-object", "-w", "--literally", "-t", "tree", "--stdin"],
        cwd=repository,
        input=tree,
        capture_output=True,
        check=True,
    )
    commit = git(repository, "commit-tree", "-m", "x", made.stdout.decode().strip())
    found = list_files_at(opened(repository), commit.decode().strip())
    objects = {file.path: file.location for file in found.files}
    assert objects["a.py"] == blobs[0]
    assert set(objects) >= {"a.py", "a.py/b.py", "odd.py"}
    assert found.skipped["name_clash"] == 1
