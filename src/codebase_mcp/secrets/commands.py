"""Where do commands take a secret without naming it?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files

from codebase_mcp.secrets.judging import is_chosen, is_phrase
from codebase_mcp.secrets.naming import Span, Text, is_given_password

_KIND = "password of a command"

_VALUE = (
    rb"""(?:"(?P<double>[^"\r\n]{4,200})"|'(?P<single>[^'\r\n]{4,200})'"""
    rb"""|(?P<bare>(?!-)(?:&\w{2,6};|[^\s"'|;<>`]){4,200}))"""
)
_USER_AND_VALUE = (
    rb"""(?:"[^\s:%"]{1,60}[:%](?P<double>[^"\r\n]{4,200})"|'[^\s:%']{1,60}[:%](?P<single>[^'\r\n]{4,200})'"""
    rb"""|["']?[^\s:%,"']{1,60}["']?[:%,]["']?(?P<bare>(?:&\w{2,6};|[^\s"'|;<>`]){4,200}))"""
)
_OF_SYNOPSES = {
    "USER:PASSWORD": _USER_AND_VALUE,
    "PASSWORD": _VALUE,
    "WORD": rb"\S+",
    "OPTIONS": rb"(?:-\S+\s+(?:[^-\s]\S*\s+)??)*",
    "FLAGS": rb"\w{0,6}",
    " ": rb"\s+",
    # An option may have its value behind "=", or in quotes directly behind it.
    " PASSWORD": rb"(?:[ =]|(?=[\"']))" + _VALUE,
    " USER:PASSWORD": rb"[ =]?" + _USER_AND_VALUE,
    # Of a colour, or of a sort of key.
    "key PASSWORD": rb"key (?:\d )?(?:s:)?" + _VALUE,
}
_SYNOPSIS = re.compile(
    "|".join(re.escape(piece) for piece in sorted(_OF_SYNOPSES, key=len, reverse=True))
)
# What a synopsis cannot say: the literal before, the programs, and the pattern.
_OPTIONS: tuple[tuple[bytes, str, bytes], ...] = (
    (b"config ", "poetry bundle", rb"config (?:--?\w+ |set )*[\w-]+\.\S+ (?:[^\s:]+[ :])?"),
    (b"secret", "gh wrangler fly aws vercel", rb"secret\w* \w+ [^\n]{0,80}?(?:-b|--body|<<<)[ =]?"),
    (b"--from-literal=", "kubectl oc k", rb"--from-literal=[\"']?[\w.-]+=[\"']?"),
    *(
        (program.encode(), program, program.encode() + rb" (?:-\w+\s+|target )*\w+/(?=[^\s@/]+@)")
        for program in ("sqlplus", "expdp", "impdp", "rman")
    ),
    (b" auth ", "stats", rb" auth \w+:"),
    (b"put-parameter", "aws", rb"put-parameter [^\n]{0,200}?--value[ =]"),
)


class _Option:
    """An option of some programs that holds a password; ``is_sure`` if it holds nothing else."""

    def __init__(self, programs: str, pattern: bytes, *, is_sure: bool) -> None:
        names = programs.split()
        self.words = frozenset(re.split("[^a-z0-9]", name)[0].encode() for name in names)
        self.called = re.compile(
            rb"(?:^|[\s;|&\"'`(@/\\$>])(?i:%s)(?:\.exe)?(?:\s|$)" % "|".join(names).encode()
        )
        self.pattern = re.compile(pattern)
        self.is_sure = is_sure


