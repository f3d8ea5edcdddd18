"""The text of a comparison fits its budget, and says what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codebase_mcp.changes.compare import Comparison, Difference, Differences
from codebase_mcp.changes.impact import Change, Impact, Place, Reason
from codebase_mcp.changes.likely import Companion, User
from codebase_mcp.changes.symbols import ChangedSymbol, SymbolChanges
from codebase_mcp.model import FileKind
from codebase_mcp.source.git_changes import FileChange, FileVersion, Status
from codebase_mcp.tools.replies.changes import comparison_text, impact_text

OLD, NEW = FileVersion("100644", "1" * 40), FileVersion("100755", "2" * 40)


def difference(
    path: str, status: Status = "changed", symbols: int = 0, old_path: str | None = None
) -> Difference:
    changes = SymbolChanges(
        added=[ChangedSymbol(f"name_{n}", "function", path, n, n) for n in range(symbols)]
    )
    return Difference(FileChange(path, old_path, status, OLD, NEW, 3, 0), FileKind.CODE, changes)


def differences(*files: Difference, total: int = 0, **left_out: int) -> Differences:
    return Differences(files, total or len(files), has_details=True, left_out=left_out)


def text_of(found: Differences, max_chars: int = 4_000) -> str:
    return comparison_text(
        Comparison("main", "dev", "1" * 40, "2" * 40, "1" * 40, 2, 1, found, ("Note.",)), max_chars
    )


def test_each_file_is_a_line_with_its_definitions_below() -> None:
    submodule = FileVersion("160000", "1" * 40), FileVersion("160000", "2" * 40)
    lib = Difference(FileChange("lib", None, "changed", *submodule), FileKind.CODE, None)
    found = differences(
        difference("a.py", symbols=1),
        difference("b.py", "renamed", old_path="old.py"),
        difference("c.sh", "mode"),
        lib,
        binary=2,
        beyond_limit=1,
    )
    assert text_of(found).splitlines() == [
        "main...dev: 2 commits ahead, 1 behind; 4 files changed, +9 -0",
        "Note.",
        "M a.py +3",
        "    + name_0 0-0",
        "R b.py (was old.py) +3",
        "M c.sh (mode 100644 to 100755) +3",
        "M lib (submodule 111111111111 to 222222222222)",
        "definitions not compared: 2 binary, 1 beyond limit",
    ]


@pytest.mark.parametrize("max_chars", [500, 1_000, 4_000])
def test_what_does_not_fit_is_counted(max_chars: int) -> None:
    files = [difference(f"src/{n:03}.py", symbols=n % 50) for n in range(200)]
    text = text_of(differences(*files, total=300, binary=1), max_chars)
    assert 0.5 * max_chars < len(text) <= max_chars
    lines = text.splitlines()
    shown = sum(line.startswith("M ") for line in lines)
    assert f"… {300 - shown} more files" in lines
    assert lines[-1] == "definitions not compared: 1 binary"


def test_names_cannot_break_a_line() -> None:
    assert "M a\\x0ab +3" in text_of(differences(difference("a\nb"))).splitlines()


def test_an_impact_begins_with_its_score_and_reasons_and_what_is_unlikely_is_only_named() -> None:
    test = replace(difference("t.py", symbols=1), kind=FileKind.TEST)
    impact = Impact(
        Change("1" * 40, differences(difference("a.py", symbols=1), test)),
        0.25,
        (Reason("no_test_changed", 1, 0.2, "1 file of code changed, and no test did."),),
        (Companion("b.py", "a.py", 3, 4),),
        (User("tests/t.py", 3, "test_it", "f", False, True, 0.95, "imported from a"),),
        (
            Place("b.py", "f", 7, "in 3 of 4 commits to a.py", 0.7),
            Place("e.py", None, None, "in 1 of 4 commits to a.py", 0.05),
            Place("c.py", None, 3, "uses f (0.95 same package)", 0.04),
            Place("d.py", None, None, "in 1 of 4 commits to a.py", 0.04),
            Place("a.py", "f", 3, "changed"),
        ),
        0,
    )
    limited = impact_text(impact, 4_000, limit=2).splitlines()
    assert limited[2:6] == [
        "left alone, with how likely it concerns them:",
        "  0.70 b.py:7 f: in 3 of 4 commits to a.py",
        "less likely: e.py",
        "… 2 more files",
    ]
    several = replace(impact, users=tuple(replace(impact.users[0], path=f"t{n}") for n in range(9)))
    assert "tests that use it: t0, t1 (+7)" in impact_text(several, 4_000, limit=2).splitlines()
    assert impact_text(impact, 4_000).splitlines() == [
        "impact 0.25 of 111111111111; 2 files changed, +6 -0",
        "  0.20 1 file of code changed, and no test did.",
        "left alone, with how likely it concerns them:",
        "  0.70 b.py:7 f: in 3 of 4 commits to a.py",
        "  0.04 c.py:3: uses f (0.95 same package)",
        "less likely: e.py, d.py",
        "tests that use it: tests/t.py",
        "no history is stored: index_codebase with depth, or index --history, reads it",
        "changed:",
        "M a.py +3",
        "    + name_0 0-0",
        "M t.py +3",
    ]
