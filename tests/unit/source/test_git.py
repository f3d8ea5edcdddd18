"""Git is asked, and nothing of the repository is run or believed beyond the directory."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.source.git import Head, head_of
from codebase_mcp.source.git_directory import work_tree_of
from codebase_mcp.source.walk import list_files, list_with_git

Git = Callable[..., bytes]


def paths_in(tree: Path) -> list[str]:
    return [file.path for file in list_files(tree).files]


class Canary:
    """A program that leaves a trace when anybody runs it."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "it-sang"
        self.program = folder / "canary"
        self.program.write_text(f"#!/bin/sh\necho sang >> '{self.trace}'\n")
        self.program.chmod(0o755)

    def sang(self) -> bool:
        return self.trace.exists()


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path)


def test_the_canary_fires_if_git_runs_without_protection(
    repository: Path, git: Git, canary: Canary
) -> None:
    git(repository, "config", "core.fsmonitor", str(canary.program))
    git(repository, "ls-files", "--others")
    assert canary.sang()


HOSTILE_SETTINGS = {
    "core.fsmonitor": "{canary}",
    "core.fsmonitorHookVersion": "1",
    "core.hooksPath": "{folder}",
    "core.pager": "{canary}",
    "pager.ls-files": "{canary}",
    "core.editor": "{canary}",
    "core.askPass": "{canary}",
    "core.sshCommand": "{canary}",
    "core.gitProxy": "{canary}",
    "core.alternateRefsCommand": "{canary}",
    "credential.helper": "!{canary}",
    "alias.ls-files": "!{canary}",
    "alias.rev-parse": "!{canary}",
    "alias.symbolic-ref": "!{canary}",
    "filter.evil.clean": "{canary}",
    "filter.evil.smudge": "{canary}",
    "filter.evil.process": "{canary}",
    "filter.evil.required": "true",
    "diff.external": "{canary}",
    "diff.evil.textconv": "{canary}",
    "gpg.program": "{canary}",
    "uploadpack.packObjectsHook": "{canary}",
}


def test_nothing_that_a_repository_configures_is_run(
    repository: Path, git: Git, canary: Canary
) -> None:
    (repository / "a.py").write_text("x\n")
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(repository, "-c", "core.safecrlf=false", "add", "-A")
    git(repository, "commit", "-m", "one")
    for hook in (
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
        "reference-transaction",
    ):
        for folder in (canary.program.parent, repository / ".git" / "hooks"):
            (folder / hook).write_bytes(canary.program.read_bytes())
            (folder / hook).chmod(0o755)
    with (repository / ".git" / "config").open("a") as config:
        for name, value in HOSTILE_SETTINGS.items():
            section, _, key = name.rpartition(".")
            head, _, sub = section.partition(".")
            title = f'[{head} "{sub}"]' if sub else f"[{head}]"
            told = value.format(canary=canary.program, folder=canary.program.parent)
            config.write(f'{title}\n\t{key} = "{told}"\n')
    os.utime(repository / "a.py", (1, 1))  # what would make git compare contents
    assert paths_in(repository) == [".gitattributes", "a.py"]
    assert head_of(repository) is not None
    assert not canary.sang()


