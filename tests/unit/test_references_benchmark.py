"""The benchmark of references: are its sample and its figures what they say?"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from references import Asked, Score, chosen, differences
    from references_tools import Listing
finally:
    sys.path.pop(0)

ROWS = [
    ("python", kind, "a.py", f"{kind}{number}", f"{kind}{number}", number, number)
    for kind, count in (("function", 50), ("method", 5), ("class", 20), ("enum", 20))
    for number in range(count)
]
ASKED = Asked(
    "python", "function", "a.py", "f", 1, [(1, 2)],
    {("a.py", 5): 0.95, ("b.py", 1): 0.95, ("c.py", 1): 0.95, ("c.py", 2): 0.1},
)  # fmt: skip
TRUTH = {
    "places": [["a.py", 5, "plain"], ["c.py", 2, "object"], ["d.py", 1, "own"]],
    "claims": [["a.py", 5, "right"], ["b.py", 1, "wrong"], ["c.py", 1, "undecided"]],
}


def test_as_many_definitions_of_each_kind_are_chosen_and_always_the_same() -> None:
    first = chosen(ROWS, 30)
    assert first == chosen(ROWS, 30)
    kinds = [row[1] for row in first]
    assert (kinds.count("function"), kinds.count("method")) == (10, 5)
    assert kinds.count("class") + kinds.count("enum") == 10


def test_what_is_called_sure_is_judged_and_all_that_is_named_counts_for_recall() -> None:
    assert ASKED.claims == [("a.py", 5), ("b.py", 1), ("c.py", 1)]
    score = Score()
    score.add(ASKED, TRUTH)
    # definitions, decided, precision, undecided, without types, recall, all, recall, called sure
    assert score.row() == "1 | 2 | 0.500 | 1 | 2 | 0.500 | 3 | 0.667 | 0.333"


def test_what_a_compiler_lists_is_asked_by_the_lines_of_a_definition() -> None:
    listing = Listing.read({
        "definitions": [["a.py", 1, "f", "1"], ["a.py", 9, "f", "2"]],
        "uses": [["b.py", 3, "f", "1", "object"], ["b.py", 3, "f", "1", "plain"],
                 ["b.py", 4, "f", "2", "plain"], ["b.py", 5, "f", "", "plain"]],
    })  # fmt: skip
    asked = {
        "path": "a.py",
        "name": "f",
        "heads": [(1, 2)],
        "claims": [("b.py", n) for n in (3, 4, 5, 6)],
    }
    assert listing.truth(asked) == {
        "places": [["b.py", 3, "plain"]],
        "claims": [["b.py", 3, "right"], ["b.py", 4, "wrong"], ["b.py", 5, "wrong"],
                   ["b.py", 6, "undecided"]],
    }  # fmt: skip
    assert listing.truth(asked | {"name": "g"}) is None


def test_what_differs_is_listed() -> None:
    lines = [line.split("\t")[1:3] for line in differences("p", ASKED, TRUTH)]
    assert lines == [["wrong", "b.py:1"], ["undecided", "c.py:1"], ["missed own", "d.py:1"]]