def _read_synopses() -> tuple[dict[bytes, list[_Option]], list[tuple[bytes, _Option]]]:
    """The short options by their letter, and the long options with their first literal."""
    short: dict[bytes, list[_Option]] = defaultdict(list)
    long = [
        (lead, _Option(programs, pattern + _VALUE, is_sure=lead in (b"secret", b"--from-literal=")))
        for lead, programs, pattern in _OPTIONS
    ]
    table = files("codebase_mcp.secrets").joinpath("commands.txt").read_text(encoding="utf-8")
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        programs, synopsis = line.split(": ", 1)
        is_sure = not synopsis.endswith("?")
        written = " " * synopsis.startswith("-") + synopsis.rstrip("?")
        lead = re.split("[A-Z]{4,}", written)[0]
        if "IDENTIFY" in written:
            lead = "IDENTIFY "
        if written.startswith((f"{lead}PASSWORD", f"{lead}USER:")) and lead != " -":
            lead = lead.rstrip(" ")
        end = len(lead.rstrip(" "))
        pattern = re.escape(written[:end]).encode()
        while end < len(written):
            piece = _SYNOPSIS.match(written, end)
            pattern += _OF_SYNOPSES[piece[0]] if piece else re.escape(written[end]).encode()
            end = piece.end() if piece else end + 1
        option = _Option(programs, pattern, is_sure=is_sure)
        if lead == " -":
            for letter in b"BbcnsfkiLSvgx":
                short[bytes((letter,))].append(option)
        elif written.startswith(" -") and not written.startswith(" --"):
            short[written[2:3].encode()].append(option)
        else:
            long.append((lead.encode(), option))
    return short, long


_SHORT, _LONG = _read_synopses()
_SHORT_WORDS = frozenset(
    word for options in _SHORT.values() for option in options for word in option.words
)
_LONGEST_COMMAND = 500
_END_OF_COMMAND = re.compile(rb"(?<![\\^`])(?<![\\^`]\r)\r?\n")  # a line may go on in the next
_ADDRESS_OR_NUMBER = re.compile(rb"[\d:.]+")

# echo … | docker login --password-stdin     echo "user:…" | chpasswd     echo -e "…\n…" | passwd
_PIPED = re.compile(
    rb"""(?:echo|printf)\s+(?:-\w+\s+|["']?%s(?:\\n)?["']?\s+){0,3}"""
    rb"""(?:"(?P<double>[^"\r\n]{6,500})"|'(?P<single>[^'\r\n]{6,500})'|(?P<bare>[^\s"'|:;]{6,500}"""
    rb"""|[\w-]{1,60}:[^\s"'|:;]{6,500}))\s*(?:;\s*echo\s[^|\n]{1,100})?\)?(?:\s*\|\s*"""
    rb"""[^\n|]{0,200}?(?:-stdin|--with-token|passwd|sudo (?:-\w+ )*-S| login"""
    rb"""|passphrase-fd|cryptsetup"""
    rb"""|su |kinit|secrets? |vault)"""
    rb"""|\s*>>?\s*[^\s>|]{0,80}(?:pass|secret|passwd|\bpw)[\w.]{0,20}(?:\s|$))"""
)
_USER = re.compile(rb"[\w-]{1,60}:(?=[^/])")
# Of any program: -u user … -p …
_AFTER_USER = re.compile(
    rb" -(?:u|-user(?:name)?)[ =]\S{1,60}[^\n|;]{0,80}?[ ]-[pPw][ =]?" + _VALUE
)
# What a command reads: sudo -S … <<< "…"
_HERE = re.compile(rb"<<<[ ]?" + _VALUE)
_READS_PASSWORD = re.compile(rb"(?:sudo[^\n]{0,40} -S|passwd|-stdin|passphrase-fd 0|cryptsetup)\b")
_HEREDOC = re.compile(
    rb"passwd\b[^\r\n]{0,40}<<-?[ ]?[\"']?(?P<end>\w{1,20})[\"']?\r?\n"
    rb"(?P<value>(?:(?!(?P=end))\S{6,100}\r?\n){1,2})"
)
_PRINTED = (b"echo", b"printf")
_USER_OPTIONS = (b"u", b"user", b"username")
_SEND = frozenset((b"send", b"sendline"))
# send "…\r" after expect "password:"
_SENT = re.compile(
    rb"""send(?:line)?[ (]+(?:-- )?["'](?P<value>[^"'\r\n]{4,100}?)(?:\\[rn])*["']"""
)
_ASKED = re.compile(
    rb"""ass(?:word|phrase)[: ]*["'})\]]*\s*[;{]?\s*(?:\w{1,20}\.)?$""", re.IGNORECASE
)


