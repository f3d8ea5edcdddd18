"""Which texts of a program does a task quote? Messages that its source may hold literally."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_MESSAGE_CHARS = 200
MIN_PIECE_CHARS = 8

_QUOTES = (
    ('"', re.compile(r'(?<![\w"])"([^"\n]{1,200})"(?![\w"])')),
    ("'", re.compile(r"(?<![\w')\]])'([^'\n]{1,200})'(?![\w'])")),
    ("\u201d", re.compile(r"\u201c([^\u201d\n]{3,200})\u201d")),
    ("\u2018", re.compile(r"\u2018([^\u2019\n]{3,200})\u2019")),
    ("»", re.compile(r"«([^»\n]{3,200})»")),
)

# What stands before the class of an error: marks of pytest, of the JVM, of browsers, of PHP.
_RAISED = re.compile(
    r"""(?:E\ {2,}|Caused\ by:\ |Caused:\ |Suppressed:\ |Unhandled\ [Ee]xception[.:]\ |\[cause\]:[ ]
        |(?:\[ERROR\]\ |ERROR\ )?Exception\ in\ thread\ "[^"]*"\ |Fatal\ error:\ Uncaught\ |FATAL[ ]
        |(?:Unhandled|Uncaught)(?:\ \w+)?\ (?:\(in\ promise\)\ )?|\*\*\ \(|-{1,3}>?[ ]
        |Error:[ ]
        |\d+\)[ ]
        |PHP\ (?:Fatal\ error|Warning|Notice):\s+(?:Uncaught\ )?|\[\w+\]\ )*+
    (?:[\w$]++(?:\.|::|\\|/))*+(?P<name>_*[A-Z]\w*(?:Error|Exception|Warning|Failure|Fault|Interrupt
        |Violation|Timeout|Abort|Panic|Exit|Group|NotFound|DoesNotExist)|Errno::\w+)
    (?:\)|\b)(?:\s?\[\w+\])?(?:(?::|\ -|\))\s*(?P<message>.*)|$)""",
    re.VERBOSE,
)
# A message after the location of a Ruby trace: `x.rb:1:in 'f': message (NoMethodError)`.
_RUBY = re.compile(
    r".*:\s?in ['`\u2018][^'`\u2019]+['\u2019]: (?P<message>.*) \((?P<name>[A-Z][\w:]*)\)$"
)
_FAILED = re.compile(
    r"""(?:panic|(?:[Ff]atal|FATAL)(?:\ error)?|lua\w*|error(?:\[E\d+\])?|Error|ERROR
      |abort|rejected\ promise|AssertionError|\S+:\ error|E|npm\ ERR!|Traceback|Uncaught
      |==\d+==ERROR|runtime\ error|libc\+\+abi):\ (?:\S+:\d+:\ )?
    (?P<message>(?!test\ failed,|could\ not\ compile|aborting\ due|\|-)\S.*)""",
    re.VERBOSE,
)
_TIME = (
    r"\[?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]?)?(?:\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?"
    r"(?:Z|[+-]\d\d:?\d\d| UTC)?\]?"
)
_LOGGED = re.compile(
    rf"(?:{_TIME}\s*)?[-|:]?\s*(?:[\w.$-]{{1,60}}\s+[-|:]\s+)?(?:\[[^\]]{{1,40}}\]\s*)*?"
    r"[\[(<]?(?P<level>TRACE|DEBUG|INFO|NOTICE"
    r"|WARN(?:ING)?|ERROR|ERR|CRITICAL|CRIT|FATAL|SEVERE|PANIC|error|warn|warning|fatal)[\])>]?"
    r"(?:\s*[-:|]\s*|\s+|(?=\[))(?:\[[^\]]{1,60}\]\s*|\([^)]{1,40}\)\s*)*"
    # the logger
    r"(?:[\w$-]++(?:[./:][\w$-]++)*+(?:\s*[-:]\s+|\s+[-:]\s*))?(?P<message>\S.*)"
)
_HAS_TIME = re.compile(r"\[?\d{4}[-/.]\d\d[-/.]\d\d[T ]|\[?\d\d:\d\d:\d\d")
_TIMED = re.compile(r"\[?\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d:\d\d\S* ")
_KEY_VALUE = re.compile(
    r"(?:\"(?:msg|message|error|err)\":\s*\"|(?:^|\s)(?:msg|message|error|err)=\")"
    r"([^\"]{3,200})\""
)

# What a message's source has as a placeholder: addresses, numbers, paths, quoted values.
_VARIABLE = re.compile(
    r"""https?://\S+|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b[0-9a-f]{12,40}\b
      |(?:\b(?:in|at|from)\ )?(?<![\w./])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w./\\@+-]+(?:\ on\ line)?
      |\b[\w@+-]++(?:/[\w.@+-]++)+
      |(?<![\w"'`])(?:"[^"]{1,80}"|'[^']{1,80}'|`[^`']{1,80}[`']|<[^<>]{1,80}>)
      |\u2018[^\u2019]{1,80}\u2019|\u201c[^\u201d]{1,80}\u201d|\{[^{}]{0,80}\}|\[[^\[\]]{0,80}\]
      |(?<![\w.])[-+]?\d+(?:[.,:]\d+)*(?:\s?(?:ms|s|%|[kKMG]i?B))?\b|\.{3,}|\u2026""",
    re.VERBOSE,
)
_LOG_STARTS = frozenset("[(<0123456789TDINWECFSPewf")
_NAME = re.compile(r"[\w.$:]+")
_OPEN = re.compile(r"\([^()]{0,20}$")
_EDGE = " \t\r\n.,:;-=()[]{}<>\"'`|*#>!?"


@dataclass(frozen=True, slots=True)
class Failures:
    """The messages of errors, with their classes, and of log lines; the classes; the lines."""

    messages: tuple[str, ...]
    errors: tuple[str, ...]
    lines: frozenset[int]


def read_failures(lines: Sequence[str], skip: frozenset[int]) -> Failures:
    """What errors and log lines say in lines without those of ``skip``."""
    messages: list[str] = []
    errors: list[str] = []
    taken: set[int] = set()
    logged: list[str] = []
    is_panic = False  # the message of Rust is on the next line
    for index, line in enumerate(lines):
        text = line.strip()
        if index in skip or len(text) > 2_000 or not text:
            continue
        if is_panic:
            messages.append(text)
            taken.add(index)
            is_panic = False
            continue
        is_panic = " panicked at " in text and text.endswith(":")
        if raised := _raised(text):
            errors.append(raised[0])
            messages.append(": ".join(filter(None, raised)))
            taken.add(index)
        elif ": " in text and (match := _FAILED.match(text)):
            messages.append(match["message"])
            taken.add(index)
        elif (text[0] in _LOG_STARTS or '="' in text or '":' in text) and (
            message := _log_message(text)
        ):
            logged.append(message)
            taken.add(index)
    return Failures((*messages, *logged), tuple(errors), frozenset(taken))


def _raised(text: str) -> tuple[str, str] | None:
    """The class of an error and its message."""
    if text.endswith(")") and "in " in text and (match := _RUBY.match(text)):
        return match["name"].rpartition("::")[2], match["message"]
    match = _RAISED.match(text)
    if match is None:
        return None
    message = match["message"]
    if message is None and " " in text.removeprefix("E  ").strip():
        return None
    return match["name"], message or ""


def bare_message(text: str) -> str:
    """A message without the class of its error."""
    raised = _raised(text)
    return raised[1] if raised else text


def _log_message(text: str) -> str | None:
    if match := _KEY_VALUE.search(text):
        return match[1]
    match = _LOGGED.match(text)
    if match is None:
        timed = _TIMED.match(text)
        return text[timed.end() :] if timed else None
    is_log = _HAS_TIME.match(text) or match["level"].isupper() or text[0] in "[("
    return match["message"] if is_log else None


def quoted(text: str) -> Iterator[str]:
    """The texts in quotation marks that are no single word."""
    for mark, pattern in _QUOTES:
        if mark in text:
            for match in pattern.finditer(text):
                content = match[1].strip()
                is_word = _NAME.fullmatch(content) is not None
                if not is_word and (len(content) >= MIN_PIECE_CHARS or " " in content):
                    yield content


def constant_pieces(message: str) -> Iterator[str]:
    """The parts of a message between numbers, paths and quoted values."""
    pieces = _VARIABLE.split(message[:1_000])
    # "Sign in" is short, but it is a text; a short piece of a text is not telling.
    min_chars = MIN_PIECE_CHARS if len(pieces) > 1 or " " not in message.strip() else 5
    for piece in pieces:
        text = _OPEN.sub("", piece).strip(_EDGE)[:MAX_MESSAGE_CHARS].strip()
        is_qualified = "." in text and " " not in text  # a logger or a class
        if (
            len(text) >= min_chars
            and not is_qualified
            and sum(map(str.isalpha, text)) * 2 > len(text)
        ):
            yield text


def distinct(messages: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first pieces of messages, each once and none that is part of another."""
    kept: list[str] = []
    for message in messages:
        for piece in constant_pieces(message):
            if not any(piece in other for other in kept):
                kept.append(piece)
        if len(kept) >= limit:
            break
    return tuple(kept[:limit])
