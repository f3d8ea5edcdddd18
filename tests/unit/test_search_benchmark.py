"""The benchmark of searches: are its questions and its figures what they say?"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


with _importable(BENCHMARKS):
    from building import Builds
    from corpora import Source
    from findings import GOALS, NO_FILTER, RIGHT_AFTER, SMALL_DIRECTORY, Findings
    from latency import Latencies, Work, children_of, parent_of, percentile
    from narrowing import most, nearest
    from questions import LONG_CHARS, long_ones, misspelt
    from trees import Tree


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 51.0), (0.95, 96.0), (1.0, 100.0)]
)
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, share) == expected


def test_work_is_summed_before_its_percentiles_are_taken() -> None:
    latencies = Latencies([1.0, 2.0, 3.0], seconds=2.0, work=[(1, 9), (5, 5), (2, 1)])
    facts = latencies.facts()
    assert (facts["work_p50_ms"], facts["work_p95_ms"]) == (10, 10)
    assert facts["python_work_ms"] == pytest.approx(8 / 3, abs=0.001)
    assert facts["database_work_ms"] == 5
    assert facts["per_s"] == 1.5


def test_nothing_asked_gives_no_figures() -> None:
    assert Latencies().facts() == {"calls": 0}


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux tells it")
def test_the_work_of_this_process_and_of_the_servers_children_is_read() -> None:
    assert os.getpid() in children_of(parent_of(os.getpid()))
    work = Work(parent_of(os.getpid()))
    before = work.now()
    sum(range(2_000_000))
    ours, theirs = work.since(before)
    assert ours > 0
    assert theirs > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_misspelt_question_differs_in_its_longest_word_alone(seed: int) -> None:
    text = "read the configuration of a device"
    words = misspelt(text, random.Random(seed)).split()
    assert [w for w in words if w not in text.split()] == [words[2]]
    assert len(words) == 6


def test_long_questions_are_long_and_use_each_sentence_once() -> None:
    sentences = [f"This is sentence number {number} of many" for number in range(40)]
    found = long_ones(sentences)
    assert found
    assert all(LONG_CHARS <= len(text) < 2 * LONG_CHARS for text in found)
    assert sum(text.count("number 7 ") for text in found) == 1


def test_the_directory_nearest_to_a_share_is_taken() -> None:
    counts = {"a": 40, "b": 11, "c": 9, "d": 900}
    assert nearest(counts, 1_000, 0.01) == "b"


def test_as_many_languages_are_taken_as_make_half() -> None:
    counts = Counter(python=40, go=30, rust=20, c=10)
    assert most(counts, 50) == ("python", "go")
    assert most(counts, 40) == ("python",)


def test_a_search_counts_as_beside_a_build_when_they_overlap() -> None:
    builds = Builds([[10.0, 12.0], [20.0, 21.0]])
    assert builds.was_building(9.0, 10.5)
    assert builds.was_building(10.5, 11.0)
    assert builds.was_building(5.0, 30.0)
    assert not builds.was_building(12.5, 19.5)
    assert builds.seconds() == 3


def test_a_tree_copies_its_files_and_edits_the_copies_others_each_time(tmp_path: Path) -> None:
    sources = []
    for number in range(40):
        location = tmp_path / "from" / f"{number}.py"
        location.parent.mkdir(exist_ok=True)
        location.write_text("x = 1\n" * 10)
        sources.append(Source(location, f"package/folder-{number}/it.py", "python", 60))
    tree = Tree(tmp_path / "tree", sources)
    assert tree.add(20 * 60)
    assert (len(tree.files), tree.written_bytes) == (20, 1_200)
    assert tree.add(1_000_000)
    assert not tree.add(1)
    assert len(tree.files) == 40
    assert all(any(repository.rglob("*.py")) for repository in tree.repositories)
    assert [tree.edit(10), tree.edit(10)] == [4, 4]
    edited = [file for file in tree.files if "edit" in file.read_text()]
    assert len(edited) == 8
    assert all("edit" not in source.location.read_text() for source in sources)


def test_each_goal_has_a_figure_in_the_findings_and_a_verdict() -> None:
    findings = Findings(60_000)
    for label in (NO_FILTER, RIGHT_AFTER, f"{NO_FILTER}: only common words"):
        findings.add(label, Latencies([20.0]))
    for label in (NO_FILTER, RIGHT_AFTER, SMALL_DIRECTORY):
        findings.add_recall(label, {"nearest": 0.995, "filled": 0.9})
    verdicts = {goal.name: goal.is_met(goal.figure(findings) or 0) for goal in GOALS}
    assert verdicts == {
        "p50 alone, ms": False,
        "p95 alone, ms": False,
        "p95 right after a re-index, ms": False,
        "p95 of only common words, ms": True,
        "recall@10, settled": True,
        "recall@10, right after a re-index": True,
        "full limit in a small directory": False,
    }
