"""The benchmark of find_context: are its states without a future, and its figures right?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.git import git

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from context import take_over
    from context_bm25 import FileWords, words
    from context_samples import Repository, Sample
    from context_scoring import ahead, facts, interval, recall, reciprocal_rank, table
    from context_systems import ContextFacts, Row, share_named
    from context_trees import StateClone
finally:
    sys.path.pop(0)


def sample(number: int = 0, repo: str = "shop/pool", also: tuple[str, ...] = ()) -> Sample:
    key = f"{repo}-{number}"
    gold = ("src/retry.py", "src/wait.py")
    return Sample(key, "issue2code", repo, "a" * 40, "b" * 40, "Wait longer", (), gold, also)


def row(ranked: list[str], number: int = 0, repo: str = "shop/pool") -> Row:
    return Row(sample(number, repo), {"context": ranked, "bm25": ["src/pool.py", "src/wait.py"]})


def test_ranks_and_recall() -> None:
    asked = row(["src/pool.py", "src/wait.py", "a", "b", "c", "src/retry.py"])
    assert reciprocal_rank(asked, "context") == 0.5
    assert reciprocal_rank(row(["src/pool.py"]), "context") == 0
    assert (recall(5)(asked, "context"), recall(10)(asked, "context")) == (0.5, 1)


def test_an_interval_draws_repositories() -> None:
    assert interval([1.0, 0.0, 1.0, 0.0], ["a", "a", "b", "b"]) == (0.5, 0.5)
    low, high = interval([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])
    assert (low, high) == (0, 1)


def test_differences_count_the_tasks_of_both_systems() -> None:
    rows = [row(["src/retry.py"], number, f"shop/{number % 3}") for number in range(6)]
    rows[0].ranked["impact"] = ["src/pool.py"]
    assert ahead(rows, reciprocal_rank, "context", "bm25") == "+0.500 (+0.500 to +0.500)"
    assert ahead(rows, reciprocal_rank, "context", "impact") == "+1.000 (+1.000 to +1.000)"
    assert ahead(rows, reciprocal_rank, "context", "search") == ""
    lines = list(table(rows))
    assert "| issue2code | bm25 | 6 | 0.500 | 0.500 | 0.500 | 0.500 |" in lines[3]
    assert lines[-1].startswith("| all | impact | 1 | 0.000 |")


def test_facts_of_the_answers() -> None:
    rows = []
    for number in range(20):
        asked = row(["src/retry.py", "src/pool.py", "tests/test_pool.py"], number)
        asked.sample = sample(number, also=("tests/test_pool.py",))
        asked.seconds["context"] = 0.1
        replies = {"1200": 0.5, "8000": 1.0}
        asked.context = ContextFacts([0.9, 0.3, 0.2], number / 100, 0.5, replies)
        rows.append(asked)
    rows[0].ranked["context"] = ["src/pool.py", "src/retry.py", "tests/test_pool.py"]
    rows[1].ranked["context"] = ["tests/test_pool.py", "src/pool.py", "src/retry.py"]
    lines = list(facts(rows))
    assert "context, ms: p50 100, p95 100" in lines
    assert "right files named in a reply of 1200 tokens: 0.500" in lines
    assert (
        "first files with a probability of 0.8 or more: 20,"
        " right: 90.0%, changed by the commit: 95.0%"
    ) in lines
    assert any(line.startswith("tasks of another repository noticed: 100.0%") for line in lines)
    assert lines[-2:] == [
        "| 0.3 to 0.4 | 20 | 0.300 | 0.050 |",
        "| 0.9 to 1.0 | 19 | 0.900 | 0.947 |",
    ]  # what the commit also changed is neither right nor wrong
    assert list(facts([row([])])) == []


def test_rows_are_written_and_completed_from_an_earlier_run() -> None:
    former = row(["src/old.py"])
    former.context = ContextFacts([0.5], 0.1, None, {"1200": 1.0})
    former = Row.from_json(former.as_json())
    assert former.sample.text == ""
    assert former.sample.gold == ("src/retry.py", "src/wait.py")
    now = Row(sample(), {"context": ["src/new.py"]})
    take_over([now, Row(sample(1))], [former])
    assert now.ranked == {"context": ["src/new.py"], "bm25": ["src/pool.py", "src/wait.py"]}
    assert now.context == former.context


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("1 src/retry.py: Retry.wait\n2 src/wait.py", 1.0),
        ("1 lib/src/retry.py\n2 src/wait.pyi", 0.0),
        ("see src/retry.py:3-9.", 0.5),
    ],
)
def test_a_reply_names_whole_paths(text: str, share: float) -> None:
    assert share_named(text, ("src/retry.py", "src/wait.py")) == share


def test_bm25_counts_words_and_their_parts(tmp_path: Path) -> None:
    assert words("retryLimit HTTPServer x") == {
        **dict.fromkeys(["retry", "limit", "retrylimit", "http", "server", "httpserver"], 1)
    }
    (tmp_path / "pool.py").write_text("def open_pool(): ...\n" * 3)
    (tmp_path / "wait.py").write_text("def wait(retry_limit): ...\n")
    files = FileWords()
    files.read(tmp_path, {"pool.py": "1", "wait.py": "2", "gone.py": "3"})
    assert files.rank("the retryLimit is wrong", 5) == ["wait.py", "pool.py"]
    (tmp_path / "wait.py").write_text("changed")
    files.read(tmp_path, {"wait.py": "2"})  # the blob is the same, so it is not read again
    assert files.rank("retry", 5) == ["wait.py"]


def test_a_state_has_no_later_history(tmp_path: Path) -> None:
    source = tmp_path / "source"
    git(tmp_path, "init", "-q", str(source))
    commits = []
    for number in range(3):
        (source / "pool.py").write_text(f"value = {number}\n")
        (source / f"only-{number}.py").write_text("")
        git(source, "add", "-A")
        git(source, "commit", "-q", "-m", f"commit {number}")
        git(source, "tag", f"v{number}")
        commits.append(git(source, "rev-parse", "HEAD"))
    clone = StateClone(Repository("shop/pool", source / ".git"), tmp_path / "clone")
    for number in (0, 1):
        assert clone.move_to(commits[number])
        assert (clone.root / "pool.py").read_text() == f"value = {number}\n"
        assert list(clone.files()) == [*(f"only-{n}.py" for n in range(number + 1)), "pool.py"]
        log = git(clone.root, "log", "--all", "--reflog", "--format=%H").split()
        assert log == commits[number::-1]
        assert git(clone.root, "for-each-ref") == ""
        clone.edit(commits[2], "pool.py")
        assert git(clone.root, "status", "--short") == "M pool.py"
        clone.undo()
        assert git(clone.root, "status", "--short") == ""
    assert not clone.move_to("0" * 40)
