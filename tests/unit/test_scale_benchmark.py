"""The benchmark of scale: are its repositories of the size that is asked for, and no text twice?"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from packages import MORE_PACKAGES, PACKAGES
    from scale import CHUNK_BYTES, repositories
finally:
    sys.path.pop(0)


def test_repositories_are_cut_in_the_order_of_paths_without_a_text_twice(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for package in (*PACKAGES, *MORE_PACKAGES):
        (cache / "packages" / package.folder).mkdir(parents=True)
    first, second = (cache / "packages" / package.folder for package in PACKAGES[:2])
    for number in range(9):
        (first / f"{number}.py").write_text(f"{number}" * CHUNK_BYTES)
        (second / f"{number}.py").write_text(f"{number}" * CHUNK_BYTES)
    trees = list(repositories(tmp_path, 4, cache))
    names = [sorted(file.name for file in tree.rglob("*.py")) for tree in trees]
    assert names == [["0.py", "1.py", "2.py", "3.py"], ["4.py", "5.py", "6.py", "7.py"]]
    assert list(repositories(tmp_path, 4, cache)) == trees
