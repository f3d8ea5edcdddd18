"""Trees and blobs are read as git has them, whatever a hostile repository holds."""

from __future__ import annotations

import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source import git_objects
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_objects import (
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    Unread,
    find_entries,
    list_tree,
    read_blobs,
)

Git = Callable[..., bytes]

NO_OBJECT = "1" * 40


def opened(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def committed(git: Git, root: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(root, "add", "-A", "--force")
    git(root, "commit", "--allow-empty", "-m", "x")
    return git(root, "rev-parse", "HEAD").decode().strip()


def stored(root: Path, kind: str, content: bytes) -> str:
    """Write an object as it is, without git's checks."""
    command = ["git", "hash-object", "-w", "--literally", "-t", kind, "--stdin"]
    done = subprocess.run(command, cwd=root, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


def forged(root: Path, *entries: tuple[bytes, bytes, str]) -> str:
    """A commit of a tree that git would not write: modes, names and objects."""
    tree = b"".join(
        b"%s %s\0%s" % (mode, name, bytes.fromhex(object_id)) for mode, name, object_id in entries
    )
    person = "A <a@b> 1600000000 +0000"
    tree_id = stored(root, "tree", tree)
    text = f"tree {tree_id}\nauthor {person}\ncommitter {person}\n\nx\n"
    return stored(root, "commit", text.encode())


def loose(root: Path, object_id: str) -> Path:
    path = root / ".git" / "objects" / object_id[:2] / object_id[2:]
    path.chmod(0o644)
    return path


def paths_of(entries: list[TreeEntry]) -> list[bytes]:
    return [entry.path for entry in entries]


def all_blobs(root: Path, *ids: str, max_bytes: int = 1 << 20) -> list[tuple[str, bytes | Unread]]:
    return list(read_blobs(opened(root), ids, max_bytes))


def test_a_tree_is_listed_with_modes_sizes_and_hashes(repository: Path, git: Git) -> None:
    (repository / "link").symlink_to("a.py")
    committed(git, repository, {"a.py": b"x\n", "src/run.sh": b"#!/bin/sh\n"})
    git(repository, "update-index", "--chmod=+x", "src/run.sh")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{NO_OBJECT},lib")
    git(repository, "commit", "-m", "modes")
    commit = git(repository, "rev-parse", "HEAD").decode().strip()
    (repository / "a.py").write_text("of the work tree only")

    def object_of(path: str) -> str:
        return git(repository, "rev-parse", f"HEAD:{path}").decode().strip()

    assert list_tree(opened(repository), commit) == [
        TreeEntry(b"a.py", "100644", object_of("a.py"), 2),
        TreeEntry(b"lib", SUBMODULE, NO_OBJECT, None),
        TreeEntry(b"link", SYMLINK, object_of("link"), 4),
        TreeEntry(b"src/run.sh", "100755", object_of("src/run.sh"), 10),
    ]


@pytest.mark.parametrize("name", ["sub", "-r", "--", "*", ":(glob)x", ":!y", "caf\udce9", "a\tb"])
def test_below_a_directory_paths_are_relative_to_it(repository: Path, git: Git, name: str) -> None:
    files = {f"{name}/a.py": b"1", f"{name}/deep/b.py": b"2", "c.py": b"3", f"{name}2/d.py": b"4"}
    commit = committed(git, repository, files)
    assert paths_of(list_tree(opened(repository / name), commit)) == [b"a.py", b"deep/b.py"]
    empty = repository / "untracked"
    empty.mkdir()
    assert list_tree(opened(empty), commit) == []


def test_some_entries_can_be_asked_for_by_path(repository: Path, git: Git) -> None:
    commit = committed(git, repository, {"a.py": b"1", "sub/*": b"2", "sub/x": b"3", "d/e": b"4"})
    for root in (repository, repository / "sub"):
        found = find_entries(opened(root), commit, [b"sub/*", b"d", b"gone", b"a.py"])
        assert paths_of(found) == [b"a.py", b"sub/*"]
    assert find_entries(opened(repository), commit, []) == []


def test_bare_linked_and_longer_hashed_repositories_are_read_alike(
    tree: Path, git: Git, tmp_path: Path
) -> None:
    git(tree, "init", "--object-format=sha256")
    commit = committed(git, tree, {"a.py": b"one\n", "sub/b.py": b"two\n"})
    git(tmp_path, "clone", "--bare", str(tree), "bare.git")
    # Git would list only what is below the work tree that this names.
    git(tmp_path / "bare.git", "config", "core.worktree", "..")
    git(tree, "worktree", "add", "--no-checkout", "--detach", str(tmp_path / "linked"))
    for root in (tree, tmp_path / "bare.git", tmp_path / "linked"):
        entries = list_tree(opened(root), commit)
        assert paths_of(entries) == [b"a.py", b"sub/b.py"]
        blobs = list(read_blobs(opened(root), [e.object_id for e in entries], 100))
        assert [content for _, content in blobs] == [b"one\n", b"two\n"]


@pytest.mark.parametrize("name", [b"..", b".", b".git", b".GIT", b"a/../../b", b"/etc", b"a//b"])
def test_a_forged_tree_that_leads_out_is_not_followed(repository: Path, name: bytes) -> None:
    blob = stored(repository, "blob", b"secret")
    inner = (
        subprocess.run(
            ["git", "mktree"],
            cwd=repository,
            input=f"100644 blob {blob}\tconfig\n".encode(),
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    commit = forged(
        repository, (b"100644", name, blob), (b"40000", name, inner), (b"100644", b"z", blob)
    )
    assert paths_of(list_tree(opened(repository), commit)) == [b"z"]


def test_a_forged_tree_with_an_empty_name_is_an_error(repository: Path) -> None:
    commit = forged(repository, (b"100644", b"", stored(repository, "blob", b"x")))
    with pytest.raises(IndexingFailed, match="empty filename in tree entry"):
        list_tree(opened(repository), commit)


def test_a_tree_that_multiplies_itself_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_objects, "MAX_TREE_BYTES", 1 << 20)
    inner = stored(repository, "blob", b"x")
    kind, mode = "blob", "100644"
    for _ in range(12):
        lines = "".join(f"{mode} {kind} {inner}\t{name}\n" for name in "0123456789")
        done = subprocess.run(
            ["git", "mktree"], cwd=repository, input=lines.encode(), capture_output=True, check=True
        )
        inner, kind, mode = done.stdout.decode().strip(), "tree", "040000"
    commit = forged(repository, (b"40000", b"bomb", inner))
    with pytest.raises(IndexingFailed, match="lists over 1 MiB of paths"):
        list_tree(opened(repository), commit)


def test_blobs_come_in_the_order_asked_for(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_objects, "_BATCH_BYTES", 40)
    contents = [b"", b"\n", b"12\n", b"no end", b"a\0b", b"x" * 100, b"y" * 30, b"blob 3\nabc\n"]
    ids = [stored(repository, "blob", content) for content in contents]
    asked = [*ids, ids[2], NO_OBJECT, ids[0]]
    expected = [*contents, contents[2], Unread.MISSING, b""]
    assert all_blobs(repository, *asked) == list(zip(asked, expected, strict=True))
    assert all_blobs(repository) == []


def test_what_is_too_large_missing_or_no_blob_is_told(repository: Path, git: Git) -> None:
    small, large = (stored(repository, "blob", b"x" * size) for size in (100, 101))
    commit = committed(git, repository, {"a.py": b"x"})
    assert all_blobs(repository, small, large, NO_OBJECT, commit, max_bytes=100) == [
        (small, b"x" * 100),
        (large, Unread.TOO_LARGE),
        (NO_OBJECT, Unread.MISSING),
        (commit, Unread.DAMAGED),
    ]


def test_damaged_blobs_are_told_and_the_others_read(repository: Path) -> None:
    contents = [b"%d" % number * 50 for number in range(8)]
    ids = [stored(repository, "blob", content) for content in contents]
    loose(repository, ids[1]).write_bytes(b"damaged")
    loose(repository, ids[3]).write_bytes(b"")
    loose(repository, ids[4]).write_bytes(zlib.compress(b"blob 100\0short"))
    loose(repository, ids[6]).write_bytes(zlib.compress(b"blob 5\0other"))  # another's content
    found = dict(all_blobs(repository, *ids))
    assert [found[i] for i in (ids[0], ids[2], ids[5], ids[7])] == [
        contents[n] for n in (0, 2, 5, 7)
    ]
    assert {found[ids[n]] for n in (4, 6)} == {Unread.DAMAGED}
    assert {found[ids[n]] for n in (1, 3)} == {Unread.MISSING}


def test_very_many_damaged_objects_are_an_error(repository: Path) -> None:
    ids = [stored(repository, "blob", b"%d" % number) for number in range(25)]
    for object_id in ids:
        loose(repository, object_id).write_bytes(zlib.compress(b"blob 1\0other"))
    with pytest.raises(IndexingFailed, match="is another object's"):
        all_blobs(repository, *ids)


def test_a_missing_tree_is_an_error_and_a_missing_blob_has_no_size(
    repository: Path, git: Git
) -> None:
    commit = committed(git, repository, {"a.py": b"x", "sub/b.py": b"y"})
    blob, tree = (
        git(repository, "rev-parse", f"HEAD:{p}").decode().strip() for p in ("a.py", "sub")
    )
    loose(repository, blob).unlink()
    entries = list_tree(opened(repository), commit)
    assert [(entry.path, entry.size) for entry in entries] == [(b"a.py", None), (b"sub/b.py", 1)]
    loose(repository, tree).unlink()
    with pytest.raises(IndexingFailed, match="git ls-tree failed"):
        list_tree(opened(repository), commit)


@pytest.mark.parametrize("filter_", ["blob:none", "tree:0"])
def test_a_partial_clone_fetches_nothing(
    repository: Path, git: Git, tmp_path: Path, filter_: str
) -> None:
    commit = committed(git, repository, {"sub/a.py": b"x"})
    blob = git(repository, "rev-parse", "HEAD:sub/a.py").decode().strip()
    git(repository, "config", "uploadpack.allowFilter", "true")
    origin = f"file://{repository}"
    git(tmp_path, "clone", "--no-checkout", f"--filter={filter_}", origin, "clone")
    trace, program = tmp_path / "it-sang", tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho sang >> '{trace}'\n")
    program.chmod(0o755)
    clone = tmp_path / "clone"
    git(clone, "config", "remote.origin.url", f"ext::{program}")
    git(clone, "config", "protocol.ext.allow", "always")
    assert all_blobs(clone, blob) == [(blob, Unread.MISSING)]
    if filter_ == "blob:none":
        assert [entry.size for entry in list_tree(opened(clone), commit)] == [None]
    else:
        with pytest.raises(IndexingFailed):
            list_tree(opened(clone), commit)
    assert not trace.exists()
    subprocess.run(["git", "cat-file", "-p", blob], cwd=clone, capture_output=True, check=False)
    assert trace.exists()  # a careless one does fetch


def test_no_filter_hook_or_program_of_the_repository_is_run(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    trace, program = tmp_path / "it-sang", tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho sang >> '{trace}'\ncat\n")
    program.chmod(0o755)
    attributes = b"* filter=evil diff=evil text eol=crlf ident\n"
    commit = committed(git, repository, {"a.py": b"$Id$\n", ".gitattributes": attributes})
    for name in ("smudge", "clean", "process"):
        git(repository, "config", f"filter.evil.{name}", str(program))
    git(repository, "config", "diff.evil.textconv", str(program))
    git(repository, "config", "core.fsmonitor", str(program))
    git(repository, "config", "core.hooksPath", str(tmp_path))
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (tmp_path / hook).write_bytes(program.read_bytes())
        (tmp_path / hook).chmod(0o755)
    entries = list_tree(opened(repository), commit)
    [_, (_, content)] = read_blobs(opened(repository), [e.object_id for e in entries], 100)
    assert content == b"$Id$\n"
    assert not trace.exists()


def test_the_objects_of_an_alternate_are_found_as_in_git(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit = committed(git, repository, {"a.py": b"x\n"})
    git(tmp_path, "clone", "--shared", "--no-checkout", str(repository), "shared")
    [entry] = list_tree(opened(tmp_path / "shared"), commit)
    assert all_blobs(tmp_path / "shared", entry.object_id) == [(entry.object_id, b"x\n")]


def test_git_is_stopped_where_a_blob_takes_too_much_memory(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 12 << 20  # larger ones are read in pieces
    committed(git, repository, {"large": b"\0" * size, "small": b"x\n"})
    git(repository, "repack", "-adq")
    large, small = (
        git(repository, "rev-parse", f"HEAD:{name}").decode().strip() for name in ("large", "small")
    )
    assert [len(content) for _, content in all_blobs(repository, large, max_bytes=size)] == [size]
    monkeypatch.setattr("codebase_mcp.source.git._MAX_ALLOCATION_BYTES", 8 << 20)
    found = all_blobs(repository, large, small, max_bytes=size)
    assert found == [(large, Unread.DAMAGED), (small, b"x\n")]


def test_a_bare_repository_that_shares_anothers_records_is_none(
    tree: Path, git: Git, tmp_path: Path
) -> None:
    git(tree, "init", "--bare", "ours.git")
    ours = tree / "ours.git"
    assert git_repository_at(ours) is not None
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init")
    (ours / "commondir").write_text(f"{tmp_path / 'other' / '.git'}\n")
    assert git_repository_at(ours) is None


def test_a_huge_blob_is_never_in_memory(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 200 << 20
    huge = repository / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(size)
    git(repository, "-c", "core.bigFileThreshold=1m", "-c", "core.compression=1", "add", "-A")
    commit = committed(git, repository, {"a.py": b"x\n"})
    monkeypatch.setattr("codebase_mcp.source.git._MAX_ALLOCATION_BYTES", 8 << 20)
    tracemalloc.start()
    try:
        entries = list_tree(opened(repository), commit)
        found = all_blobs(repository, *(entry.object_id for entry in entries))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [entry.size for entry in entries] == [2, size]
    assert [content for _, content in found] == [b"x\n", Unread.TOO_LARGE]
    assert peak < 16 << 20
