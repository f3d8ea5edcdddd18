"""Reads the text of files, on disk or in git's objects.

Opens a listed file without following links or blocking on pipes, and returns its text, in which
secrets are masked, or the reason why there is none. Safe to call from worker processes.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
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
from codebase_mcp.source.encoding import UTF8, decode
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


def read_files(files: Iterable[SourceFile], *, max_file_bytes: int) -> list[Content]:
    """The content of each file."""
    return [read_source(file, max_file_bytes=max_file_bytes) for file in files]


def read_objects(
    repository: GitRepository, files: Sequence[tuple[SourceFile, str]], *, max_file_bytes: int
) -> list[Content]:
    """The content of files of a commit, each given with the hash of its git object.

    Raises:
        IndexingFailed: git cannot read them.
    """
    contents: list[Content] = []
    blobs = read_blobs(repository, [object_id for _, object_id in files], max_file_bytes)
    for (file, _), (_, data) in zip(files, blobs, strict=True):
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
