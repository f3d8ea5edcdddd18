"""Which tests failed? The reports of test runners in many languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codebase_mcp.context.paths import TaskPath, clean_path, is_file_name

_N = r"(?P<line>\d{1,7})"

# Patterns for the beginning of a line, each with a text that such a line has.
_REPORTS: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (sign, re.compile(pattern))
    for sign, pattern in (
        # pytest, unittest
        (
            "::",
            r"(?:(?:FAILED|ERROR|XFAIL|FAIL)\s+)?(?P<path>[\w./\\-]+\.(?:py|php))::"
            r"(?P<name>[^\s-]\S*)(?:\s+(?:FAILED|ERROR)\b.*| - (?P<message>.*))?$",
        ),
        ("ERROR", r"ERROR(?: collecting)? (?P<path>[\w./\\-]+\.py)(?: - (?P<message>.*))?$"),
        ("___", r"_{3,} (?:ERROR at \w+ of )?(?P<name>[\w.]+)(?:\[.*\])? _{3,}$"),
        ("(", r"(?:FAIL|ERROR): (?P<name>\w+) \((?P<owner>[\w.]+)\)"),
        # Jest, Vitest, Mocha, TAP
        (
            "FAIL",
            r"(?:\u276f |\xd7 )?FAIL\s+(?:\[?[\w-]+\]? )?(?P<path>[\w./\\@-]+\.\w+)"
            r"(?:\s+>\s+(?P<title>.+)| \([\d.]+ ?m?s\)|\s*$)",
        ),
        ("\u25cf ", r"\u25cf (?P<title>.+)$"),
        ("not ok", r"not ok \d+ -? ?(?P<title>.+)$"),
        # RSpec, PHPUnit, ExUnit
        (
            "rspec ",
            rf"rspec '?(?P<path>[\w./-]+\.rb)(?::{_N}|\[[\d:]+\])'?(?: # (?P<title>.*))?",
        ),
        (") ", r"\d+\) (?P<name>(?:\w+\\)*\w+::\w+)"),
        (") ", r"\d+\) test (?P<title>.+) \((?P<owner>[\w.]+)\)$"),
        # cargo, go, googletest, XCTest, dotnet, Bats
        ("---- ", r"---- (?P<name>[\w:]+) stdout ----"),
        ("test ", r"test (?P<name>[\w:]+)(?: - should panic)? \.\.\. FAILED"),
        ("--- FAIL", r"--- FAIL: (?P<name>\S+)"),
        ("FAILED", r"\[  FAILED  \] (?P<name>\w+\.\w+)"),
        ("failed", r"Test Case '-\[(?P<owner>[\w.]+) (?P<name>\w+)\]' failed"),
        ("Failed ", r"Failed (?P<name>[\w.]+\.\w+)(?:\(.*\))? \[[<\d]"),
        ("in test file ", rf"# ?\((?:from .* )?in test file (?P<path>[^,]+), line {_N}\)"),
        # Gradle, Maven
        (
            "FAILED",
            r"(?:> )?(?P<owner>[\w.$]*[A-Z]\w+) > (?P<name>\w+)(?:\(.*\))?(?:\[.*\])? FAILED",
        ),
        (".java:", rf"[\w.]+ at (?P<path>\w+\.(?:java|kt|scala|groovy)):{_N}$"),
        ("<<<", r"(?:\[ERROR\] )?(?P<owner>[\w.$]*?[A-Z]\w*)\.(?P<name>\w+)\b.*<<< "),
        ("<<<", r"(?:\[ERROR\] )?(?P<name>\w+)\((?P<owner>[\w.$]+)\).*<<< "),
        (
            "[ERROR]",
            rf"\[ERROR\]\s+(?P<owner>[A-Z]\w*)\.(?P<name>\w+):{_N}(?:->\S+)? (?P<message>.*)",
        ),
    )
)
# Mocha and RSpec number the titles of failed tests; so do people the items of a list.
_NUMBERED_TITLE = re.compile(r"\d+\) (?P<title>[^()\"]{3,}?):?$")
_NUMBERS_TITLES = re.compile(r"(?m)^\s{0,8}(?:\d+ failing\b|rspec \./|Failures:$)")
_PART = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class TestReport:
    """A failed test: its file, the names of its function and class, its title, what it says."""

    __test__ = False  # not a test of pytest

    path: TaskPath | None = None
    names: tuple[str, ...] = ()
    title: str | None = None
    message: str | None = None


class TestReports:
    """Reads the lines of a text that report a failed test."""

    __test__ = False

    def __init__(self, text: str) -> None:
        self._patterns = [(sign, pattern) for sign, pattern in _REPORTS if sign in text]
        if _NUMBERS_TITLES.search(text):
            self._patterns.append((") ", _NUMBERED_TITLE))

    def read(self, line: str) -> TestReport | None:
        """The test that a line reports as failed."""
        for sign, pattern in self._patterns:
            if sign in line and (match := pattern.match(line)):
                return _report(match.groupdict())
        return None


def _report(groups: dict[str, str | None]) -> TestReport:
    path, line, title = groups.get("path"), groups.get("line"), groups.get("title")
    cleaned = clean_path(path) if path else ""
    return TestReport(
        TaskPath(cleaned, "test", int(line) if line else None)
        if is_file_name(cleaned, needs_folder=False)
        else None,
        tuple(_names(groups.get("name") or "", groups.get("owner") or "")),
        re.split(r" [\u203a>] ", title.strip())[-1] if title else None,
        groups.get("message"),
    )


def _names(name: str, owner: str) -> Iterator[str]:
    """The function of a test and its class."""
    parts = [p for p in re.split(r"::|[.\\/]", name.partition("[")[0]) if _PART.fullmatch(p)]
    yield from (part for part in parts[:-3:-1] if part != "tests")
    if owner:
        yield re.split(r"[.$]", owner)[-1]
