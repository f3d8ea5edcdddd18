"""Is this path ignored?

Reads files in gitignore syntax at every level of a tree and decides as git does: the deepest
file that says anything about a path wins, and in it the last line that matches.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codebase_mcp.source.glob import is_literal, translate

log = logging.getLogger(__name__)

# Larger files are not plausible ignore files, and compiling them would take too long.
MAX_IGNORE_BYTES = 1 << 20


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
    """Adjacent lines that all ignore, or all negate; the order within them does not matter."""

    ignores: bool
    for_files: _Matcher
    for_directories: _Matcher


@dataclass(frozen=True, slots=True)
class Rules:
    """The lines of one ignore file, last first."""

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


# How the content of an ignore or attribute file is read, by its location; None if there is none.
ReadRules = Callable[[bytes], bytes | None]

# From the outermost ignore file to the deepest: how many bytes of a path lead to the directory
# that its patterns are relative to, and its rules.
Chain = tuple[tuple[int, Rules], ...]


@lru_cache(maxsize=1024)
def parse_rules(text: bytes) -> Rules:
    """Parse the content of an ignore file; lines that cannot match are dropped."""
    runs: list[list[_Pattern]] = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        pattern = _parse_line(line)
        if pattern is None:
            continue
        if not runs or runs[-1][0].negated != pattern.negated:
            runs.append([])
        runs[-1].append(pattern)
    return Rules(tuple(_run(patterns) for patterns in reversed(runs)))


def chain_ignores(chain: Chain, path: bytes, *, is_dir: bool) -> bool:
    """Whether the chain ignores the path itself; the caller checks its parents."""
    name = path[path.rfind(b"/") + 1 :]
    for base, rules in reversed(chain):
        verdict = rules.verdict(path[base:], name, is_dir=is_dir)
        if verdict is not None:
            return verdict
    return False


def read_ignore_file(
    location: bytes, *, follow: bool = False, too_large: list[bytes] | None = None
) -> bytes | None:
    """The content of an ignore file, or None if there is none.

    As in git a link inside the tree is not followed. Pipes and devices are not read. A file that is
    too large is not read, and its location is added to ``too_large``.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(location, flags)
    except OSError:
        return None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        if status.st_size > MAX_IGNORE_BYTES:
            if too_large is None:
                log.warning("%s is too large to be applied", os.fsdecode(location))
            else:
                too_large.append(location)
            return None
        return file.read(MAX_IGNORE_BYTES)


def is_pipe_or_device(location: Path) -> bool:
    """Whether opening or reading this may block for ever."""
    try:
        mode = location.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class IgnoreFiles:
    """All ignore files of one name below ``top``; each is read once, on first use.

    Paths are relative to ``top``, with forward slashes; the directory ``top`` itself is ``b""``.
    """

    def __init__(
        self,
        top: bytes,
        name: bytes,
        *,
        outermost: Chain = (),
        read: ReadRules = read_ignore_file,
    ) -> None:
        self._read = read
        self._top = top
        self._name = name
        self._chains: dict[bytes, Chain] = {}
        self._outermost = outermost

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether the path itself is ignored; its directory must not be."""
        chain = self._chain(path[: max(path.rfind(b"/"), 0)])
        return bool(chain) and chain_ignores(chain, path, is_dir=is_dir)

    def _chain(self, directory: bytes) -> Chain:
        unknown = []
        while (chain := self._chains.get(directory)) is None:
            unknown.append(directory)
            if not directory:
                chain = self._outermost
                break
            directory = directory[: max(directory.rfind(b"/"), 0)]
        for below in reversed(unknown):
            prefix = below + b"/" if below else b""
            text = self._read(b"%s/%s%s" % (self._top, prefix, self._name))
            if text:
                chain = (*chain, (len(prefix), parse_rules(text)))
            self._chains[below] = chain
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


def _run(patterns: list[_Pattern]) -> _Run:
    return _Run(
        ignores=not patterns[0].negated,
        for_files=_matcher([pattern for pattern in patterns if not pattern.only_directories]),
        for_directories=_matcher(patterns),
    )


def _matcher(patterns: list[_Pattern]) -> _Matcher:
    names: set[bytes] = set()
    paths: set[bytes] = set()
    suffixes: set[bytes] = set()
    expressions: dict[bool, list[bytes]] = {True: [], False: []}
    for pattern in patterns:
        glob = pattern.glob
        if is_literal(glob):
            (names if pattern.by_name else paths).add(glob)
        elif pattern.by_name and glob.startswith(b"*") and is_literal(glob[1:]):
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
