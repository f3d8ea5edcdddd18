"""Which files does ``.gitattributes`` mark as generated or vendored?

GitHub's ``linguist-generated`` and ``linguist-vendored`` mark such files. Unset or false, they mark
a file as written by hand, whatever its name suggests. For each of the two the last matching line in
the deepest file that mentions a path decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codebase_mcp.source.ignore import IgnoreFiles, ReadRules, read_ignore_file

FILE_NAME = b".gitattributes"

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


class Attributes:
    """The attribute files in some directories of a tree; each is read once.

    Paths are relative to ``top``, with forward slashes; ``top`` itself is ``b""``.
    """

    def __init__(
        self, top: bytes, directories: Iterable[bytes], read: ReadRules = read_ignore_file
    ) -> None:
        self._texts: dict[bytes, bytes] = {}
        for directory in directories:
            location = b"%s/%s%s" % (top, directory + b"/" if directory else b"", FILE_NAME)
            text = read(location)
            if text and _MENTION.search(text):
                self._texts[location] = text
        self._generated = self._rules(top, _GENERATED)
        self._vendored = self._rules(top, _VENDORED)

    def _rules(self, top: bytes, attribute: bytes) -> IgnoreFiles:
        """Rules that "ignore" the files for which the attribute is set."""
        return IgnoreFiles(
            top, FILE_NAME, read=lambda location: _lines(self._texts.get(location, b""), attribute)
        )

    def __bool__(self) -> bool:
        """Whether any of the files has a relevant rule."""
        return bool(self._texts)

    def of(self, path: bytes) -> LinguistAttributes:
        """The attributes of a file."""
        generated = self._generated.verdict(path, is_dir=False)
        vendored = self._vendored.verdict(path, is_dir=False)
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
