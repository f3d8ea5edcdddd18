"""Is this path ignored? Does ``.gitattributes`` mark it as generated or vendored?

Reads files in gitignore syntax at every level of a tree and decides as git does: by the last
matching line of the deepest file with such a line. Git's wildcards become regular expressions over
bytes, as git itself compares bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import attrgetter

from codebase_mcp.source.open_file import read_ignore_file

# Markers between the expressions for single bytes.
_STAR = b"*"  # any run of bytes within a path segment
_DEEP = b"**/"  # no directory, or any number of them
_DEEPER = b"**\\/"  # with the slash escaped, at least one
_REST = b"**"  # the rest of the path
_SPECIAL = frozenset(b"*?[\\")
_SLASH = ord("/")

_DEEP_STARS = re.compile(rb"\*{2,}(/|\\/|\Z)")
_DEEP_MARKERS = {b"/": _DEEP, b"\\/": _DEEPER, b"": _REST}
_PIECE = re.compile(rb"(?P<stars>\*+)|(?P<any>\?)|(?:\\|(?!\\))(?P<byte>.)", re.DOTALL)
_WILDCARDS = {"stars": _STAR, "any": b"[^/]"}
# In brackets.
_END_OF_RANGE = re.compile(rb"-(?!\])\\?(.)", re.DOTALL)
_MEMBER = re.compile(rb"\[:(?P<name>[^\]]*):\]|\\?(?P<byte>.)", re.DOTALL)
_DIRECTORIES = {_DEEP: rb"(?:[^/]*/)*?", _DEEPER: rb"(?:[^/]*/)+?"}

_CLASSES: dict[bytes, frozenset[int]] = {
    name: frozenset(byte for byte in range(128) if re.fullmatch(expression, bytes([byte])))
    for name, expression in {
        b"alnum": rb"[0-9A-Za-z]",
        b"alpha": rb"[A-Za-z]",
        b"blank": rb"[ \t]",
        b"cntrl": rb"[\x00-\x1f\x7f]",
        b"digit": rb"[0-9]",
        b"graph": rb"[!-~]",
        b"lower": rb"[a-z]",
        b"print": rb"[ -~]",
        b"punct": rb"[!-/:-@\[-`{-~]",
        b"space": rb"[ \t-\r]",
        b"upper": rb"[A-Z]",
        b"xdigit": rb"[0-9A-Fa-f]",
    }.items()
}

ATTRIBUTES = b".gitattributes"

_MENTION = re.compile(rb"linguist-(?:generated|vendored)")
_ATTRIBUTE_LINE = re.compile(rb'[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^ \t"#][^ \t]*))[ \t]+(.*)')
_YES = frozenset({b"", b"true", b"1", b"yes", b"on"})
_NO = frozenset({b"false", b"0", b"no", b"off"})


@dataclass(frozen=True, slots=True)
class _Matcher:
    """Patterns with the same effect, grouped by how they are tested."""

    names: frozenset[bytes]
    suffixes: tuple[bytes, ...]
    paths: frozenset[bytes]
    name_expression: re.Pattern[bytes] | None
    path_expression: re.Pattern[bytes] | None

    def matches(self, path: bytes, name: bytes) -> bool:
        return (
            name in self.names
            or path in self.paths
            or (bool(self.suffixes) and name.endswith(self.suffixes))
            or (self.name_expression is not None and bool(self.name_expression.fullmatch(name)))
            or (self.path_expression is not None and bool(self.path_expression.fullmatch(path)))
        )


@dataclass(frozen=True, slots=True)
class _Pattern:
    glob: bytes
    negated: bool
    only_directories: bool
    by_name: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """Adjacent lines that all ignore, or all negate; their order does not matter."""

    ignores: bool
    for_files: _Matcher
    for_directories: _Matcher


@dataclass(frozen=True, slots=True)
class Rules:
    """The lines of an ignore file, last first."""

    runs: tuple[_Run, ...]

    def verdict(self, path: bytes, name: bytes, *, is_dir: bool) -> bool | None:
        """Ignored, explicitly not ignored, or (None) not mentioned.

        ``path`` is relative to the directory of the ignore file, ``name`` its last segment.
        """
        for run in self.runs:
            matcher = run.for_directories if is_dir else run.for_files
            if matcher.matches(path, name):
                return run.ignores
        return None


# Reads the content of an ignore or attribute file at a location; None if there is none.
ReadRules = Callable[[bytes], bytes | None]

# From the outermost ignore file to the deepest: how many bytes of a path lead to the directory
# that its patterns are relative to, and its rules.
Chain = tuple[tuple[int, Rules], ...]


@lru_cache(maxsize=1024)
def parse_rules(text: bytes) -> Rules:
    """Parse the content of an ignore file; lines that cannot match are dropped."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    patterns = (pattern for pattern in map(_parse_line, lines) if pattern is not None)
    runs = []
    for negated, group in groupby(patterns, attrgetter("negated")):
        run = list(group)
        for_files = [pattern for pattern in run if not pattern.only_directories]
        runs.append(_Run(not negated, _matcher(for_files), _matcher(run)))
    return Rules(tuple(reversed(runs)))


