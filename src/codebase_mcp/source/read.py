"""Reads the text of files, on disk or in git's objects.

Opens a listed file without following links or blocking on pipes, and returns its text, in which
secrets are masked, or the reason why there is none. Safe to call from worker processes.

The encoding is UTF-8 where the bytes are valid UTF-8, UTF-16 or UTF-32 with a byte order mark.
Otherwise it is the one that the text itself declares, as Python, Emacs, Vim, XML, HTML and CSS do;
otherwise Windows-1252, whose printable characters include those of Latin-1. Detectors by statistics
take French for a Central European encoding in files with few accents, so none is used.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codebase_mcp.model import FileFailure, FileKind, SourceFile
from codebase_mcp.secrets.masking import mask
from codebase_mcp.secrets.names import is_secret_text
from codebase_mcp.source.classify import (
    TAIL_BYTES,
    TEXT,
    language_of_header,
    language_of_shebang,
    refine_kind,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import Unread, hash_blob, read_blobs
from codebase_mcp.source.open_file import read_regular

BINARY = "Binary file not supported"
TOO_LARGE = "File exceeds size limit"
PERMISSION_DENIED = "Permission denied"
NOT_UTF8 = "File is not valid UTF-8"

# Why a file that Git LFS would fetch is skipped.
NOT_FETCHED = "lfs_not_fetched"

_HEAD_BYTES = 1 << 16
# The specification limits a pointer to this size and begins it with this line, then sorted keys.
_MAX_POINTER_BYTES = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n"
)

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
_DECLARATION_BYTES = 1024
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
class SourceText:
    """A file's content: its bytes, its text, git's blob id of the bytes (20 bytes).

    ``kind`` and ``language`` are the listing's, refined by the content. The text holds no NUL,
    which PostgreSQL could not store, and no byte order mark; line ends are unchanged. ``masked``
    counts the secrets that stars replace; with ``shows_secrets`` none are replaced. ``encoding`` is
    that of the bytes.
    """

    data: bytes
    text: str
    blob_hash: bytes
    kind: FileKind
    language: str
    masked: int = 0
    shows_secrets: bool = False
    encoding: str = UTF8


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file without indexable text whose name does not promise any; ``reason`` is a key."""

    path: str
    reason: str


Content = SourceText | FileFailure | Skipped


def read_source(file: SourceFile, *, max_file_bytes: int = 1 << 20) -> Content:
    """The content of a listed file, or the reason not to index it.

    A file that has vanished or is no longer a regular file is skipped.
    """
    try:
        data = read_regular(os.fsencode(file.location), max_file_bytes)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return Skipped(file.path, "symlink")
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return Skipped(file.path, "vanished")
        return _refused(file, failure_reason(error), "unreadable")
    if data is None:
        return Skipped(file.path, "special")
    if len(data) > max_file_bytes:
        return _refused(file, TOO_LARGE, "too_large")
    return _as_text(file, data)


def read_objects(
    repository: GitRepository, files: Sequence[SourceFile], *, max_file_bytes: int
) -> list[Content]:
    """The content of files of a commit, whose locations are the hashes of their objects.

    Raises:
        IndexingFailed: git cannot read them.
    """
    contents: list[Content] = []
    blobs = read_blobs(repository, [file.location for file in files], max_file_bytes)
    for file, (_, data) in zip(files, blobs, strict=True):
        if isinstance(data, bytes):
            contents.append(_as_text(file, data))
        elif data is Unread.TOO_LARGE:
            contents.append(_refused(file, TOO_LARGE, "too_large"))
        else:
            contents.append(_refused(file, f"Its object in git is {data.value}", "unreadable"))
    return contents


def lfs_hash(content: bytes) -> str | None:
    """The SHA-256 of the file that a Git LFS pointer stands for; None if this is no pointer."""
    pointer = _POINTER.match(content) if len(content) < _MAX_POINTER_BYTES else None
    return None if pointer is None else pointer[1].decode()


def _as_text(file: SourceFile, data: bytes) -> Content:
    if lfs_hash(data) is not None:
        return Skipped(file.path, NOT_FETCHED)
    try:
        decoded = decode(data)
    except UnicodeDecodeError:
        decoded = None
    # A NUL means binary, which is a better reason than another encoding.
    if b"\0" in data if decoded is None else "\0" in decoded.text:
        return _refused(file, BINARY, "binary")
    if decoded is None:
        return _refused(file, NOT_UTF8, "undecodable")
    text = decoded.text
    language = language_of_content(file.path, file.language, data)
    kind = _kind(file, language, data)
    source = SourceText(data, text, blob_hash(data), kind, language, encoding=decoded.encoding)
    if file.shows_secrets:
        return replace(source, shows_secrets=True)
    if is_secret_text(file.path, text):
        return Skipped(file.path, "secret")
    masked = mask(text)
    return replace(source, text=masked.text, masked=len(masked.kinds))


def blob_hash(data: bytes) -> bytes:
    """The id that git gives to these bytes as a file's content; 20 bytes."""
    return bytes.fromhex(hash_blob([data], len(data)))


def language_of_content(path: str, language: str, data: bytes) -> str:
    """The language of a file, from its content where the name does not decide it."""
    if language == TEXT:
        return language_of_shebang(data) or TEXT
    if language == "c" and path.endswith((".h", ".h.in")):
        return language_of_header(data[:_HEAD_BYTES])
    return language


def failure_reason(error: OSError) -> str:
    """The reason in a reply for a failed system call on a file or directory."""
    if isinstance(error, PermissionError):
        return PERMISSION_DENIED
    return f"Cannot be read: {error.strerror}"


def _refused(file: SourceFile, failure: str, skip: str) -> FileFailure | Skipped:
    if file.named_as_source:
        return FileFailure(file.path, failure)
    return Skipped(file.path, skip)


def _kind(file: SourceFile, language: str, data: bytes) -> FileKind:
    kind = file.kind
    if not file.by_hand:
        kind = refine_kind(file.path, kind, data[:_HEAD_BYTES], data[-TAIL_BYTES:])
    if kind is FileKind.CONFIG and language != file.language:
        return FileKind.CODE  # its first line makes it a script
    return kind


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
    for name in _DECLARED.findall(data[:_DECLARATION_BYTES]):
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
