"""The benchmark of indexing: are its corpora, its growth and its clock what they say?"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from corpora import Source, choose, write
    from indexing_report import growth, report, summary
    from packages import MAX_BYTES, PACKAGES, is_wanted
    from stage_clock import Clock
finally:
    sys.path.pop(0)

POOL = [
    Source(Path(f"/{language}/{number}"), f"{language}/{number}", language, 1)
    for language, count in (("python", 600), ("go", 300), ("rust", 90), ("ruby", 10))
    for number in range(count)
]


def test_a_corpus_holds_every_language_in_its_share() -> None:
    shares = Counter(source.language for source in choose(POOL, 100))
    assert shares == {"python": 60, "go": 30, "rust": 9, "ruby": 1}


def test_a_corpus_is_the_same_whatever_order_its_files_are_found_in() -> None:
    assert choose(POOL[::-1], 250) == choose(POOL, 250)


def test_a_smaller_corpus_is_part_of_a_larger_one_and_a_second_shares_nothing_with_it() -> None:
    large = choose(POOL, 400)
    assert choose(POOL, 100) == large[:100]
    assert not set(choose(POOL, 400, 400)) & set(large)


def test_a_corpus_is_no_larger_than_what_there_is() -> None:
    assert len(choose(POOL, 5_000)) == len(POOL)
    assert len(choose(POOL, 400, 800)) == 200


def test_a_corpus_is_written_under_the_paths_of_its_files(tmp_path: Path) -> None:
    file = tmp_path / "pool" / "a.py"
    file.parent.mkdir()
    file.write_text("x = 1\n")
    write([Source(file, "package/sub/a.py", "python", 6)], tmp_path / "corpus")
    assert (tmp_path / "corpus/package/sub/a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.py", b"x = 1\n", True),
        ("a.txt", b"x = 1\n", False),
        ("empty.py", b"", False),
        ("blank.py", b" \n\t\n", False),
        ("latin.py", b"# caf\xe9\n", False),
        ("binary.py", b"x\0y", False),
        ("large.py", b"#" * (MAX_BYTES + 1), False),
    ],
)
def test_a_corpus_takes_only_text_of_known_languages(
    tmp_path: Path, name: str, content: bytes, wanted: bool
) -> None:
    (tmp_path / name).write_bytes(content)
    assert is_wanted(tmp_path / name) is wanted


def test_a_link_is_no_file_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    assert not is_wanted(tmp_path / "link.py")


def test_each_package_has_a_folder_of_its_own_right_below_the_cache() -> None:
    folders = {package.folder for package in PACKAGES}
    assert len(folders) == len(PACKAGES)
    assert not any("/" in folder or "@" in folder for folder in folders)


@pytest.mark.parametrize("k", [0.0, 0.5, 1.0, 2.0])
def test_growth_finds_the_exponent(k: float) -> None:
    sizes = [100, 1_000, 10_000, 50_000]
    assert growth(sizes, [3 * size**k for size in sizes]) == pytest.approx(k)


def test_growth_of_one_size_is_unknown() -> None:
    assert growth([100], [1.0]) is None
    assert growth([100, 100], [1.0, 2.0]) is None


def figures(**more: float) -> dict[str, object]:
    return {"cold": 1.0, "files": 10, "disk": {"bytes": 5_000_000}, **more}


def test_a_summary_is_the_median_of_each_figure() -> None:
    rounds = [figures(cold=seconds) for seconds in (9.0, 1.0, 2.0)]
    found = summary(rounds)
    assert (found["cold"], found["files"], found["bytes"]) == (2.0, 10, 5_000_000)


def test_a_report_says_both_sides_and_how_they_grow() -> None:
    results = [
        {
            "files": files,
            "second_files": files,
            "source_mb": files / 1_000,
            "ours": summary([figures(cold=files / 1_000, files=files)]),
            "semble": summary([figures(cold=(files / 1_000) ** 2, files=files)]),
        }
        for files in (1_000, 10_000)
    ]
    lines = report(results).splitlines()
    [cold] = [line for line in lines if line.startswith("| cold, running")]
    assert cold == "| cold, running program, s | 1 | 1 | 10 | 100 | 1.00; 2.00 |"
    assert "Indexed files" not in lines[-1]


def test_a_report_says_where_a_side_left_files_out() -> None:
    results = [
        {
            "files": 10,
            "second_files": 4,
            "source_mb": 1.0,
            "ours": summary([figures(files=10)]),
            "semble": summary([figures(files=9)]),
        }
    ]
    assert "Indexed files: 10, 9." in report(results)
    assert "Files of the second repository: 4." in report(results)


def burn(core_s: float) -> None:
    until = time.thread_time() + core_s
    while time.thread_time() < until:
        pass


def test_a_stage_has_its_own_time_without_that_of_stages_within() -> None:
    clock = Clock()
    with clock.stage("cut"):
        burn(0.01)
        with clock.stage("parse"):
            burn(0.04)
    assert clock.core_s["parse"] >= 0.04
    assert 0.01 <= clock.core_s["cut"] < 0.04


def test_what_happens_while_embedding_is_embedding() -> None:
    clock = Clock()
    with clock.stage("embed"):
        clock.timed("terms", burn)(0.01)
    assert clock.core_s["embed"] >= 0.01
    assert "terms" not in clock.core_s


def test_stages_of_another_thread_are_counted_apart() -> None:
    clock = Clock()
    other = threading.Thread(target=clock.timed("read", burn), args=(0.04,))
    with clock.stage("list"):
        other.start()
        other.join()
    assert clock.core_s["read"] >= 0.04
    assert clock.core_s["list"] < 0.04
