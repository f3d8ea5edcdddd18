"""Files that a change probably concerns: each piece of evidence counts, and they add up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from codebase_mcp.changes.likely import (
    LEAST,
    Companion,
    History,
    LikelyFile,
    User,
    folders_of,
    likely_files,
    plain_name,
    same_names,
)

PAY, CART = "src/pay.py", "src/cart.py"


def user(path: str, *, is_removed: bool = False, confidence: float = 0.95) -> User:
    return User(path, 7, "sell", "charge", is_removed, False, confidence, "same file")


def find(
    *files: str,
    commits: Sequence[Sequence[str]] = (),
    users: Sequence[User] = (),
    changed: Sequence[str] = (PAY,),
) -> list[LikelyFile]:
    return likely_files(changed, files, History(changed, commits), users)


def first(
    *files: str,
    commits: Sequence[Sequence[str]] = (),
    users: Sequence[User] = (),
    changed: Sequence[str] = (PAY,),
) -> str:
    """The likeliest of some files, which is so clearly."""
    found = find(*files, commits=commits, users=users, changed=changed)
    assert all(LEAST <= one.score <= 1 for one in found)
    assert len(found) == 1 or found[0].score > found[1].score
    return found[0].path


@pytest.mark.parametrize(
    "commits",
    [
        [[PAY, "a"]] * 3 + [[PAY, "b"]] * 9,
        # Among many files two change together by chance.
        [[PAY, "a", *"cdefgh"], [PAY, "b"]],
        # What belongs together changes.
        [[PAY, "b"], *([["c"]] * 1_000), [PAY, "a"]],
        # With both changed files.
        [[PAY, "a"], [CART, "a"], [PAY, CART, "b"], *([["c"]] * 50)],
        # Rare ones say more.
        [[PAY, "a"], *([[PAY]] * 20), [CART, "b"]],
        [["a"], ["b"], ["b"]],
    ],
    ids=["share", "small commit", "new", "several", "rare", "busy"],
)
def test_commits_like_the_change_say_what_belongs_to_it(commits: list[list[str]]) -> None:
    assert first("a", "b", commits=commits, changed=[PAY, CART]) == "b"


def test_names_folders_and_uses_count_and_less_the_more_files_they_speak_for() -> None:
    assert first("a/test_other.py", "test/test_pay.py") == "test/test_pay.py"
    assert first("lib/a.py", "src/z.py") == "src/z.py"
    assert first("a.py", "b.py", users=[user("b.py"), user("a.py", confidence=0.5)]) == "b.py"
    assert first("a.py", "b.py", users=[user("b.py", is_removed=True), user("a.py")]) == "b.py"
    few, many = find("src/z.py"), find(*(f"src/{n}.py" for n in range(5)))
    assert few[0].score == pytest.approx(5 * many[0].score)
    [alone] = find(users=[user("b.py")])
    among = find(users=[user(f"{n}.py") for n in range(3)])
    assert alone.score == pytest.approx(3 * among[0].score)
    assert len(find(users=[user(f"{n}.py") for n in range(500)])) == 500


def test_evidence_adds_up_and_is_told() -> None:
    commits = [[PAY, "a.py"]] * 3 + [[PAY]] * 3 + [["CHANGES.md"]] * 6
    [together] = find("a.py", commits=commits)
    [used] = find("a.py", commits=commits, users=[user("a.py", confidence=0.5), user("a.py")])
    [broken] = find("a.py", commits=commits, users=[user("a.py"), user("a.py", is_removed=True)])
    assert together.score < used.score < broken.score < 1
    assert together.together == Companion("a.py", PAY, 3, 6)
    assert together.why == "in 3 of 6 commits to src/pay.py"
    assert used.why == f"uses charge (0.95 same file); {together.why}"
    assert broken.why.startswith("uses charge, which is gone")
    assert [one.why for one in find("tests/pay_test.py")] == ["named like src/pay.py"]
    assert [one.why for one in find("CHANGES.md", commits=commits)] == ["in 50% of all commits"]


def test_of_several_changed_files_the_one_that_a_file_follows_most_reliably_is_told() -> None:
    # Two of two commits say less than twenty of twenty-two.
    commits = [[CART, "a.py"]] * 2 + [[PAY, "a.py"]] * 20 + [[PAY]] * 2
    [found] = find("a.py", commits=commits, changed=[PAY, CART])
    assert found.together == Companion("a.py", PAY, 20, 22)


def test_what_is_unlikely_or_changed_itself_is_left_out() -> None:
    assert find("a.py", PAY) == []
    assert find("a.py", PAY, commits=[[PAY], *([["b.py"]] * 200), ["a.py"]]) == []
    assert [one.path for one in find(users=[user("b.py"), user(PAY)])] == ["b.py"]


def test_the_files_that_change_most_are_worth_a_look_whatever_changed() -> None:
    history = History([PAY], [["log"], ["log", "x"], ["y"], [PAY, "a.py"]])
    assert history.paths(1) == {"log", PAY, "a.py"}
    assert History([PAY], []).likelihood("a.py") == 0


@pytest.mark.parametrize(
    "path",
    [
        "a/cart.py",
        "test_cart.py",
        "spec_cart.rb",
        "cart_test.go",
        "cart.spec.ts",
        "Cart-spec.js",
        "CartTests.java",
    ],
)
def test_tests_are_named_like_what_they_test(path: str) -> None:
    assert plain_name(path) == "cart"
    assert path.rpartition("/")[2].partition(".")[0].lower() in same_names(["lib/cart.c"])


def test_the_root_is_a_folder_without_a_name() -> None:
    assert folders_of(["a.py", "src/b/c.py", "src/b/d.py"]) == ["", "src/b/"]
    assert plain_name("tests/test.py") == "test"
