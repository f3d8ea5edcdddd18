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
      |(?:[Ff]ailures?|Failed\ examples|Error):$|Failure/Error:\ |expect\(
      |There\ (?:was|were)\ \d+\ failure
      |(?:expected|Expected|received|Received|got|actual):\ |Failed\ asserting\ that
      |(?:=>)?0x[0-9a-f]{6,}\b|(?:READ|WRITE)\ of\ size|(?:freed|previously\ allocated)\ by\ thread
      |Shadow\ byte|SUMMARY:\ |Node\.js\ v\d|==\d+==
      |running\ \d+\ tests?$|(?:left|right):\ |\w+(?:::\w+)+$|[.EFsxX]+$|TAP\ version\ |\d+\.\.\d+$
      |\#\ (?:Subtest|tests|suites|pass|fail|cancelled|skipped|todo|duration_ms)\b|location:[ ]
      |[-=_\#*~+]{4,}|=+\ .*\ =+$|_{3,}\ .*\ _{3,}$|-{3,}\ .*\ -{3,}$|E\ {2,}|>\ {3}|\$\ \S""",
    re.VERBOSE,
)
_SYMBOL = re.compile(r"symbol:\s+(?:method|class|variable) (\w+)")  # javac
_CARGO = re.compile(r"\s{3,}(?:Compiling|Finished|Running|Checking|Downloaded|Doc-tests|Blocking) ")
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
    names: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)

    def add_test(self, report: TestReport) -> None:
        """Add what the line of a failed test says."""
        self.paths += [report.path] if report.path else []
        self.names += report.names
        self.titles += [report.title] if report.title else []
        self.messages += [report.message] if report.message else []


class _Reader:
    """Reads lines in order."""

    def __init__(self, lines: Sequence[str], text: str) -> None:
        self.lines = lines
        self.output = Output()
        self.reports = TestReports(text)
        self.file: str | None = None  # of the rows of a linter that follow
        self.test_line = -9
        self.in_session = False
        self.in_block = False
        self.shown: list[int] = []  # lines in a session, or behind it: the next mark will tell

    def read(self, line: str, index: int) -> None:
        stripped = line.strip()
        if not stripped or len(stripped) > _MAX_LINE_CHARS:
            return
        if stripped[0] == "=" or self.in_session:
            self._session(stripped)
        if self._is_in_block(stripped, index):
            self.output.lines.add(index)
        elif report := self.reports.read(stripped):
            self.output.add_test(report)
            self.output.read.add(index)
            self.test_line = index
        elif _DIGIT.search(stripped) and (location := _location(stripped, self.file)):
            self._add_location(*location, index)
        else:
            self._other(line, stripped, index)

    def _session(self, stripped: str) -> None:
        """The output of pytest begins, goes on or ends."""
        ends = _SESSION_END if self.in_session else None
        self.in_session = ends.match(stripped) is None if ends else bool(_SESSION.match(stripped))
        if self.in_session and _IS_SESSION.match(stripped):
            self.output.lines.update(self.shown)
            self.shown.clear()

    def _is_in_block(self, stripped: str, index: int) -> bool:
        """Whether a line is of what TAP says of the test in the line before."""
        begins = stripped == "---" and index - self.test_line == 1
        was_in_block = self.in_block
        self.in_block = begins or (was_in_block and stripped != "...")
        return begins or was_in_block

    def _add_location(self, path: TaskPath, message: str, index: int) -> None:
        is_of_test = index - self.test_line < 3
        self.output.paths.append(replace(path, origin="test") if is_of_test else path)
        self.output.read.add(index)
        if not message and index and self.lines[index].lstrip().startswith("--> "):
            message = _message(self.lines[index - 1])  # as rustc and Ruff print it
            self.output.lines.add(index - 1)
        self.output.messages.append(message)

    def _other(self, line: str, stripped: str, index: int) -> None:
        if symbol := _SYMBOL.match(stripped):
            self.output.names.append(symbol[1])
            self.output.lines.add(index)
        elif named := _path_alone(line, stripped):
            self.file = named
        elif _is_output(line, stripped):
            self.output.lines.add(index)
            if stripped[0] in "^~":  # points at what is in the line before
                self.output.lines.add(index - 1)
        elif self.in_session:
            self.shown.append(index)
        elif line[0] not in " \t":
            self.file = None


def read_output(lines: Sequence[str], skip: frozenset[int], text: str) -> Output:
    """What compilers, linters and test runners said in lines without those of ``skip``."""
    reader = _Reader(lines, text)
    for index, line in enumerate(lines):
        if index not in skip:
            reader.read(line, index)
    reader.output.lines |= reader.output.read
    return reader.output


def _is_output(line: str, stripped: str) -> bool:
    return (
        _OUTPUT.match(stripped) is not None
        or (": " in stripped and _MORE_OUTPUT.match(stripped) is not None)
        or (line[0] == " " and _CARGO.match(line) is not None)
    )


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
