"""What did a compiler, a linter or a test runner say? Paths with lines, messages, failed tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from codebase_mcp.context.paths import TaskPath, clean_path, is_file_name, is_library
from codebase_mcp.context.test_runs import TestReport, TestReports

_MAX_LINE_CHARS = 1_000

_LOCATION = re.compile(
    r"""(?:(?:error|warning|note|\*\*|\[(?:error|warn|warning)\]|error\ in|fail(?:ed)?|e|w|-->|at|in
          |from|\#|In\ file\ included\ from|\u2514\u2500|\u250c\u2500|\u256d\u2500\[)[ :]+)?
    (?P<path>(?:file://|[A-Za-z]:)?[^\s:()\[\]'"`,<>]++)
    (?::(?P<line>\d{1,7})(?::\d+)?(?:-\d+(?::\d+)?)?  # gcc, clang, go, rustc, mypy, eslint
      |\((?P<line2>\d{1,7})(?:,\d+)*\)                # tsc, MSBuild
      |:\[(?P<line3>\d{1,7}),\d+\]                    # Maven
      |:\ \((?P<line4>\d{1,7}),\ \d+\)                # kotlinc
      |:?\ line\ (?P<line5>\d{1,7})                   # bash, ShellCheck, PHP
      |\ (?P<line6>\d{1,7}):\d+\b)                    # webpack
    (?P<end>\]?\s*(?:$|[(:,-]|\s)\s*)(?P<message>.*)""",
    re.VERBOSE | re.IGNORECASE,
)
_HAS_LOCATION = re.compile(r"[:( \[]\d")
_DIGIT = re.compile(r"\d")
_LINE_GROUPS = ("line", "line2", "line3", "line4", "line5", "line6")

# The rows of a linter below the line with the path.
_ROW = re.compile(r"(?P<line>\d{1,7}):\d+\s+(?:error|warning|\u2716|\u26a0)\s+(?P<message>\S.*)")
_ROW_PATH = re.compile(r"(?:[A-Za-z]:)?[\w./\\@+ -]+\.\w{1,6}$")
_PHPSTAN_ROW = re.compile(r":?(?P<line>\d{1,7})\s{2,}(?P<message>\S.*)")
_PHPSTAN_PATH = re.compile(r"Line\s+(?P<path>\S+\.php)$")

_SEVERITY = re.compile(
    r"^(?:(?:fatal |internal |syntax |type |parse )?(?:error|warning|note|info|hint|remark)\b"
    r"(?:\[?\s?[A-Z]*\d*\]?)?(?: (?:TS|CS)\d+)?\s*[:-]?\s*|[A-Z]{1,4}\d{2,5}:?\s|[CWEFRI]: )",
    re.IGNORECASE,
)
_RULE = re.compile(r"\s{2,}[\w@/-]+$|\[(?:-W)?[\w=,+-]+\]$|\s[\w@-]+(?:/[\w-]+)+$|\s\(\w[\w-]*\)$")

# Other lines of programs, which are no sentences.
_OUTPUT = re.compile(
    r"""\d*\s*\|(?:\s|$)|[\^~]+$|=\ (?:note|help):|error(?:\[E\d+\])?:\ |(?:warning|note|help):\s
      |npm\ ERR!|make(?:\[\d+\])?:\ |For\ more\ information\ about|Found\ \d+\ error|ninja:[ ]
      |collect2:
      |\d+\ (?:passed|failed|errors?|warnings?)\b|Tests?:?\ +(?:run:|\d)|FAILED\ \(|Ran\ \d+\ tests?
      |\[(?:INFO|ERROR|WARNING|DEBUG|WARN)\]|Test\ Suites:|Snapshots:|BUILD\ FAILED|test\ result:
      |FAIL(?:$|\t)|PASS(?:$|\ )|ok\s+\S+\s+[\d.]+s|\(?compared\ using\s
      |platform\ (?:linux|darwin|win32)\ --
      |(?:Failures?|Failed\ examples|Error):$|Failure/Error:\ |expect\(
      |There\ (?:was|were)\ \d+\ failure
      |(?:expected|Expected|received|Received|got|actual):\ |Failed\ asserting\ that
      |(?:=>)?0x[0-9a-f]{6,}\b|(?:READ|WRITE)\ of\ size|(?:freed|previously\ allocated)\ by\ thread
      |Shadow\ byte|SUMMARY:\ |Node\.js\ v\d|==\d+==
      |[-=_\#*~+]{4,}|=+\ .*\ =+$|_{3,}\ .*\ _{3,}$|-{3,}\ .*\ -{3,}$|E\ {2,}|>\ {3}|\$\ \S""",
    re.VERBOSE,
)
# gcc's contexts and the memory that sanitizers print.
_MORE_OUTPUT = re.compile(
    r"\S+: (?:In|At) (?:\w+ )?(?:function|constructor|destructor|top level|global)"
    r"|[\w() ]+:\s\s+(?:[0-9a-f]{2}\s?)+$"
)
# The whole output of pytest, with the source that it shows.
_SESSION = re.compile(r"=+ (?:test session starts|FAILURES|ERRORS) =+$")
_IS_SESSION = re.compile(r"[=_]{3,} |_ _ _|E {2,}|[\w./\\-]+\.py:\d+: |(?:FAILED|ERROR) ")
_SESSION_END = re.compile(r"(?:=+ .* in [\d.]+s.* =+|```.*|[\d, a-z]+ in [\d.]+s)$")


@dataclass(slots=True)
class Output:
    """The places and failed tests of an output, and its messages.

    ``lines`` are the numbers of its lines, ``read`` those of lines with nothing further to read.
    """

    paths: list[TaskPath] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)

    def add_test(self, report: TestReport) -> None:
        """Add what the line of a failed test says."""
        self.paths += [report.path] if report.path else []
        self.tests += report.names
        self.titles += [report.title] if report.title else []
        self.messages += [report.message] if report.message else []


def read_output(lines: Sequence[str], skip: frozenset[int], text: str) -> Output:
    """What compilers, linters and test runners said in lines without those of ``skip``."""
    output = Output()
    reports = TestReports(text)
    file: str | None = None  # of the rows of a linter that follow
    test_line = -9
    in_session = False
    shown: list[int] = []  # lines of a session that may also be what follows it
    for index, line in enumerate(lines):
        stripped = line.strip()
        if index in skip or not stripped or len(stripped) > _MAX_LINE_CHARS:
            continue
        if stripped[0] == "=" or in_session:
            in_session = _goes_on(stripped, in_session)
            if in_session and _IS_SESSION.match(stripped):
                output.lines.update(shown)
                shown.clear()
        if report := reports.read(stripped):
            output.add_test(report)
            output.read.add(index)
            test_line = index
            continue
        has_digit = _DIGIT.search(stripped) is not None
        if location := _location(stripped, file) if has_digit else None:
            path, message = location
            is_of_test = index - test_line < 3
            output.paths.append(replace(path, origin="test") if is_of_test else path)
            output.messages.append(message)
            output.read.add(index)
        elif named := _path_alone(line, stripped):
            file = named
        elif _OUTPUT.match(stripped) or (": " in stripped and _MORE_OUTPUT.match(stripped)):
            output.lines.add(index)
            if stripped[0] in "^~":  # points at what is in the line before
                output.lines.add(index - 1)
        elif in_session:
            shown.append(index)
        elif line[0] not in " \t":
            file = None
    output.lines |= output.read
    return output


def _goes_on(line: str, in_session: bool) -> bool:
    """Whether the output of pytest begins in a line, or goes on behind it."""
    if in_session:
        return _SESSION_END.match(line) is None
    return _SESSION.match(line) is not None


def _path_alone(line: str, stripped: str) -> str | None:
    """The path on a line of its own, under which a linter lists what it has to say."""
    if stripped.startswith("Line ") and (match := _PHPSTAN_PATH.match(stripped)):
        return match["path"]
    if line[0] in " \t" or "." not in stripped[-7:] or not _ROW_PATH.match(stripped):
        return None
    path = clean_path(stripped)
    return path if is_file_name(path, needs_folder=" " in path) else None


def _location(text: str, file: str | None) -> tuple[TaskPath, str] | None:
    """The place at the start of a line of a program's output, and its message."""
    if file and text[0].isdigit() | (text[0] == ":"):
        pattern = _PHPSTAN_ROW if file.endswith(".php") else _ROW
        if row := pattern.match(text):
            return TaskPath(file, "compiler", int(row["line"])), _message(row["message"])
    if _HAS_LOCATION.search(text) is None or (match := _LOCATION.match(text)) is None:
        return None
    path = clean_path(match["path"])
    if not is_file_name(path, needs_folder=False):
        return None
    is_sentence = not match["end"].strip() and match["message"] and not match["line6"]
    if is_sentence and match.start("path") == 0:
        return None  # "retry.py:12 is wrong"
    line = next(int(match[group]) for group in _LINE_GROUPS if match[group])
    location = TaskPath(path, "compiler", line, is_library=is_library(path))
    return location, _message(match["message"])


def _message(text: str) -> str:
    """A message without its severity and the name of its rule."""
    return _RULE.sub("", _SEVERITY.sub("", text.lstrip(" :-"), count=1).strip()).strip(" :-")