class IgnoreFiles:
    """All ignore files of the same name below ``top``; each is read once, on first use.

    Paths are relative to ``top``, with forward slashes; the directory ``top`` itself is ``b""``.
    """

    def __init__(
        self, top: bytes, name: bytes, *, outermost: Chain = (), read: ReadRules = read_ignore_file
    ) -> None:
        self._read = read
        self._top = top
        self._name = name
        self._chains: dict[bytes, Chain] = {}
        self._outermost = outermost

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether the path itself is ignored; its directory must not be ignored."""
        return bool(self.verdict(path, is_dir=is_dir))

    def verdict(self, path: bytes, *, is_dir: bool) -> bool | None:
        """As ``Rules.verdict``, by all files in the directories above the path."""
        slash = path.rfind(b"/")
        name = path[slash + 1 :]
        for base, rules in reversed(self._chain(path[: max(slash, 0)])):
            verdict = rules.verdict(path[base:], name, is_dir=is_dir)
            if verdict is not None:
                return verdict
        return None

    def apply_in(self, directory: bytes) -> bool:
        """Whether there are any rules for what lies in a directory."""
        return bool(self._chain(directory))

    def _chain(self, directory: bytes) -> Chain:
        below = []
        while (chain := self._chains.get(directory)) is None:
            below.append(directory)
            if not directory:
                chain = self._outermost
                break
            directory = directory[: max(directory.rfind(b"/"), 0)]
        for folder in reversed(below):
            prefix = folder + b"/" if folder else b""
            text = self._read(b"%s/%s%s" % (self._top, prefix, self._name))
            if text:
                chain = (*chain, (len(prefix), parse_rules(text)))
            self._chains[folder] = chain
        return chain


def _parse_line(line: bytes) -> _Pattern | None:
    if line.startswith(b"#"):
        return None
    line = _without_trailing_spaces(line.removesuffix(b"\r").split(b"\0", 1)[0])
    negated = line.startswith(b"!")
    line = line[negated:]
    only_directories = line.endswith(b"/")
    line = line.removesuffix(b"/")
    if not line:
        return None
    return _Pattern(line.removeprefix(b"/"), negated, only_directories, by_name=b"/" not in line)


def _without_trailing_spaces(line: bytes) -> bytes:
    """The line up to its trailing spaces; a space after a backslash belongs to the pattern."""
    stripped = line.rstrip(b" ")
    escapes = len(stripped) - len(stripped.rstrip(b"\\"))
    if escapes % 2 and len(stripped) < len(line):
        return stripped + b" "
    return stripped


def _matcher(patterns: list[_Pattern]) -> _Matcher:
    names: set[bytes] = set()
    paths: set[bytes] = set()
    suffixes: set[bytes] = set()
    expressions: dict[bool, list[bytes]] = {True: [], False: []}
    for pattern in patterns:
        glob = pattern.glob
        if _is_literal(glob):
            (names if pattern.by_name else paths).add(glob)
        elif pattern.by_name and glob.startswith(b"*") and _is_literal(glob[1:]):
            suffixes.add(glob[1:])
        elif (expression := translate(glob)) is not None:
            expressions[pattern.by_name].append(expression)
    return _Matcher(
        frozenset(names),
        tuple(sorted(suffixes)),
        frozenset(paths),
        _any_of(expressions[True]),
        _any_of(expressions[False]),
    )


def _any_of(expressions: list[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(expressions), re.DOTALL) if expressions else None


def _is_literal(pattern: bytes) -> bool:
    """Whether the pattern holds no wildcard and no escape."""
    return _SPECIAL.isdisjoint(pattern)


def translate(pattern: bytes) -> bytes | None:
    """The expression that fully matches the same paths as the pattern; None if it matches none.

    The part between two stars is matched at its first position, atomically, so that no ignore file,
    however contrived, makes matching slow by backtracking.
    """
    tokens = _tokens(pattern)
    if tokens is None:
        return None
    rest = bool(tokens) and tokens[-1] is _REST
    if rest:
        tokens.pop()
    groups: list[tuple[bytes, list[bytes]]] = [(b"", [])]
    for token in tokens:
        if token in _DIRECTORIES:
            groups.append((_DIRECTORIES[token], []))
        else:
            groups[-1][1].append(token)
    parts = [
        b"(?>" + lead + _within(body, last=False) + b")" if lead else _within(body, last=False)
        for lead, body in groups[:-1]
    ]
    lead, body = groups[-1]
    parts.append(lead + _within(body, last=not rest))
    return b"".join(parts) + (b".*" if rest else b"")


def _within(tokens: list[bytes], *, last: bool) -> bytes:
    """The expression of a stretch without ``**``; ``last`` where the end of the path follows."""
    runs: list[list[bytes]] = [[]]
    for token in tokens:
        if token is _STAR:
            runs.append([])
        else:
            runs[-1].append(token)
    first, *rest = (b"".join(run) for run in runs)
    parts = [b"(?>[^/]*?" + run + b")" for run in rest]
    if last and rest:
        parts[-1] = b"[^/]*" + rest[-1]
    return first + b"".join(parts)


def _tokens(pattern: bytes) -> list[bytes] | None:
    tokens: list[bytes] = []
    at = 0
    # Git compares the literal start by itself and hands on the remainder, so that a ``**`` right
    # after that start counts as standing at the beginning of a segment.
    literal_end = next((i for i, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    while at < len(pattern):
        opens = at == literal_end or pattern[at - 1] == _SLASH
        if pattern[at : at + 1] == b"[":
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            token, at = bracket
        elif opens and (stars := _DEEP_STARS.match(pattern, at)):
            token, at = _DEEP_MARKERS[stars[1]], stars.end()
        elif piece := _PIECE.match(pattern, at):
            token = _WILDCARDS.get(piece.lastgroup or "") or re.escape(piece["byte"])
            at = piece.end()
        else:
            return None
        tokens.append(token)
    return tokens


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """The set that begins after ``[``, and where the pattern goes on; None if it is malformed."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    first = at = at + negated
    members: set[int] = set()
    previous: int | None = None  # the byte at which a range could start
    while at == first or pattern[at : at + 1] != b"]":
        if previous is not None and (end := _END_OF_RANGE.match(pattern, at)):
            members.update(range(previous, end[1][0] + 1))
            previous, at = None, end.end()
        elif member := _MEMBER.match(pattern, at):
            if member["name"] is None:
                previous = member["byte"][0]
                members.add(previous)
            elif member["name"] in _CLASSES:
                previous = None
                members |= _CLASSES[member["name"]]
            else:
                return None
            at = member.end()
        else:
            return None
    if negated:
        members = set(range(256)) - members
    members.discard(_SLASH)
    if not members:
        return rb"(?!)", at + 1
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(members)) + b"]", at + 1


