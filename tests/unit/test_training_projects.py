"""Whole projects with their questions: is the right code found, and nothing excluded?"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TRAINING = Path(__file__).parents[2] / "training"

sys.path.insert(0, str(TRAINING))
try:
    from draw import snippet_id
    from projects import LEAST_FILES, described, lay_out, lines_of, places_in
finally:
    sys.path.remove(str(TRAINING))

SAVE = '''def save(path, text):
    """Write a text so that a crash leaves the old one."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    return draft.replace(path)
'''
CODE = re.sub(r'    """.*\n', "", SAVE).rstrip()


def test_code_is_found_without_its_docstring() -> None:
    lines = ["import os", "", *SAVE.splitlines(), "", "def other(): ..."]
    assert lines_of(CODE, lines) == (3, 7)
    assert lines_of("def gone():\n    pass", lines) is None


def test_the_same_code_elsewhere_is_right_too_and_common_code_is_no_question() -> None:
    asked = {snippet_id(CODE): ["keep the old file if it dies halfway"]}
    places = [p for n in range(2) for p in places_in(f"{n}.py", f"x = {n}\n\n{SAVE}", "python")]
    places += places_in("other.py", 'def load(path):\n    """Read it again."""\n' * 1, "python")
    [query] = described(places, asked, "seed")
    assert query["targets"] == [
        {"path": f"{n}.py", "start_line": 3, "end_line": 7} for n in range(2)
    ]
    many = [p for n in range(4) for p in places_in(f"{n}.py", SAVE, "python")]
    assert described(many, asked, "seed") == []


def test_a_project_is_laid_out_with_its_questions(tmp_path: Path) -> None:
    files = [(f"src/{n}.py", f"value = {n}\n".encode()) for n in range(LEAST_FILES)]
    files += [("src/save.py", SAVE.encode()), ("../outside.py", b"x = 1\n"), ("a.bin", b"\0")]
    asked = {snippet_id(CODE): [f"question {n}" for n in range(6)]}
    nothing = re.compile("(?!)")
    lay_out("shop", files, asked, nothing, tmp_path)
    written = json.loads((tmp_path / "questions" / "shop.json").read_text("utf-8"))
    assert len(written["queries"]) == 6
    assert written["language"] == "python"
    assert (tmp_path / "trees" / "shop" / "src" / "save.py").read_text("utf-8") == SAVE
    assert not (tmp_path / "trees" / "outside.py").exists()
    assert not (tmp_path / "trees" / "shop" / "a.bin").exists()
    # Of files that belong to an excluded repository nothing is asked.
    assert lay_out("shop", files, asked, re.compile("save"), tmp_path).startswith("0 questions")
