"""Files that a change probably concerns: each piece of evidence counts, and they add up."""

from __future__ import annotations

import pytest

from codebase_mcp.changes.likely import (
    LEAST,
    Candidate,
    LikelyFile,
    folders_of,
    likely_files,
    plain_name,
    same_names,
)
from codebase_mcp.changes.users import User


def user(path: str, *, is_removed: bool = False, confidence: float = 0.95) -> User:
    return User(path, 7, "sell", "charge", is_removed, False, confidence, "same file")


def find(*candidates: Candidate, users: tuple[User, ...] = ()) -> list[LikelyFile]:
    return likely_files(["src/pay.py"], candidates, users)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Candidate("b", 0.1, "src/pay.py", 9, 10), Candidate("a", 0.1, "src/pay.py", 5, 10)),
        # Two of two commits say less than twenty of twenty.
        (Candidate("b", 0.0, "src/pay.py", 20, 20), Candidate("a", 0.0, "src/pay.py", 2, 2)),
        (Candidate("b", 0.5), Candidate("a", 0.1)),
        (Candidate("test/test_pay.py", 0.1), Candidate("a/test_other.py", 0.1)),
        (Candidate("src/z.py", 0.1), Candidate("lib/a.py", 0.1)),
    ],
    ids=["share", "many commits", "busy", "name", "folder"],
)
def test_better_evidence_makes_a_file_likelier(better: Candidate, worse: Candidate) -> None:
    first, second = find(worse, better)
    assert (first.path, second.path) == (better.path, worse.path)
    assert 1 >= first.score >= second.score >= LEAST


def test_evidence_adds_up_and_is_told() -> None:
    together = Candidate("a.py", 0.1, "src/pay.py", 3, 6)
    [alone] = find(together)
    [used] = find(together, users=(user("a.py", confidence=0.5), user("a.py")))
    [broken] = find(together, users=(user("a.py"), user("a.py", is_removed=True)))
    assert alone.score < used.score < broken.score < 1
    assert alone.score == pytest.approx(3.4 / 10)
    assert alone.why == "changed in 3 of the 6 commits that touched src/pay.py"
    assert used.why == f"uses charge, which changed (0.95 same file); {alone.why}"
    assert broken.why.startswith("uses charge, which is gone")
    [test] = find(Candidate("tests/pay_test.py", 0.25))
    assert test.why == "named like src/pay.py"
    assert [one.why for one in find(Candidate("CHANGES.md", 0.25))] == [
        "changed in 25% of all commits"
    ]


def test_what_is_unlikely_or_changed_itself_is_left_out() -> None:
    assert find(Candidate("a.py", 0.001), Candidate("src/pay.py", 0.9)) == []
    assert [one.path for one in find(users=(user("b.py"),))] == ["b.py"]


@pytest.mark.parametrize(
    "path",
    ["a/cart.py", "test_cart.py", "cart_test.go", "cart.spec.ts", "Cart-spec.js", "CartTests.java"],
)
def test_tests_are_named_like_what_they_test(path: str) -> None:
    assert plain_name(path) == "cart"
    assert path.rpartition("/")[2].partition(".")[0].lower() in same_names(["lib/cart.c"])


def test_the_root_is_a_folder_without_a_name() -> None:
    assert folders_of(["a.py", "src/b/c.py", "src/b/d.py"]) == ["", "src/b/"]
    assert plain_name("tests/test.py") == "test"