def find(text: Text) -> Iterator[Span]:
    """The secrets that commands take in a text."""
    data, words = text.data, text.words
    yield from _of_options(text)
    if not words.isdisjoint(_PRINTED):
        yield from _piped(data)
    if b"passwd" in text.vocabulary:
        for match in _HEREDOC.finditer(data):
            yield *match.span("value"), _KIND
    if not words.isdisjoint(_USER_OPTIONS) and (b" -u" in data or b" --user" in data):
        for match in _AFTER_USER.finditer(data):
            if is_chosen(match[match.lastgroup or 0]):
                yield *match.span(match.lastgroup or 0), _KIND
    yield from _read(text)


def _read(text: Text) -> Iterator[Span]:
    """What a command reads, or an ``expect`` script sends when it is asked."""
    data, words = text.data, text.words
    if b"<<<" in data:
        for match in _HERE.finditer(data):
            is_sure = _READS_PASSWORD.search(_command_before(data, match.start())) is not None
            yield from _given(match, is_sure=is_sure)
    if b"expect" in words and not _SEND.isdisjoint(words):
        for match in _SENT.finditer(data):
            before = data[max(0, match.start() - 60) : match.start()]
            is_secret = is_given_password if b"xpect" in before else is_chosen
            if _ASKED.search(before) and is_secret(match["value"]):
                yield *match.span("value"), "password that is sent"


def _of_options(text: Text) -> Iterator[Span]:
    data, words = text.data, text.words
    if not _SHORT_WORDS.isdisjoint(words):
        for position in positions_of(data, b" -"):
            for option in _SHORT.get(data[position + 2 : position + 3], ()):
                if not option.words.isdisjoint(words):
                    yield from _of_option(data, position, 1, option)
    for lead, option in _LONG:
        if not option.words.isdisjoint(words):
            for position in positions_of(data, lead):
                yield from _of_option(data, position, len(lead), option)


def _of_option(data: bytes, position: int, length: int, option: _Option) -> Iterator[Span]:
    match = option.pattern.match(data, position)
    if match and option.called.search(_command_before(data, position + length)):
        yield from _given(match, is_sure=option.is_sure)


def _command_before(data: bytes, position: int) -> bytes:
    """The beginning of a command, which may span lines, up to a place in it."""
    return _END_OF_COMMAND.split(data[max(0, position - _LONGEST_COMMAND) : position])[-1]


def _given(match: re.Match[bytes], *, is_sure: bool) -> Iterator[Span]:
    """The value that a command takes, if it is a secret."""
    group = match.lastgroup or "bare"
    value = match[group]
    if _ADDRESS_OR_NUMBER.fullmatch(value):
        return
    if (
        is_chosen(value)
        or (group != "bare" and is_phrase(value))
        or (is_sure and is_given_password(value))
    ):
        yield *match.span(group), _KIND


def _piped(data: bytes) -> Iterator[Span]:
    for lead in _PRINTED:
        for position in positions_of(data, lead + b" "):
            match = _PIPED.match(data, position)
            if match is None:
                continue
            group = match.lastgroup or "bare"
            start, end = match.span(group)
            if user := _USER.match(data, start, end):
                start = user.end()
            value = data[start:end]
            if user or is_given_password(value) or (group != "bare" and is_phrase(value)):
                yield start, end, _KIND


def positions_of(data: bytes, literal: bytes) -> Iterator[int]:
    position = data.find(literal)
    while position >= 0:
        yield position
        position = data.find(literal, position + len(literal))
