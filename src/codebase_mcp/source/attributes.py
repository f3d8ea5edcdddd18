"""Which files does ``.gitattributes`` mark as generated or vendored?

GitHub's ``linguist-generated`` and ``linguist-vendored`` mark such files. Unset or false, they mark
a file as written by hand, whatever its name suggests. For each of the two the last matching line in
the deepest file that mentions a path decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codebase_mcp.source.ignore import ReadRules, Rules, parse_rules, read_ignore_file

FILE_NAME = ".gitattributes"

_GENERATED = b"linguist-generated"
_VENDORED = b"linguist-vendored"
_MENTION = re.compile(rb"linguist-(?:generated|vendored)")
_LINE = re.compile(rb'[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^ \t"#][^ \t]*))[ \t]+(.*)')
_YES = frozenset({b"", b"true", b"1", b"yes", b"on"})
_NO = frozenset({b"false", b"0", b"no", b"off"})


@dataclass(frozen=True, slots=True)
class LinguistAttributes:
    """Whether attributes mark a file as generated or vendored; None if they do not say."""

    generated: bool | None = None
    vendored: bool | None = None


UNSET = LinguistAttributes()


@dataclass(frozen=True, slots=True)
class _File:
    """The rules of an attribute file; its paths are relative to the first ``base`` bytes."""

    base: int
    generated: Rules
    vendored: Rules


class Attributes:
    """The attribute files in some directories of a tree; each is read once.

    Paths are relative to ``top``, with forward slashes; ``top`` itself is ``b""``.
    """

    def __init__(
        self, top: bytes, directories: Iterable[bytes], read: ReadRules = read_ignore_file
    ) -> None:
        self._files: dict[bytes, _File] = {}
        for directory in directories:
            lead = directory + b"/" if directory else b""
            text = read(b"%s/%s%s" % (top, lead, FILE_NAME.encode()))
            if text and _MENTION.search(text):
                generated, vendored = (
                    parse_rules(_lines(text, n)) for n in (_GENERATED, _VENDORED)
                )
                self._files[directory] = _File(len(lead), generated, vendored)

    def __bool__(self) -> bool:
        """Whether any of the files has a relevant rule."""
        return bool(self._files)

    def of(self, path: bytes) -> LinguistAttributes:
        """The attributes of a file."""
        generated = vendored = None
        name = path[path.rfind(b"/") + 1 :]
        directory = path
        while directory and (generated is None or vendored is None):
            directory = directory[: max(directory.rfind(b"/"), 0)]
            file = self._files.get(directory)
            if file is None:
                continue
            if generated is None:
                generated = file.generated.verdict(path[file.base :], name, is_dir=False)
            if vendored is None:
                vendored = file.vendored.verdict(path[file.base :], name, is_dir=False)
        if generated is None and vendored is None:
            return UNSET
        return LinguistAttributes(generated, vendored)


def _lines(text: bytes, attribute: bytes) -> bytes:
    """The lines that set an attribute, in the syntax of ignore files; ``!`` where they unset it."""
    rules = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        parts = _LINE.fullmatch(line.rstrip(b"\r"))
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