def test_a_partial_clone_fetches_nothing(repository: Path, git: Git, canary: Canary) -> None:
    for path in ("in/a.py", "out/b.py"):
        (repository / path).parent.mkdir()
        (repository / path).write_text(path)
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "one")
    out_tree = git(repository, "rev-parse", "HEAD:out").decode().strip()
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    (repository / ".git" / "objects" / out_tree[:2] / out_tree[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{canary.program}",
        "protocol.ext.allow": "always",
    }.items():
        git(repository, "config", name, value)
    assert paths_in(repository) == ["in/a.py"]
    assert not canary.sang()
    git(repository, "ls-files")  # a careless one does fetch
    assert canary.sang()


def test_a_git_in_the_repository_is_not_the_git_that_runs(
    repository: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "a.py").write_text("x\n")
    canary.program.rename(repository / "git")
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", f".::{repository}:{os.environ['PATH']}")
    assert paths_in(repository) == ["a.py", "git"]
    assert not canary.sang()


def test_a_work_tree_configured_elsewhere_lists_nothing_from_there(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.py").write_text("x\n")
    (repository / "a.py").write_text("x\n")
    git(repository, "config", "core.worktree", str(elsewhere))
    assert paths_in(repository) == ["a.py"]


def test_variables_of_a_surrounding_git_do_not_redirect_ours(
    repository: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init")
    git(other, "commit", "--allow-empty", "-m", "other")
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "tracked.log").write_text("x\n")
    git(repository, "add", "--force", "tracked.log")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert paths_in(repository) == [".gitignore", "tracked.log"]
    assert head_of(repository) == Head("main", None)


@pytest.mark.parametrize(
    "forged", ["../out.py", "aa/../../z", ".git/conf1", "./inner.p", "/etc/hosts"]
)
def test_an_index_path_outside_the_tree_is_not_followed(
    repository: Path, git: Git, forged: str
) -> None:
    honest = "x" * len(forged)
    (repository / honest).write_text("x\n")
    git(repository, "add", honest)
    (repository / honest).unlink()
    (repository.parent / "out.py").write_text("secret\n")
    (repository.parent / "z").write_text("secret\n")
    (repository / "aa").mkdir()
    (repository / ".git" / "conf1").write_text("secret\n")
    (repository / "inner.p").write_text("ours\n")
    index = repository / ".git" / "index"
    content = index.read_bytes()[:-20].replace(honest.encode(), forged.encode())
    index.write_bytes(content + hashlib.sha1(content).digest())
    found = list_with_git(repository, repository)
    assert found is not None
    assert found.tracked == []
    assert paths_in(repository) == ["inner.p"]


def test_a_directory_that_looks_like_a_bare_repository_is_not_listed(
    tree: Path, git: Git, canary: Canary
) -> None:
    git(tree, "init", "--bare", ".")
    with (tree / "config").open("a") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = /etc\n\tfsmonitor = {canary.program}\n")
    (tree / "a.py").write_text("x\n")
    assert work_tree_of(tree) is None
    assert paths_in(tree) == []
    assert not canary.sang()


def test_a_repository_of_another_user_is_listed_with_git(repository: Path, git: Git) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    (repository / "a.log").write_text("x\n")
    git(repository, "add", "a.log")
    (repository / ".gitignore").write_text("*.log\n")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 12345, 12345)
    assert paths_in(repository) == [".gitignore", "a.log"]


def test_a_repository_of_another_user_above_the_root_is_not_trusted(
    repository: Path, git: Git
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    ours = repository / "ours"
    ours.mkdir()
    assert work_tree_of(ours) == repository
    os.chown(repository / ".git", 12345, 12345)
    assert work_tree_of(ours) is None
    assert work_tree_of(repository) == repository


def test_an_untracked_file_named_like_an_index_line_is_a_file(repository: Path) -> None:
    name = f"100644 {'0' * 40} 0\tother.py"
    (repository / name).write_text("x\n")
    assert paths_in(repository) == [name]


def test_listing_changes_nothing_in_the_repository(repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("x\n")
    git(repository, "add", "-A")
    os.utime(repository / "a.py", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    list_files(repository)
    head_of(repository)
    assert before == {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}


def test_head_is_the_branch_and_commit_that_are_checked_out(repository: Path, git: Git) -> None:
    assert head_of(repository) == Head("main", None)
    git(repository, "commit", "--allow-empty", "-m", "one")
    commit = git(repository, "rev-parse", "HEAD").decode().strip()
    assert head_of(repository) == Head("main", commit)
    git(repository, "switch", "-c", "feature/ä")
    assert head_of(repository) == Head("feature/ä", commit)
    git(repository, "switch", "--detach")
    assert head_of(repository) == Head(None, commit)
    (repository / "sub").mkdir()
    assert head_of(repository / "sub") == Head(None, commit)


def test_there_is_no_head_outside_git_or_without_git(
    tree: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert head_of(tree) is None
    git(tree, "init")
    monkeypatch.setenv("PATH", "")
    assert head_of(tree) is None


def test_an_index_entry_of_an_unknown_kind_is_no_error(repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("x\n")
    git(repository, "add", "-A")
    index = repository / ".git" / "index"
    content = index.read_bytes()[:-20]
    mode_at = 12 + 24  # after the header come ctime, mtime, device and inode
    assert struct.unpack_from(">I", content, mode_at) == (0o100644,)
    content = content[:mode_at] + struct.pack(">I", 0o170000) + content[mode_at + 4 :]
    index.write_bytes(content + hashlib.sha1(content).digest())
    assert paths_in(repository) == ["a.py"]