@dataclass(frozen=True, slots=True)
class LinguistAttributes:
    """Whether attributes mark a file as generated or vendored; None if they do not say."""

    generated: bool | None = None
    vendored: bool | None = None


UNSET = LinguistAttributes()


class Attributes:
    """The attribute files in some directories of a tree; each is read once.

    GitHub's ``linguist-generated`` and ``linguist-vendored`` mark files. Unset or false, they mark
    a file as written by hand, whatever its name suggests. For each of the two the last matching
    line in the deepest file that mentions a path decides. Paths are relative to ``top``, with
    forward slashes; ``top`` itself is ``b""``.
    """

    def __init__(
        self, top: bytes, directories: Iterable[bytes], read: ReadRules = read_ignore_file
    ) -> None:
        self._texts: dict[bytes, bytes] = {}
        for directory in directories:
            location = b"%s/%s%s" % (top, directory + b"/" if directory else b"", ATTRIBUTES)
            text = read(location)
            if text and _MENTION.search(text):
                self._texts[location] = text
        # Rules that "ignore" the files for which an attribute is set.
        self._generated, self._vendored = (
            IgnoreFiles(top, ATTRIBUTES, read=partial(self._lines, attribute))
            for attribute in (b"linguist-generated", b"linguist-vendored")
        )

    def _lines(self, attribute: bytes, location: bytes) -> bytes:
        return _attribute_lines(self._texts.get(location, b""), attribute)

    def __bool__(self) -> bool:
        """Whether any of the files has a relevant rule."""
        return bool(self._texts)

    def of(self, path: bytes) -> LinguistAttributes:
        """The attributes of a file."""
        return LinguistAttributes(
            self._generated.verdict(path, is_dir=False), self._vendored.verdict(path, is_dir=False)
        )


def _attribute_lines(text: bytes, attribute: bytes) -> bytes:
    """The lines that set an attribute, in the syntax of ignore files; ``!`` where they unset it."""
    rules = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        parts = _ATTRIBUTE_LINE.fullmatch(line.rstrip(b"\r"))
        if parts is None:
            continue
        pattern = re.sub(rb"\\(.)", rb"\1", parts[1]) if parts[2] is None else parts[2]
        value = _value(parts[3].split(), attribute)
        # Unlike in an ignore file, a pattern matches no directory and makes no exception.
        if value is None or pattern.endswith(b"/") or pattern.startswith((b"!", b"[attr]")):
            continue
        lead = b"\\" if pattern.startswith(b"#") else b""
        rules.append((b"" if value else b"!") + lead + pattern)
    return b"\n".join(rules)


def _value(words: list[bytes], attribute: bytes) -> bool | None:
    """The value that a line gives to an attribute: the last word that names it counts."""
    result = None
    for word in words:
        name, _, value = word.partition(b"=")
        if word == b"-" + attribute or (name == attribute and value.lower() in _NO):
            result = False
        elif name == attribute and value.lower() in _YES:
            result = True
    return result
