"""Commits are told as git has them, of the directory that was asked about, and nothing is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source import git as git_room
from codebase_mcp.source.commit_log import (
    MAX_MESSAGE_CHARS,
    MAX_PATHS,
    Commit,
    PathChange,
    find_tip,
    list_commits,
    read_commits,
)

Git = Callable[..., bytes]

ALL = 10_000


def history(root: Path, depth: int = ALL) -> list[Commit]:
    """What is told of a directory, newest first."""
    tip = find_tip(root)
    assert tip is not None
    return read_commits(tip, list_commits(tip, depth))


def told(root: Path, depth: int = ALL) -> list[tuple[str, tuple[str, ...]]]:
    return [(commit.message, commit.paths) for commit in history(root, depth)]


def commit(git: Git, repository: Path, message: str, files: dict[str, str | None]) -> str:
    """Write or delete files and commit that; its hash."""
    for name, content in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
    git(repository, "add", "-A")
    git(repository, "commit", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD").decode().strip()


def imported(repository: Path, stream: bytes) -> None:
    """Commits that no checkout could make."""
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repository, input=stream, check=True)


def committed(message: bytes, *changes: bytes, at: str = "1600000000 +0000") -> bytes:
    """One commit for such an import."""
    head = f"commit refs/heads/main\nauthor A <a@b> {at}\ncommitter A <a@b> 1600000000 +0000\n"
    return b"".join([head.encode(), b"data %d\n" % len(message), message, b"\n", *changes, b"\n"])


def added(path: bytes) -> bytes:
    quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'M 100644 inline "%s"\ndata 1\nx\n' % quoted


def test_a_commit_tells_who_when_why_and_which_paths(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Zoë Ünal")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "zoe@example.org")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1700000000 +0530")
    message = "Retry what failed\n\nBecause networks do.\n\nRefs: #12"
    commit_hash = commit(git, repository, message, {"src/a.py": "x", "b.md": "y"})
    assert history(repository) == [
        Commit(
            commit_hash,
            "Zoë Ünal",
            "zoe@example.org",
            1_700_000_000,
            message,
            (PathChange("b.md", 1, 0), PathChange("src/a.py", 1, 0)),
            paths_total=2,
            added=2,
            removed=0,
        )
    ]


def test_a_rename_touches_both_paths_and_a_merge_what_its_first_parent_did_not_have(
    repository: Path, git: Git
) -> None:
    commit(git, repository, "one", {"a.py": "x\n" * 50, "b.py": "y"})
    git(repository, "switch", "-c", "side")
    commit(git, repository, "side", {"side.py": "z"})
    git(repository, "switch", "main")
    git(repository, "mv", "a.py", "c.py")
    commit(git, repository, "renamed", {"b.py": None})
    git(repository, "merge", "side", "-m", "merged")
    commit(git, repository, "nothing", {})
    assert dict(told(repository)) == {
        "nothing": (),
        "merged": ("side.py",),
        "renamed": ("a.py", "b.py", "c.py"),
        "side": ("side.py",),
        "one": ("a.py", "b.py"),
    }
    found = history(repository)
    assert [c.paths_total for c in found] == [len(c.paths) for c in found]
    assert [c.message for c in found if c.is_merge] == ["merged"]


def test_lines_are_counted_by_path_and_of_a_renamed_file_those_that_changed_on_the_way(
    repository: Path, git: Git
) -> None:
    old = "\n".join(map(str, range(50)))
    commit(git, repository, "one", {"a.py": old, "b.py": "1\n2\n", "c\td.py": "x\n"})
    git(repository, "mv", "a.py", "new.py")
    commit(git, repository, "two", {"new.py": old + "\nmore\n", "b.py": "1\n", "c.bin": "\0"})
    newest, first = history(repository)
    assert newest.changes == (
        PathChange("a.py", 0, 0),
        PathChange("b.py", 0, 1),
        PathChange("c.bin", None, None),
        PathChange("new.py", 2, 1, former="a.py"),
    )
    assert (newest.added, newest.removed) == (2, 2)
    assert (first.added, first.removed) == (53, 0)
    assert first.paths == ("a.py", "b.py", "c\td.py")


def test_a_clone_without_contents_has_paths_but_no_lines(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"src/a.py": "1"})
    commit(git, repository, "two", {"src/a.py": "2", "\nb": "x"})
    git(repository, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--no-checkout", "--filter=blob:none", f"file://{repository}", clone)
    newest, oldest = history(clone)
    assert newest.changes == (PathChange("\nb"), PathChange("src/a.py"))
    assert (newest.added, newest.removed, newest.paths_total) == (None, None, 2)
    assert oldest.paths == ("src/a.py",)


def test_the_newest_commits_come_first_and_no_more_than_asked_for(
    repository: Path, git: Git
) -> None:
    for number in range(5):
        commit(git, repository, str(number), {"a.py": str(number)})
    assert [message for message, _ in told(repository, 3)] == ["4", "3", "2"]
    assert told(repository, 0) == []
    assert len(told(repository)) == 5


@pytest.mark.parametrize(
    ("path", "escape_path"),
    [
        (b"\nfirst\nsecond", "\nfirst\nsecond"),
        (b' "quoted" \\ ', ' "quoted" \\ '),
        (b"caf\xe9.py", "caf\\xe9.py"),
        ("größe.py".encode(), "größe.py"),
        (b"-option", "-option"),
    ],
)
def test_any_path_is_reported(repository: Path, path: bytes, escape_path: str) -> None:
    imported(repository, committed(b"", added(path), added(b"zz")) + committed(b"next"))
    assert told(repository) == [("next", ()), ("", (escape_path, "zz"))]


def test_a_message_in_another_encoding_is_decoded(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    text = tmp_path / "message"
    text.write_bytes("größer".encode("latin-1"))
    encoding = ("-c", "i18n.commitEncoding=ISO-8859-1")
    git(repository, *encoding, "commit", "--allow-empty", "-F", str(text))
    git(repository, "config", "i18n.logOutputEncoding", "UTF-16")
    imported(repository, committed(b"not \xff text", b"from refs/heads/main^0\n"))
    assert [message for message, _ in told(repository)] == ["not \\xff text", "größer"]


def test_very_long_messages_and_lists_of_paths_are_shortened(repository: Path) -> None:
    deep = b"/".join([b"d" * 200] * 12)
    imported(
        repository,
        committed(b"m" * 300_000, *(added(b"%05d" % n) for n in range(2 * MAX_PATHS)))
        + committed(b"deep", added(deep), added(b"z")),
    )
    newest, large = history(repository)
    assert (newest.paths, newest.paths_total) == (("z",), 2)
    assert large.message == "m" * MAX_MESSAGE_CHARS
    assert large.paths == tuple(f"{n:05}" for n in range(MAX_PATHS))
    assert large.paths_total == 2 * MAX_PATHS


def test_an_impossible_date_is_clamped(repository: Path) -> None:
    imported(repository, committed(b"late", at="99999999999999 +0000"))
    [commit] = history(repository)
    assert commit.authored_at == 253_370_764_800


def test_a_directory_has_the_commits_that_touch_it_with_paths_relative_to_it(
    repository: Path, git: Git
) -> None:
    commit(git, repository, "both", {"src/*/a.py": "x", "other.py": "x", "src/b.py": "x"})
    commit(git, repository, "elsewhere", {"other.py": "y", "srcs/*/c.py": "z"})
    commit(git, repository, "here", {"src/*/a.py": "y", "other.py": "z"})
    assert told(repository / "src") == [("here", ("*/a.py",)), ("both", ("*/a.py", "b.py"))]
    assert told(repository / "src" / "*") == [("here", ("a.py",)), ("both", ("a.py",))]
    assert told(repository / "src", 1) == [("here", ("*/a.py",))]


def test_a_merge_that_dropped_one_side_does_not_hide_its_commits(
    repository: Path, git: Git
) -> None:
    commit(git, repository, "one", {"src/a.py": "1"})
    git(repository, "switch", "-c", "side")
    commit(git, repository, "side", {"src/a.py": "2"})
    git(repository, "switch", "main")
    commit(git, repository, "main", {"b.py": "3"})
    git(repository, "merge", "-s", "ours", "side", "-m", "merged")
    assert [message for message, _ in told(repository / "src")] == ["side", "one"]


def test_where_a_shallow_clone_ends_the_paths_are_unknown_until_it_goes_on(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    for number in range(4):
        commit(git, repository, str(number), {"src/a.py": str(number), f"{number}.py": "x"})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--depth", "2", f"file://{repository}", str(clone))
    tip = find_tip(clone)
    newest, edge = history(clone)
    assert (newest.message, newest.paths_total) == ("3", 2)
    assert (edge.message, edge.paths, edge.paths_total) == ("2", (), None)
    assert told(clone / "src") == [("3", ("a.py",))]
    git(clone, "fetch", "--deepen", "1")
    whole = find_tip(clone)
    assert tip is not None
    assert whole is not None
    assert whole.commit == tip.commit
    assert whole.fingerprint != tip.fingerprint
    assert [c.paths_total for c in history(clone)] == [2, 2, None]
    git(clone, "fetch", "--unshallow")
    assert [c.paths_total for c in history(clone)] == [2, 2, 2, 2]


def test_a_repository_with_longer_hashes_is_read_as_well(tree: Path, git: Git) -> None:
    git(tree, "init", "--object-format=sha256")
    commit(git, tree, "one", {"a.py": "x"})
    [only] = history(tree)
    assert (len(only.hash), only.paths) == (64, ("a.py",))


def test_a_linked_work_tree_has_the_history_of_what_is_checked_out_in_it(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"a.py": "x"})
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-b", "side", str(linked))
    commit(git, linked, "two", {"b.py": "x"})
    assert [message for message, _ in told(linked)] == ["two", "one"]
    assert [message for message, _ in told(repository)] == ["one"]


def test_there_is_no_history_outside_git_or_before_the_first_commit(tree: Path, git: Git) -> None:
    assert find_tip(tree) is None
    git(tree, "init")
    assert find_tip(tree) is None


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


HOSTILE_SETTINGS = {
    "core.fsmonitor": "{canary}",
    "core.pager": "{canary}",
    "pager.log": "{canary}",
    "pager.rev-list": "{canary}",
    "pager.diff-tree": "{canary}",
    "core.attributesFile": "{folder}/attributes",
    "core.alternateRefsCommand": "{canary}",
    "core.sshCommand": "{canary}",
    "alias.rev-list": "!{canary}",
    "alias.diff-tree": "!{canary}",
    "diff.external": "{canary}",
    "diff.evil.command": "{canary}",
    "diff.evil.textconv": "{canary}",
    "diff.orderFile": "{canary}",
    "gpg.program": "{canary}",
    "gpg.ssh.program": "{canary}",
    "log.showSignature": "true",
    "log.showRoot": "false",
    "log.follow": "true",
    "log.mailmap": "true",
    "log.diffMerges": "first-parent",
    "diff.renames": "copies",
    "diff.noprefix": "true",
    "diff.relative": "true",
    "diff.ignoreSubmodules": "all",
    "format.pretty": "%GG",
    "mailmap.file": "{folder}/mailmap",
    "color.ui": "always",
}


@pytest.fixture
def hostile(repository: Path, git: Git, canary: Canary) -> Path:
    """A repository with a signed commit, whose settings and records name programs and lies."""
    commit(git, repository, "one", {"a.py": "x\n", ".gitattributes": "* diff=evil\n"})
    tree = git(repository, "write-tree").decode().strip()
    parent = git(repository, "rev-parse", "HEAD").decode().strip()
    signed = repository.parent / "signed"
    person = "Test <test@example.org> 1600000000 +0000"
    signature = "-----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----"
    signed.write_text(
        f"tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n"
        f"gpgsig {signature}\n\nsigned\n"
    )
    made = git(repository, "hash-object", "-t", "commit", "-w", str(signed)).decode().strip()
    git(repository, "update-ref", "refs/heads/main", made)
    (repository / ".mailmap").write_text("Liar <liar@example.org> <test@example.org>\n")
    (canary.program.parent / "mailmap").write_text("Liar <liar@example.org> <test@example.org>\n")
    (canary.program.parent / "attributes").write_text("* diff=evil\n")
    with (repository / ".git" / "config").open("a") as config:
        for name, value in HOSTILE_SETTINGS.items():
            section, _, key = name.rpartition(".")
            head, _, sub = section.partition(".")
            title = f'[{head} "{sub}"]' if sub else f"[{head}]"
            told = value.format(canary=canary.program, folder=canary.program.parent)
            config.write(f'{title}\n\t{key} = "{told}"\n')
    return repository


def test_the_canary_fires_if_git_reads_the_history_without_protection(
    hostile: Path, git: Git, canary: Canary
) -> None:
    git(hostile, "log", "-p")
    assert canary.sang()


def test_nothing_that_a_repository_configures_is_run_or_changes_its_history(
    hostile: Path, canary: Canary
) -> None:
    assert told(hostile) == [("signed", ()), ("one", (".gitattributes", "a.py"))]
    assert {commit.author_name for commit in history(hostile)} == {"Test"}
    assert not canary.sang()


def test_commits_are_those_that_were_made_not_their_replacements(
    repository: Path, git: Git
) -> None:
    first = commit(git, repository, "one", {"a.py": "1"})
    second = commit(git, repository, "two", {"a.py": "2"})
    git(repository, "checkout", "--orphan", "lie")
    lie = commit(git, repository, "lie", {"b.py": "3"})
    git(repository, "checkout", "main")
    git(repository, "replace", first, lie)
    (repository / ".git" / "info" / "grafts").write_text(f"{second}\n")
    assert told(repository) == [("two", ("a.py",)), ("one", ("a.py",))]


def test_a_history_whose_objects_are_gone_is_an_error_that_says_so(
    repository: Path, git: Git
) -> None:
    commit(git, repository, "one", {"a.py": "1"})
    tip = find_tip(repository)
    assert tip is not None
    tree = git(repository, "rev-parse", "HEAD^{tree}").decode().strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(IndexingFailed, match="git diff-tree failed: .*" + tree):
        read_commits(tip, list_commits(tip, ALL))
    (repository / ".git" / "objects" / tip.commit[:2] / tip.commit[2:]).unlink()
    with pytest.raises(IndexingFailed, match="git rev-list failed"):
        list_commits(tip, ALL)


def test_a_clone_without_trees_fetches_none(
    repository: Path, git: Git, canary: Canary, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"src/a.py": "1"})
    commit(git, repository, "two", {"src/a.py": "2"})
    git(repository, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--filter=tree:0", f"file://{repository}", str(clone))
    git(clone, "config", "remote.origin.url", f"ext::{canary.program}")
    git(clone, "config", "protocol.ext.allow", "always")
    tip = find_tip(clone)
    assert tip is not None
    listed = list_commits(tip, ALL)
    assert len(listed) == 2
    with pytest.raises(IndexingFailed):
        read_commits(tip, listed)
    assert not canary.sang()


@pytest.fixture
def slow_git(repository: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a directory, and a git that finds one commit in it and then no end."""
    commit(git, repository, "one", {"src/a.py": "1"})
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True)
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *rev-list*) {real.stdout.strip()} "$@"; printf 12ab; exec sleep 60;; esac\n'
        f'exec {real.stdout.strip()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git_room, "TIME_LIMIT_S", 2.0)
    return repository


def test_where_a_directorys_commits_are_hard_to_find_those_found_in_time_count(
    slow_git: Path,
) -> None:
    assert told(slow_git / "src") == [("one", ("a.py",))]


def test_a_git_process_that_does_not_end_is_stopped(slow_git: Path) -> None:
    tip = find_tip(slow_git)
    assert tip is not None
    with pytest.raises(IndexingFailed, match="git rev-list took over 2 s"):
        list_commits(tip, ALL)
