"""Names lead to the commits that git finds for them; hostile names lead nowhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import (
    Ref,
    list_refs,
    merge_base,
    resolve_commit,
)

Git = Callable[..., bytes]


def opened(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def hash_of(git: Git, root: Path, revision: str) -> str:
    return git(root, "rev-parse", "--verify", revision).decode().strip()


def commit(git: Git, root: Path, message: str) -> str:
    git(root, "commit", "--allow-empty", "-m", message)
    return hash_of(git, root, "HEAD")


def names(refs: list[Ref]) -> list[tuple[str, str]]:
    return [(ref.kind, ref.name) for ref in refs]


def import_ref(repository: Path, name: bytes) -> None:
    """A branch with a name that no command line could have given."""
    with (repository / ".git" / "packed-refs").open("ab") as packed:
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository).strip()
        packed.write(head + b" " + name + b"\n")


@pytest.fixture
def history(repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> Path:
    """main with three commits, side from the first, tags, and remote branches."""
    for number, message in enumerate(["one", "two", "three"]):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{1_600_000_000 + number} +0000")
        commit(git, repository, message)
    git(repository, "branch", "side", "main~2")
    git(repository, "tag", "v1.0", "main~2")
    git(repository, "tag", "-a", "v2.0", "-m", "two", "main~1")
    git(repository, "tag", "-a", "nested", "-m", "nested", "v2.0")
    git(repository, "update-ref", "refs/remotes/origin/main", "main~1")
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git(repository, "update-ref", "refs/notes/commits", "main")
    return repository


def test_branches_and_tags_are_listed_with_their_commits(history: Path, git: Git) -> None:
    one, two, three = (hash_of(git, history, f"main~{n}") for n in (2, 1, 0))
    assert list_refs(opened(history)) == [
        Ref("main", "branch", three, 1_600_000_002, True),
        Ref("side", "branch", one, 1_600_000_000, False),
        Ref("origin/main", "remote", two, 1_600_000_001, False),
        Ref("nested", "tag", two, 1_600_000_001, False),
        Ref("v1.0", "tag", one, 1_600_000_000, False),
        Ref("v2.0", "tag", two, 1_600_000_001, False),
    ]


def test_refs_that_lead_to_no_commit_are_left_out(history: Path, git: Git) -> None:
    before = list_refs(opened(history))
    git(history, "tag", "tree", "main^{tree}")
    git(history, "tag", "-a", "tagged-tree", "-m", "x", "main^{tree}")
    git(history, "symbolic-ref", "refs/heads/nowhere", "refs/heads/gone")
    (history / ".git" / "refs" / "heads" / "missing").write_text("1" * 40 + "\n")
    (history / ".git" / "refs" / "heads" / "nonsense").write_text("nonsense\n")
    damaged = hash_of(git, history, "main^{commit}")
    git(history, "branch", "whole", "side")
    assert names(list_refs(opened(history))) == sorted(
        [*names(before), ("branch", "whole")],
        key=lambda ref: (["branch", "remote", "tag"].index(ref[0]), ref[1]),
    )
    loose = history / ".git" / "objects" / damaged[:2] / damaged[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"damaged")
    assert ("branch", "main") not in names(list_refs(opened(history)))
    assert ("branch", "whole") in names(list_refs(opened(history)))


def test_each_work_tree_has_its_own_head(history: Path, git: Git, tmp_path: Path) -> None:
    git(history, "worktree", "add", str(tmp_path / "linked"), "side")
    heads = {
        ref.name
        for root in (history, tmp_path / "linked")
        for ref in list_refs(opened(root))
        if ref.is_head
    }
    assert heads == {"main", "side"}
    git(history, "checkout", "--detach")
    assert not any(ref.is_head for ref in list_refs(opened(history)))


ODD_NAMES = [
    "--exec",
    "-d",
    "HEAD",
    "main@home",
    "größe/日本",
    "a'b\"c$(x);&|<>!{}",
    "refs/heads/main",
    "x" * 240,
    "/".join(["deep"] * 200),
    "\u202egnp",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_branch_with_an_odd_name_is_found_by_it(history: Path, git: Git, name: str) -> None:
    import_ref(history, b"refs/heads/" + name.encode())
    assert ("branch", name) in names(list_refs(opened(history)))
    three = hash_of(git, history, "main")
    assert resolve_commit(opened(history), f"heads/{name}") == three


def test_a_name_that_is_not_utf8_is_escaped_and_found_by_that(history: Path, git: Git) -> None:
    import_ref(history, b"refs/heads/caf\xe9")
    assert ("branch", "caf\\xe9") in names(list_refs(opened(history)))
    assert resolve_commit(opened(history), "caf\\xe9~1") == hash_of(git, history, "main~1")


@pytest.mark.parametrize(
    ("ref", "git_says"),
    [
        ("main", "main"),
        ("side", "side"),
        ("heads/side", "side"),
        ("refs/heads/side", "side"),
        ("v2.0", "v2.0^{commit}"),
        ("nested", "v2.0^{commit}"),
        ("nested^{}", "v2.0^{commit}"),
        ("v2.0^{commit}~1", "main~2"),
        ("origin/main", "origin/main"),
        ("origin", "origin/main"),
        ("HEAD", "main"),
        ("@", "main"),
        ("main~2", "main~2"),
        ("main^", "main~1"),
        ("main^1^", "main~2"),
        ("main~", "main~1"),
        ("main~0", "main"),
    ],
)
def test_a_name_means_the_commit_that_git_says(
    history: Path, git: Git, ref: str, git_says: str
) -> None:
    assert resolve_commit(opened(history), ref) == hash_of(git, history, git_says)


def test_a_hash_may_be_abbreviated_to_what_is_unique(history: Path, git: Git) -> None:
    whole = hash_of(git, history, "main")
    for digits in (40, 12, 7):
        assert resolve_commit(opened(history), whole[:digits]) == whole
    assert resolve_commit(opened(history), whole[:12].upper()) == whole
    with pytest.raises(InvalidInput, match="hash of exactly one commit"):
        resolve_commit(opened(history), "0" * 12)
    tree = hash_of(git, history, "main^{tree}")
    with pytest.raises(InvalidInput):
        resolve_commit(opened(history), tree)


def test_a_tag_precedes_a_branch_of_the_same_name_as_in_git(history: Path, git: Git) -> None:
    git(history, "tag", "side", "main")
    repository = opened(history)
    assert resolve_commit(repository, "side") == hash_of(git, history, "main")
    assert resolve_commit(repository, "heads/side") == hash_of(git, history, "main~2")


REFUSED = [
    "",
    " ",
    "-h",
    "--all",
    "--exec",
    "--end-of-options",
    "--git-dir=/etc",
    "main main",
    "main\nside",
    "main\0",
    "main\x7f",
    "main:a.py",
    ":a.py",
    ":/one",
    ":0:a.py",
    "main^{/one}",
    "main^{tree}",
    "main^{object}",
    "main^@",
    "main^!",
    "main^-1",
    "^main",
    "~1",
    "main..side",
    "main...side",
    "../main",
    "main@{1}",
    "main@{yesterday}",
    "@{-1}",
    "main@{upstream}",
    "ma*",
    "ma?n",
    "[m]ain",
    "main\\",
    "main\\x0aside",
    "main\\x00",
    "main" + "^" * 51,
    "m" * 5_000,
    "main\ud800",
    "main~99999999999999999999",
]


@pytest.mark.parametrize("ref", REFUSED)
def test_what_is_no_name_of_a_commit_is_refused(
    history: Path, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_question(*_: object) -> str:
        raise AssertionError("git was asked")

    monkeypatch.setattr("codebase_mcp.source.git_refs.ask_git_word", no_question)
    with pytest.raises(InvalidInput) as caught:
        resolve_commit(opened(history), ref, field="base")
    assert caught.value.details["field"] == "base"
    caught.value.as_dict()


def test_what_is_refused_for_its_dash_can_be_named_otherwise(history: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve_commit(opened(history), "--exec")
    assert caught.value.hint == "Write heads/--exec for a branch of this name."


def test_an_unknown_name_is_refused_with_the_nearest_ones(history: Path, git: Git) -> None:
    repository = opened(history)
    with pytest.raises(InvalidInput, match="'sidr' is neither a branch nor a tag") as caught:
        resolve_commit(repository, "sidr~1")
    assert caught.value.hint == "Did you mean side?"
    git(history, "update-ref", "refs/remotes/origin/dev", "main")
    with pytest.raises(InvalidInput) as caught:
        resolve_commit(repository, "dev")
    assert caught.value.hint == "Did you mean origin/dev?"
    with pytest.raises(InvalidInput) as caught:
        resolve_commit(repository, "zzz")
    assert caught.value.hint is not None
    assert "main" in caught.value.hint


def test_too_many_steps_are_told_apart_from_an_unknown_name(
    history: Path, git: Git, tmp_path: Path
) -> None:
    for ref in ("main~3", "main^2"):
        with pytest.raises(InvalidInput, match="no such ancestor"):
            resolve_commit(opened(history), ref)
    git(tmp_path, "clone", "--depth=1", f"file://{history}", "shallow")
    with pytest.raises(InvalidInput, match="no such ancestor") as caught:
        resolve_commit(opened(tmp_path / "shallow"), "main~1")
    assert "unshallow" in (caught.value.hint or "")


def test_before_the_first_commit_there_is_nothing(repository: Path) -> None:
    empty = opened(repository)
    assert list_refs(empty) == []
    with pytest.raises(InvalidInput) as caught:
        resolve_commit(empty, "HEAD")
    assert caught.value.hint == "The repository has no branch or tag with a commit."


def test_the_merge_base_is_the_best_common_ancestor(history: Path, git: Git) -> None:
    repository = opened(history)
    one, three = hash_of(git, history, "side"), hash_of(git, history, "main")
    assert merge_base(repository, one, three) == one
    git(history, "checkout", "--orphan", "other")
    assert merge_base(repository, commit(git, history, "other"), three) is None


def test_neither_replacements_nor_grafts_change_what_is_found(history: Path, git: Git) -> None:
    one, three = hash_of(git, history, "side"), hash_of(git, history, "main")
    git(history, "replace", three, one)
    (history / ".git" / "info").mkdir(exist_ok=True)
    (history / ".git" / "info" / "grafts").write_text(f"{three}\n")
    repository = opened(history)
    assert resolve_commit(repository, "main~2") == one
    assert {ref.committed_at for ref in list_refs(repository) if ref.name == "main"} == {
        1_600_000_002
    }


def test_longer_hashes_and_repositories_of_others_are_read(
    tree: Path, git: Git, tmp_path: Path
) -> None:
    git(tree, "init", "--object-format=sha256")
    only = commit(git, tree, "one")
    if os.geteuid() == 0:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, 12345, 12345)
    repository = opened(tree)
    assert [ref.commit for ref in list_refs(repository)] == [only]
    assert len(only) == 64
    assert resolve_commit(repository, only[:8]) == only
