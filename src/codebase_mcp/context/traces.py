"""Where was a program when it failed? The frames of stack traces in many languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from codebase_mcp.context.paths import TaskPath, clean_path, is_file_name, is_library
from codebase_mcp.context.symbols import symbol_of

# Lines of a trace that stand between two of its frames: source, carets, notes.
_GAP_LINES = 6

_N = r"(?P<line>\d{1,7})"
_N2 = r"(?P<line2>\d{1,7})"
_PYTHON = re.compile(
    rf'File "(?P<path>[^"]+)", line {_N}(?:,? in (?P<symbol>\S.*))?'
    rf"|File (?P<path2>[^\s:,]+):{_N2}, in (?P<symbol2>\S+)"
)
_OCAML = re.compile(
    rf'(?:Raised at|Raised by|Called from|Re-raised at) (?P<symbol>\S+) in file "(?P<path>[^"]+)"'
    rf"(?: \(inlined\))?, lines? {_N}"
)
_JAVA = re.compile(
    r"at (?:[\w.@-]*/)*(?P<class>[\w.$]+)\.(?P<symbol>[\w$<>-]+)"
    r"\((?P<path>[\w$-]+\.\w+)(?::(?P<line>\d{1,7}))?\)"
)
_CSHARP = re.compile(rf"at (?P<symbol>\S[^(]*\(.*\)) in (?P<path>.+\.\w+):line {_N}")
_V8 = re.compile(
    rf"at (?:(?P<symbol>[^(]+) \()?(?P<path>[^()]+?):{_N}(?::\d+)?\)?(?: \{{)?$"
    rf"|at (?P<symbol2>[^(]+) \(eval at .*\((?P<path2>[^()]+):{_N2}:\d+\)"
)
_NATIVE = re.compile(
    rf"(?:\#\d+|\d+\#|frame \#\d+:)\s+(?:0x[0-9a-fA-F]+ )?(?:in )?(?P<symbol>.*\S) (?:at|in) "
    rf"(?P<path>[^\s():]+):{_N}(?::\d+)?$"
    rf"|\#\d+\s+0x[0-9a-fA-F]+ in (?P<symbol2>.+) (?P<path2>[^\s():]+):{_N2}(?::\d+)?$"
)
_PHP = re.compile(rf"\#\d+ (?P<path>[^\s(][^(]*\.\w+)\({_N}\): (?P<symbol>\S.*)")
_DART = re.compile(
    rf"\#\d+\s+(?P<symbol>\S.*) \((?P<path>[\w+.-]+:[^\s()]+?|[^\s():]+):{_N}(?::\d+)?\)"
)
_DART_CHAIN = re.compile(rf"(?P<path>(?:package:|test/|lib/)\S+\.dart) {_N}:\d+ +(?P<symbol>\S.*)")
_VALGRIND = re.compile(
    rf"==\d+==\s+(?:at|by) 0x[0-9A-F]+: (?P<symbol>.+) \((?P<path>[^\s():]+):{_N}\)"
)
_APPLE = re.compile(rf"\d+\s+\S+\s+0x[0-9a-f]+ (?P<symbol>.+?) \+ \d+ \((?P<path>[^\s():]+):{_N}\)")
_FIREFOX = re.compile(rf"(?P<symbol>[^\s@]*)@(?P<path>[^\s@]\S*?):{_N}:\d+$")
_HASKELL = re.compile(rf"(?P<symbol>[\w.']+), called at (?P<path>[^\s:]+):{_N}:\d+ in ")
_RUBY = re.compile(
    rf"(?:\d+: )?(?:from |# )?(?P<gem>[\w-]+ \(\d[\w.]*\) )?"
    rf"(?P<path>[^\s:'\"()]+):{_N}(?::\d+)?:?\s*in "
    r"[`'\u2018](?P<symbol>[^'`\u2019]+)['\u2019]"
)
_LUA = re.compile(
    rf"(?P<path>[^\s:'\"()]+):{_N}: in (?:(?:local |upvalue |global )?(?:function|method|field|"
    rf"local|upvalue|metamethod) [<'\u2018](?P<symbol>[^'>\u2019]+)[>'\u2019]"
    r"|(?P<symbol2>main chunk))"
)
_GO = re.compile(rf"(?P<path>[^\s:()]+\.(?:go|s)):{_N}(?: \+0x[0-9a-f]+)?$")
_GO_CALL = re.compile(
    r"(?:created by )?(?P<symbol>[\w./*()\[\]~-]+\.[\w.()*\[\]-]+?)(?:\(.*\)| in goroutine \d+)?$"
)
_ELIXIR = re.compile(
    rf"(?:\((?P<app>[\w-]+)(?: [\w.+-]+)?\) )?(?P<path>[\w./-]+\.(?:exs?|erl|leex|heex|eex)):{_N}: "
    rf"(?P<symbol>.+?(?:/\d+)?)$"
)
_ZIG = re.compile(rf"(?P<path>[^\s:]+):{_N}:\d+: 0x[0-9a-f]+ in (?P<symbol>\S+)")
_JULIA = re.compile(rf"@ (?:[A-Z]\w+ )?(?P<path>[^\s:]+\.jl):{_N}$")
_VITEST = re.compile(rf"\u276f (?:(?P<symbol>[\w.<>$]+) )?(?P<path>[^\s:]+):{_N}:\d+$")
_PANICKED = re.compile(
    rf"thread '[^']*'(?: \(\d+\))? panicked at (?:'.*', )?(?P<path>[^\s:']+):{_N}:\d+:?$"
)
_PHP_THROWN = re.compile(
    rf".* in (?P<path>\S[^()\"]*\.php)(?::| on line ){_N}$"
    rf"|thrown in (?P<path2>\S+) on line {_N2}$"
)
_PYTEST = re.compile(
    rf"(?P<path>[\w./\\-]+\.py):{_N}:\s*(?:in (?P<symbol>[\w.<>]+)|(?P<error>[\w.]*)$)"
)
_SWIFT = re.compile(
    rf"(?P<path>[\w./+-]+\.swift):{_N}: Fatal error:"
    rf"|Fatal error: .*: file (?P<path2>[^,\s]+), line {_N2}"
)
_PERL = re.compile(rf"(?:.* )?(?:called )?at (?P<path>\S+\.(?:pl|pm|t)) line {_N}\.?$")
_ASSERT = re.compile(rf"[\w./-]+: (?P<path>[^\s:]+):{_N}: (?P<symbol>.+): Assertion [`'\u2018]")

# Which patterns may match a line, by how it begins. The last ones are tried for all lines that
# have a line number.
_BY_START: Sequence[tuple[str, Sequence[re.Pattern[str]]]] = (
    ("File ", (_PYTHON,)),
    ("at ", (_JAVA, _CSHARP, _V8, _PERL)),
    ("#", (_NATIVE, _PHP, _DART, _RUBY)),
    ("frame #", (_NATIVE,)),
    ("==", (_VALGRIND,)),
    ("@ ", (_JULIA,)),
    ("\u276f ", (_VITEST,)),
    ("thread '", (_PANICKED,)),
    ("Raised", (_OCAML,)), ("Called from", (_OCAML,)), ("Re-raised", (_OCAML,)),
    ("package:", (_DART_CHAIN,)),
)  # fmt: skip
_ANYWHERE: Sequence[tuple[str, re.Pattern[str]]] = (
    (" in ", _RUBY), (":in ", _RUBY), (": in ", _LUA), (".py:", _PYTEST), (".go:", _GO),
    (".s:", _GO), (".ex", _ELIXIR), (".erl:", _ELIXIR), ("called at ", _HASKELL),
    ("@", _FIREFOX), (": 0x", _ZIG), (".dart ", _DART_CHAIN), (" in ", _PHP_THROWN), ("0x", _APPLE),
    ("# ", _NATIVE), ("Assertion ", _ASSERT), ("Fatal error", _SWIFT), (" line ", _PERL),
)  # fmt: skip
_DIGIT = re.compile(r"\d")
_HAS_NUMBER = re.compile(r"[:( ]\d")
_MAX_LINE_CHARS = 1_000

# Where another trace begins, and lines of traces that say nothing about the code.
_BOUNDARY = re.compile(
    r"Traceback \(|Caused by\b|Suppressed:|goroutine \d+ \[|thread '|(?:_{3,}|={3,}) "
    r"|During handling|The above exception|(?:Current )?[Tt]hread (?:0x|\d)|-{4} .* -{4}|\d+\) "
    r"|stack backtrace:|Exception in thread|#0\s|\u25cf"
)
_ERROR = re.compile(r"(?:Uncaught |\[cause\]: )?[\w.$]*(?:Error|Exception)\b")
_BOUNDARY_STARTS = frozenset("TCSgt_=D-sE#\u25cf0123456789")
_NOISE = re.compile(
    r"""Traceback\ \(most\ recent|goroutine\ \d+\ \[|During\ handling\ of\ the\ above|created\ by[ ]
      |The\ above\ exception\ was|Exception\ Group\ Tr|[Ss]tack\ (?:back)?trace(?:back)?:
      |\[C\]:\ in\ |\.\.\.\ \d+\ (?:more|common\ frames)|\[signal[ ]
      |note:\ (?:run\ with|Some\ details)|CallStack\ \(from|at\ <anonymous>$|exit\ status\ \d+$
      |---\ End\ of\ .*trace|Process\ finished
      |at\ (?:async\ |new\ )?[\w.$<>\[\] ]+\ \((?:<anonymous>|index\ \d+|native)\)$
      |at\ [\w.`<>\[\],$+]+\(.*\)$|(?:Current\ t|T)hread\ \S+\ .*most\ recent\ call\ first
      |\#\d+\ (?:\{main\}|\[internal\ function\].*|0x[0-9a-f]+\ .*)$|<asynchronous\ suspension>
      |Unhandled\ exception:$""",
    re.VERBOSE,
)
_NOISE_STARTS = frozenset("TgDsS[.nCaEe-#<PU")
_MOST_RECENT_FIRST = "most recent call first"


@dataclass(slots=True)
class _Trace:
    """The frames of a trace, in the order of the lines."""

    pattern: re.Pattern[str]
    last_line: int
    innermost_last: bool
    frames: list[TaskPath] = field(default_factory=list)

    def goes_on(self, pattern: re.Pattern[str], index: int) -> bool:
        """Whether a frame in a line belongs to the trace."""
        if pattern is self.pattern is _PYTEST:  # shows the source of whole functions
            return True
        is_related = pattern is self.pattern or any(
            {self.pattern, pattern} <= group for group in _RELATED
        )
        return is_related and index - self.last_line <= _GAP_LINES

    def numbered(self) -> list[TaskPath]:
        """The frames with their numbers, innermost first."""
        frames = self.frames[::-1] if self.innermost_last else self.frames
        return [replace(frame, frame=number) for number, frame in enumerate(frames, 1)]


@dataclass(frozen=True, slots=True)
class Traces:
    """The frames of all traces of a text, and the numbers of their lines."""

    frames: tuple[TaskPath, ...]
    lines: frozenset[int]


def read_traces(lines: Sequence[str], skip: frozenset[int]) -> Traces:
    """The frames of the traces among lines without those of ``skip``, each innermost first."""
    traces: list[_Trace] = []
    taken: set[int] = set()
    current: _Trace | None = None
    is_reversed = False
    for index, line in enumerate(lines):
        text = line.strip().removeprefix("> ").lstrip()
        if not text or index in skip or len(text) > _MAX_LINE_CHARS:
            continue
        if (text[0] in _BOUNDARY_STARTS and _BOUNDARY.match(text)) or (
            ("Error" in text or "Exception" in text) and _ERROR.match(text)
        ):
            is_thrown = current is not None and current.pattern is _PHP_THROWN
            current = current if is_thrown and text[0] == "#" else None
            is_reversed = _MOST_RECENT_FIRST in text
        match = _match(text) if _DIGIT.search(text) else None
        frame = _frame(match, lines, index) if match else None
        if match is None or frame is None:
            if text[0] in _NOISE_STARTS and _NOISE.match(text):
                taken.add(index)
            continue
        taken.update(_lines_of(match.re, lines, index))
        if current is None or not current.goes_on(match.re, index):
            current = _Trace(match.re, index, _is_innermost_last(match) and not is_reversed)
            traces.append(current)
        if frame not in current.frames or match.re is not _PHP_THROWN:
            current.frames.append(frame)
        current.last_line = index
    frames = [frame for trace in traces for frame in trace.numbered()]
    return Traces(tuple(frames), frozenset(taken))


def _is_innermost_last(match: re.Match[str]) -> bool:
    """Python and pytest print the innermost frame last; so did Ruby, with numbers before frames."""
    return match.re in {_PYTHON, _PYTEST} or (match.re is _RUBY and match[0][0].isdigit())


# Several patterns for the frames of a trace.
_RELATED: Sequence[frozenset[re.Pattern[str]]] = (
    frozenset({_JAVA, _V8}), frozenset({_CSHARP, _V8}), frozenset({_PHP_THROWN, _PHP}),
    frozenset({_PANICKED, _V8}), frozenset({_ASSERT, _NATIVE}),
)  # fmt: skip


def _match(text: str) -> re.Match[str] | None:
    if _HAS_NUMBER.search(text) is None:
        return None
    for start, patterns in _BY_START:
        if text.startswith(start):
            for pattern in patterns:
                if match := pattern.match(text):
                    return match
    for sign, pattern in _ANYWHERE:
        if sign in text and (match := pattern.match(text)):
            return match
    return None


def _frame(match: re.Match[str], lines: Sequence[str], index: int) -> TaskPath | None:
    groups = match.groupdict()
    written = groups.get("path") or groups.get("path2")
    digits = groups.get("line") or groups.get("line2")
    symbol = groups.get("symbol") or groups.get("symbol2") or ""
    if written is None:
        return None
    path, outside = clean_path(written), False
    match match.re:
        case p if p is _JAVA:
            path, symbol, outside = _java(match)
        case p if p is _GO and index:
            call = _GO_CALL.match(lines[index - 1].strip())
            symbol = call["symbol"] if call else ""
        case p if p is _V8 and index and path.endswith(".rs"):
            symbol = lines[index - 1].partition(": ")[2]
        case p if p is _JULIA and index:
            symbol = lines[index - 1].partition("] ")[2]
        case p if p is _HASKELL and symbol == "error":
            symbol = ""
        case p if p is _ELIXIR:
            outside = groups["app"] in {"elixir", "stdlib", "kernel", "ex_unit", "mix", "logger"}
        case p if p is _DART or p is _DART_CHAIN:
            path, outside = _dart(written)
        case p if p is _LUA and groups["symbol2"]:
            symbol = ""
        case p if p in (_FIREFOX, _RUBY, _LUA, _V8, _VITEST, _NATIVE) and not _is_source(path):
            return None
    is_outside = outside or bool(groups.get("gem")) or is_library(path) or is_library(written)
    return TaskPath(
        path, "trace", int(digits) if digits else None, symbol_of(symbol), None, is_outside
    )


def _is_source(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (
        is_file_name(path, needs_folder=False)
        or path.startswith(("node:", "<"))
        or ("/" in path and "." not in name and bool(name))
    )


_JAVA_LIBRARY = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|clojure|groovy|android|androidx|dalvik"
    r"|jakarta|org\.(?:junit|gradle|testng|codehaus\.groovy|apache\.maven|apache\.tools|mockito"
    r"|hamcrest|scalatest|opentest4j|assertj|eclipse\.jdt|graalvm)|com\.intellij|com\.android"
    r"|worker\.org\.gradle|io\.kotest)\."
)


def _java(match: re.Match[str]) -> tuple[str, str, bool]:
    """The path that the class has in a source folder, its method, and whether it is a library's."""
    package, _, name = match["class"].rpartition(".")
    folder = package.replace(".", "/")
    symbol = match["symbol"] if match["symbol"] not in {"<init>", "<clinit>"} else name
    has_file = "." in match["path"]
    outer = name.partition("$")[0]
    file = match["path"] if has_file else f"{outer}.java"
    path = f"{folder}/{file}" if folder else file
    owner = name.rstrip("$").rpartition("$")[2]
    owner = owner if owner and not owner.isdigit() else outer
    is_outside = not has_file or _JAVA_LIBRARY.match(match["class"]) is not None
    return path, f"{owner.removesuffix('Kt')}.{symbol}", is_outside


_DART_LIBRARIES = frozenset({"flutter", "flutter_test", "test", "test_api", "stack_trace", "async"})


def _dart(written: str) -> tuple[str, bool]:
    """``package:app/src/x.dart`` is ``lib/src/x.dart`` of the package ``app``."""
    if not written.startswith("package:"):
        return clean_path(written), False
    package, _, rest = written.removeprefix("package:").partition("/")
    return f"lib/{rest}", package in _DART_LIBRARIES


_CARETS = re.compile(r"[\s^~|.-]+$")


def _lines_of(pattern: re.Pattern[str], lines: Sequence[str], index: int) -> list[int]:
    """The line of a frame, and those around it that belong to it: the source, carets, the call."""
    if pattern is _GO or pattern is _JULIA or (pattern is _V8 and ".rs:" in lines[index]):
        return [index - 1, index] if index else [index]
    if pattern is not _PYTHON:
        return [index]
    indent = len(lines[index]) - len(lines[index].lstrip())
    taken = [index]
    for following in range(index + 1, min(index + 4, len(lines))):
        line = lines[following]
        if not line.strip() or len(line) - len(line.lstrip()) <= indent:
            break
        if following > index + 1 and not _CARETS.match(line):
            break
        taken.append(following)
    return taken
