"""What is the text of these bytes?

UTF-8 where the bytes are valid UTF-8, UTF-16 and UTF-32 with a byte order mark. Otherwise the
encoding that the text itself declares, as Python, Emacs, Vim, XML, HTML and CSS do; otherwise
Windows-1252, whose printable characters include those of Latin-1. Detectors by statistics take
French for a Central European encoding in files with few accents, so none is used.
"""

from __future__ import annotations

import codecs
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from dataclasses import dataclass

UTF8 = "utf-8"
WINDOWS = "windows-1252"
# Some lines of a file in UTF-8 are in Windows-1252: names of authors, mostly.
MIXED = "utf-8 and windows-1252"

# UTF-32 before UTF-16, as its byte order mark begins with that of UTF-16.
_MARKS = (
    (BOM_UTF8, UTF8),
    (BOM_UTF32_LE, "utf-32-le"),
    (BOM_UTF32_BE, "utf-32-be"),
    (BOM_UTF16_LE, "utf-16-le"),
    (BOM_UTF16_BE, "utf-16-be"),
)

# HTML looks for a declaration in as many bytes; Python's first two lines are shorter.
_HEAD_BYTES = 1024
_DECLARED = re.compile(
    rb"(?:coding|charset)[ \t]*[:=]?[ \t]*[\"']?"
    rb"([a-z][\w.:-]*?)(?:-(?:unix|dos|mac))?(?![\w.:-])",
    re.IGNORECASE,
)
# Codecs of texts that keep ASCII. Latin-1 is missing, as texts that declare it are often in
# Windows-1252.
_CODECS = re.compile(
    r"iso8859-(?:[2-9]|1\d)|cp(?:125\d|437|720|737|775|85\d|86[0-35-69]|874|932|949|950)|koi8-[rtu]|mac-\w+|ptcp154|tis-620"
    r"|shift_jis\w*|euc_\w+|gb2312|gbk|gb18030|big5\w*"
)

# In text they are rare: of 100 files of installed programs that are not in UTF-8, binary files
# without a NUL had 5 % and more, texts below 2 %, but for two tables of keys.
_CONTROLS = bytes({*range(32)} - set(b"\b\t\n\v\f\r\x1b")) + b"\x7f"
_MOST_CONTROLS = 0.02
# Western texts have up to 12 %. Above it the words of another script would come out wrong.
_MOST_FOREIGN = 0.3

# Bytes that are not UTF-8, as Python's "surrogateescape" shows them.
_FOREIGN = re.compile("[\udc80-\udcff]")
_WINDOWS = {
    chr(0xDC00 + byte): bytes([byte]).decode("cp1252", "replace") for byte in range(128, 256)
}
_UNUSED = [broken for broken, character in _WINDOWS.items() if character == "\ufffd"]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text without its byte order mark, and the encoding that it was in."""

    text: str
    encoding: str


def decode(data: bytes) -> Decoded:
    """The text of some bytes.

    Raises:
        UnicodeDecodeError: they are not text, or in an encoding that they do not declare.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            data = data[len(mark) :]
            if encoding == UTF8:
                break
            return Decoded(data.decode(encoding), encoding)
    try:
        return Decoded(data.decode(), UTF8)
    except UnicodeDecodeError as error:
        decoded = None if b"\0" in data else _declared(data) or _windows(data)
        if decoded is None:
            raise error from None
        return decoded


def _declared(data: bytes) -> Decoded | None:
    """The text in the encoding that its beginning declares; None if that is not its encoding."""
    for name in _DECLARED.findall(data[:_HEAD_BYTES]):
        try:
            codec = codecs.lookup(name.decode("ascii", "replace").lower()).name
            if _CODECS.fullmatch(codec):
                return Decoded(data.decode(codec), codec)
        except (LookupError, UnicodeDecodeError):
            continue
    return None


def _windows(data: bytes) -> Decoded | None:
    """The text, with invalid UTF-8 read as Windows-1252; None if the result is not text."""
    escaped = data.decode(UTF8, "surrogateescape")
    controls = len(data) - len(data.translate(None, _CONTROLS)) + sum(map(escaped.count, _UNUSED))
    if controls > _MOST_CONTROLS * len(data):
        return None
    text, foreign = _FOREIGN.subn(lambda match: _WINDOWS[match[0]], escaped)
    if foreign > _MOST_FOREIGN * len(data):
        return None
    return Decoded(text, WINDOWS if len(text) == len(data) else MIXED)
