"""What did a compiler, a linter or a test runner say? Places, messages, failing tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from codebase_mcp.context.paths import TaskPath, clean_path, is_file_name, is_library

_N = r"(?P<line>\d{1,7})"
_LOCATION = re.compile(
    rf"(?:(?:ERROR|WARNING|Error|error|warning|warn|e|w|\[error\]|\[warn\]|\[ERROR\]|\[WARNING\]|-->|In"
    rf"|└─|at|ERROR in|Error:|╭─\[|┌─|note:|\*\*|In file included from|from|#)[ :]+)?(?:\[tsl\] ERROR in )?"
    rf"(?P<path>(?:file://|[A-Za-z]:)?[^\s:()\[\]'\"`,<>]+)"
    rf"(?::{_N}(?::\d+)?(?:-\d+(?::\d+)?)?|\({_N.replace('line', 'line2')}(?:,\d+)*\)"
    rf"|:\[(?P<line3>\d{{1,7}}),\d+\]|: \((?P<line4>\d{{1,7}}), \d+\)|:? line (?P<line5>\d{{1,7}})"
    rf"| (?P<line6>\d{{1,7}}):\d+\b)"
    rf"(?P<end>\]?\s*(?:$|\(|[:,-]|\s)\s*)(?P<rest>.*)"
)
_HAS_LOCATION = re.compile(
    r"\w\.\w+(?::\d|:? ?\(\d|:\[\d| line \d|: line \d| \d+:\d)|file(?::\d| line \d)|\(\d+,\d+\)"
)
_ESLINT_ROW = re.compile(r"(?P<line>\d{1,7}):\d+\s+(?:error|warning|✖|⚠)\s+(?P<rest>\S.*)")
_ESLINT_PATH = re.compile(r"(?:[A-Za-z]:)?[\w./\\@+ -]+\.\w{1,6}$")
_PHPSTAN_PATH = re.compile(r"Line\s+(?P<path>\S+\.php)$")
_PHPSTAN_ROW = re.compile(r"(?::)?(?P<line>\d{1,7})\s{2,}(?P<rest>\S.*)")
_SEVERITY = re.compile(
    r"(?:(?:fatal |internal |syntax |type |parse )?(?:error|warning|note|info|hint|remark)\b"
    r"(?:\[?\s?[A-Z]*\d*\]?)?(?: TS\d+| CS\d+)?\s*[:-]?\s*|[A-Z]{1,4}\d{2,5}:?\s|[CWEFRI]: )",
    re.IGNORECASE,
)
_CODE = re.compile(r"\s{2,}[\w@/-]+$|\[(?:-W)?[\w=,+-]+\]$|\s[\w@-]+(?:/[\w-]+)+$|\s\(\w[\w-]*\)$")
_OUTPUT_LINE = re.compile(
    r"\d*\s*\|(?:\s|$)|\s*[\^~]{2,}|= (?:note|help):|\.\.\. \d+ more$|error(?:\[E\d+\])?: |warning: |npm ERR!"
    r"|make(?:\[\d+\])?: |For more information about|error: aborting|Found \d+ error|ninja: |collect2:"
    r"|\d+ (?:passed|failed|errors?|warnings?)\b|Tests?:? +(?:run:|\d)|FAILED \(|Ran \d+ tests?|exit status \d"
    r"|FAIL(?:$|\t)|PASS(?:$| )|ok\s+\t|\S+: (?:In|At) (?:\w+ )?(?:function|constructor|destructor|top level|global)"
    r"|(?:Failures?|Failed examples|Error):$|Failure/Error: |(?:expected|Expected|received|Received|got|actual): |expect\("
    r"|\(?compared using |There (?:was|were) \d+ failure|Failed asserting that |note: |help: |platform (?:linux|darwin|win32) -- "
    r"|\[(?:INFO|ERROR|WARNING|DEBUG|WARN)\]|Test Suites:|Snapshots:|BUILD FAILED|test result:|ok\s+\S+\s+[\d.]+s"
    r"|[-=_#*~+]{4,}|=+ .* =+$|_{3,} .* _{3,}$|-{3,} .* -{3,}$|\[(?:/?\w|\s)*\]\s*$|E {2,}|> {3}|[>$] \S"
)

_TESTS: Sequence[tuple[str, re.Pattern[str]]] = (
    ("::", re.compile(r"(?:(?:FAILED|ERROR|XFAIL|FAIL)\s+)?(?P<path>[\w./\\-]+\.(?:py|php))::(?P<name>[^\s-][^\s]*)"
                      r"(?:\s+(?:FAILED|ERROR)\b.*| - (?P<message>.*))?$")),
    ("FAIL", re.compile(r"(?:❯ |× )?FAIL\s+(?:\[?[\w-]+\]? )?(?P<path>[\w./\\@-]+\.\w+)(?:\s+>\s+(?P<name>.+)| \([\d.]+ ?m?s\)|\s*$)")),
    ("● ", re.compile(r"● (?P<title>.+)$")),
    ("(", re.compile(r"(?:FAIL|ERROR): (?P<name>\w+) \((?P<owner>[\w.]+)\)")),
    ("rspec ", re.compile(rf"rspec '?(?P<path>[\w./-]+\.rb)(?::{_N}|\[[\d:]+\])'?(?: # (?P<title>.*))?")),
    ("---- ", re.compile(r"---- (?P<name>[\w:]+) stdout ----")),
    ("test ", re.compile(r"test (?P<name>[\w:]+)(?: - should panic)? \.\.\. FAILED")),
    ("--- FAIL", re.compile(r"--- FAIL: (?P<name>\S+)")),
    ("FAILED", re.compile(r"(?:> )?(?P<owner>[\w.$]*[A-Z]\w+) > (?P<name>\w+)(?:\(.*\))?(?:\[.*\])? FAILED")),
    ("FAILED", re.compile(r"\[  FAILED  \] (?P<name>\w+\.\w+)")),
    ("<<<", re.compile(r"(?:\[ERROR\] )?(?P<owner>[\w.$]*?[A-Z]\w*)\.(?P<name>\w+)\b.*<<< ")),
    ("<<<", re.compile(r"(?:\[ERROR\] )?(?P<name>\w+)\((?P<owner>[\w.$]+)\).*<<< ")),
    ("[ERROR]", re.compile(rf"\[ERROR\]\s+(?P<owner>[A-Z]\w*)\.(?P<name>\w+):{_N}(?:->\S+)? (?P<message>.*)")),
    ("Failed ", re.compile(r"Failed (?P<name>[\w.]+\.\w+)(?:\(.*\))? \[[<\d]")),
    (") ", re.compile(r"\d+\) (?P<name>(?:\w+\\)*\w+::\w+)")),
    (") ", re.compile(r"\d+\) test (?P<title>.+) \((?P<owner>[\w.]+)\)$")),
    (") ", re.compile(r"\d+\) (?P<title>[^()\"]{3,}?):?$")),
    ("failed", re.compile(r"Test Case '-\[(?P<owner>[\w.]+) (?P<name>\w+)\]' failed")),
    ("not ok", re.compile(r"not ok \d+ -? ?(?P<title>.+)$")),
    ("in test file ", re.compile(rf"# ?\((?:from function .* |)in test file (?P<path>[^,]+), line {_N}\)")),
    ("from ", re.compile(r"(?:ERROR|E) +collecting (?P<path>[\w./-]+\.py)")),
    ("ERROR", re.compile(r"ERROR(?: collecting)? (?P<path>[\w./\\-]+\.py)(?: - (?P<message>.*))?$")),
    ("___", re.compile(r"_{3,} (?:ERROR at \w+ of |ERROR collecting )?(?P<name>[\w.]+)(?:\[.*\])? _{3,}$")),
)  # fmt: skip
_LISTS_FAILURES = re.compile(
    r"\s*\d+ failing\b|rspec \./|Failures:$|There (?:was|were) \d+ failures?"
)
_LIST_TITLE = re.compile(r"\d+\) ")


@dataclass(slots=True)
class Output:
    """Places and tests that an output names; the numbers of its lines, and of lines like output."""

    paths: list[TaskPath] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)


def read_output(lines: Sequence[str], skip: frozenset[int]) -> Output:
    """What compilers, linters and test runners said in lines without those of ``skip``."""
    output = Output()
    file: str | None = None  # of the linter's rows that follow
    last_test = -9
    is_mocha = any(map(_LISTS_FAILURES.match, lines))
    for index, line in enumerate(lines):
        text = line.strip()
        if index in skip or not text or len(text) > 2_000:
            continue
        if _read_test(text, output, is_mocha):
            output.read.add(index)
            last_test = index
            continue
        if text[0].isdigit() and (row := _row(text, file)):
            output.paths.append(row)
            output.messages.append(_message(text.partition(" ")[2]))
            output.read.add(index)
            continue
        named = _file_alone(line, text)
        file = named or (file if line[:1] in {" ", "\t"} else None)
        if named:
            output.lines.add(index)
            following = lines[index + 1].strip() if index + 1 < len(lines) else ""
            if _ESLINT_ROW.match(following) is None and "Line " not in text:
                output.lines.discard(index)
        elif location := _location(text):
            path, message = location
            is_of_test = index - last_test < 3
            output.paths.append(replace(path, origin="test") if is_of_test else path)
            if message:
                output.messages.append(message)
            output.read.add(index)
        elif _OUTPUT_LINE.match(text):
            output.lines.add(index)
    output.lines |= _session_lines(lines) | output.read
    return output


# The whole output of pytest, with the source that it shows.
_SESSION = re.compile(r"=+ (?:test session starts|FAILURES|ERRORS) =+$")
_SESSION_END = re.compile(r"(?:=+ .* in [\d.]+s.* =+|```.*|[\d, a-z]+ in [\d.]+s)$")


def _session_lines(lines: Sequence[str]) -> set[int]:
    taken: set[int] = set()
    is_open = False
    for index, line in enumerate(lines):
        if line.startswith("=") and _SESSION.match(line.strip()):
            is_open = True
        elif is_open and _SESSION_END.match(line.strip()):
            is_open = False
        if is_open:
            taken.add(index)
    return taken


def _read_test(text: str, output: Output, is_mocha: bool) -> bool:
    for sign, pattern in _TESTS:
        if sign not in text or (match := pattern.match(text)) is None:
            continue
        groups = match.groupdict()
        if (
            _LIST_TITLE.match(text)
            and "owner" not in groups
            and not (groups.get("name") or is_mocha)
        ):
            continue
        if path := groups.get("path"):
            line = groups.get("line")
            cleaned = clean_path(path)
            if not is_file_name(cleaned, needs_folder=False):
                continue
            output.paths.append(TaskPath(cleaned, "test", int(line) if line else None))
        output.tests.extend(_test_names(groups.get("name"), groups.get("owner")))
        if title := groups.get("title"):
            output.titles.append(re.split(r" [›>] ", title.strip())[-1])
        if message := groups.get("message"):
            output.messages.append(message)
        return True
    return False


def _test_names(name: str | None, owner: str | None) -> Iterator[str]:
    if name and " " in name:
        return
    if name:
        parts = re.split(r"::|\.|\\|/", name.partition("[")[0])
        parts = [part for part in parts if re.fullmatch(r"[^\W\d]\w*", part) and part != "tests"]
        yield from parts[:-3:-1]
    if owner:
        last = owner.rpartition(".")[2]
        yield last.rpartition("$")[2]


def _row(text: str, file: str | None) -> TaskPath | None:
    if file is None:
        return None
    pattern = _PHPSTAN_ROW if file.endswith(".php") else _ESLINT_ROW
    row = pattern.match(text)
    return TaskPath(file, "compiler", int(row["line"])) if row else None


def _file_alone(line: str, text: str) -> str | None:
    """The path on a line of its own, under which a linter lists what it has to say."""
    if match := _PHPSTAN_PATH.match(text):
        return match["path"]
    if (
        line[:1] in {" ", "\t"}
        or "." not in text
        or len(text) > 300
        or not _ESLINT_PATH.match(text)
    ):
        return None
    path = clean_path(text)
    return path if is_file_name(path, needs_folder=" " in path) else None


def _location(text: str) -> tuple[TaskPath, str] | None:
    """The place at the start of a line of a program's output, and its message."""
    if _HAS_LOCATION.search(text) is None or (match := _LOCATION.match(text)) is None:
        return None
    path = clean_path(match["path"])
    if not is_file_name(path, needs_folder=False):
        return None
    groups = match.groupdict()
    line = next(int(v) for k, v in groups.items() if k.startswith("line") and v)
    is_output = bool(match["end"].strip()) or not match["rest"] or text[0] in "-└"
    if not is_output and match["line6"] is None and match.start("path") == 0:
        return None  # "retry.py:12 is wrong" is a sentence
    message = _message(match["rest"])
    return TaskPath(path, "compiler", line, is_library=is_library(path)), message


def _message(rest: str) -> str:
    text = (
        _SEVERITY.sub("", rest.lstrip(" :-"), count=1)
        if _SEVERITY.match(rest.lstrip(" :-"))
        else rest
    )
    return _CODE.sub("", text.strip()).strip(" :-")
