"""Which files does a diff change, and which words? Unified diffs, with or without git's headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codebase_mcp.context.paths import TaskPath

_HUNK = re.compile(
    r"@@+ -(\d{1,7})(?:,(\d{1,7}))? (?:-\d+(?:,\d+)? )*\+(\d{1,7})(?:,(\d{1,7}))? @@+ ?(.*)"
)
_GIT = re.compile(r"diff --(?:git|cc|combined) (?P<paths>\S.*)")
_HEADER = re.compile(
    r"index [0-9a-f]{4,}|(?:new|deleted) file mode \d|(?:old|new) mode \d|similarity index"
    r"|dissimilarity index|(?:rename|copy) (?:from|to) |Binary files .* differ|GIT binary patch"
    r"|\\ No newline at end of file|Index: |={60,}$|Only in "
)
_OLD = re.compile(r"--- (?P<path>[^\t\r\n]+)")
_NEW = re.compile(r"\+\+\+ (?P<path>[^\t\r\n]+)")
_STAT = re.compile(r" (?:[\w./{} =>-]+) +\| +(?:\d+|Bin)\b| \d+ files? changed")
_WORD = re.compile(r"[^\W\d]\w+")
_FIRST_CHARS = frozenset("@d-+inorscBG\\I=O ")
_SIDE = re.compile(r"^[abciow12]/(?=.)")
MAX_WORDS = 400

# Shorter lines stand in many files by chance.
_LEAST_LINE_CHARS, _MOST_LINE_CHARS = 12, 200
_MOST_REMOVED = 12


@dataclass(frozen=True, slots=True)
class Diff:
    """The files of a diff, the words of its changed lines, the numbers of its lines, and the
    longest lines that it removes; ``around`` are the words of unchanged lines."""

    paths: tuple[TaskPath, ...] = ()
    words: tuple[str, ...] = ()
    lines: frozenset[int] = frozenset()
    removed: tuple[str, ...] = ()
    around: tuple[str, ...] = ()


class _Reader:
    """Reads lines in order; ``left`` are the old and new lines that a hunk still has."""

    def __init__(self) -> None:
        self.paths: dict[str, int | None] = {}
        self.words: dict[str, int] = {}
        self.removed: dict[str, None] = {}
        self.around: dict[str, None] = {}
        self.taken: set[int] = set()
        self.path: str | None = None
        self.left = (0, 0)

    def read(self, lines: Sequence[str]) -> None:
        for index, line in enumerate(lines):
            is_hunk = self.left != (0, 0) and self._in_hunk(line)
            if is_hunk or (line[:1] in _FIRST_CHARS and self._heads(line, lines, index)):
                self.taken.add(index)

    def _in_hunk(self, line: str) -> bool:
        old, new = self.left
        sign = line[:1]
        if sign == "+" and new > 0:
            self.left = old, new - 1
        elif sign == "-" and old > 0:
            self.left = old - 1, new
            if len(text := line[1:].strip()) >= _LEAST_LINE_CHARS:
                self.removed[text[:_MOST_LINE_CHARS]] = None
        elif sign in ("", " ", "\t"):
            self.left = max(0, old - 1), max(0, new - 1)
            self.around.update(dict.fromkeys(_WORD.findall(line[:1_000])))
            return True
        elif sign == "\\":
            return True
        else:  # cut off, or written by hand with wrong numbers
            self.left = 0, 0
            return False
        self._add_words(line[1:])
        return True

    def _heads(self, line: str, lines: Sequence[str], index: int) -> bool:
        if line.startswith("@@") and (hunk := _HUNK.match(line)):
            self.left = int(hunk[2] or 1), int(hunk[4] or 1)
            if self.path and self.paths.get(self.path) is None:
                self.paths[self.path] = int(hunk[3]) or None
            self._add_words(hunk[5])
            return True
        if line.startswith("diff ") and (header := _GIT.match(line)):
            self._name(header["paths"].rpartition(" b/")[2] or header["paths"])
            return True
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line.startswith("--- ") and (new := _NEW.match(following)):
            old = _OLD.match(line)
            path = new["path"] if not _is_null(new["path"]) or old is None else old["path"]
            self._name(path)
            return True
        previous = lines[index - 1] if index else ""
        if line.startswith("+++ ") and previous.startswith("--- "):
            return True
        if self.path and not line.startswith(" ") and _HEADER.match(line):
            return True
        return self._loose(line, previous, index)

    def _loose(self, line: str, previous: str, index: int) -> bool:
        """Changed lines after a hunk whose counts were too small, and git's table of files."""
        if line[:1] in {"+", "-"} and line[:3] not in {"---", "+++"} and index - 1 in self.taken:
            if not previous.startswith(("+", "-", " ", "@@")) or not self.path:
                return False
            if line[:2] in {"- ", "+ "} and not previous.startswith("@@"):
                return False  # an item of a list after the diff
            self._add_words(line[1:])
            return True
        return line[:1] == " " and len(line) < 300 and _STAT.match(line) is not None

    def _name(self, written: str) -> None:
        path = written.strip().strip('"')
        if _is_null(path):
            return
        self.path = _SIDE.sub("", path)
        self.paths.setdefault(self.path, None)

    def _add_words(self, text: str) -> None:
        for word in _WORD.findall(text[:1_000]):
            if len(word) <= 64:
                self.words[word] = self.words.get(word, 0) + 1


_COMMIT = re.compile(r"(?:commit|From) [0-9a-f]{7,64}\b")
_FIELD = re.compile(
    r"(?:Author|AuthorDate|Commit|CommitDate|Date|Merge|From): |Subject: (?P<rest>.*)"
)


def without_log(lines: Sequence[str]) -> Iterator[str]:
    """Lines with what `git show`, `git log` and `git format-patch` add to messages left out."""
    in_log = in_fields = False
    for line in lines:
        if line.startswith(("commit ", "From ")) and _COMMIT.match(line):
            in_log = in_fields = True
            yield ""
        elif in_fields and (match := _FIELD.match(line)):
            yield match["rest"] or ""
        elif in_log and line.startswith("    "):
            yield line[4:]
        else:
            in_log = in_log and not line.startswith("diff ")
            in_fields = in_fields and bool(line)
            yield line


def _is_null(path: str) -> bool:
    return path.strip().endswith("/dev/null")


def read_diff(lines: Sequence[str]) -> Diff:
    """The diffs among the lines of a text, wherever they begin."""
    if not any(map(_may_begin, lines)):
        return Diff()
    reader = _Reader()
    reader.read(lines)
    return Diff(
        tuple(TaskPath(path, "change", line) for path, line in reader.paths.items()),
        _by_count(reader.words),
        frozenset(reader.taken),
        tuple(sorted(reader.removed, key=len, reverse=True)[:_MOST_REMOVED]),
        tuple(reader.around)[:MAX_WORDS],
    )


def _may_begin(line: str) -> bool:
    return line.startswith(("@@ -", "diff --", "--- ", "@@@ -"))


def _by_count(words: dict[str, int]) -> tuple[str, ...]:
    """Words in their order, at most `MAX_WORDS`, of which the most frequent are kept."""
    if len(words) <= MAX_WORDS:
        return tuple(words)
    kept: Iterable[str] = sorted(words, key=lambda word: -words[word])[:MAX_WORDS]
    chosen = set(kept)
    return tuple(word for word in words if word in chosen)
