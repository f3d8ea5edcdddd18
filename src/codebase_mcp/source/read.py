"""Reads the text of files, on disk or in git's objects.

Opens a listed file without following links or blocking on pipes, and returns its text, in which
secrets are masked, or the reason why there is none. Safe to call from worker processes.
"""

from __future__ import annotations

import errno
import hashlib
import os
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
from codebase_mcp.source.git_objects import Unread, read_blobs
from codebase_mcp.source.lfs import NOT_FETCHED, pointed_at
from codebase_mcp.source.open_file import open_regular

BINARY = "Binary file not supported"
TOO_LARGE = "File exceeds size limit"
PERMISSION_DENIED = "Permission denied"
NOT_UTF8 = "File is not valid UTF-8"

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's content: its bytes, its text, git's blob id of the bytes (20 bytes).

    ``kind`` and ``language`` are the listing's, refined by what the content shows. The text holds
    no NUL, which PostgreSQL could not store, and no byte order mark; line ends are as they were.
    The ``masked`` secrets in it are stars; where ``shows_secrets``, they are as in the file.
    ``encoding`` is what the bytes are in.
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
    """A file that is not source and is not named as source; ``reason`` is a key."""

    path: str
    reason: str


Content = SourceText | FileFailure | Skipped


def read_source(file: SourceFile, *, max_file_bytes: int = 1 << 20) -> Content:
    """The content of a listed file, or the reason not to index it.

    A file that is gone or no longer a regular file is skipped; the next listing shows its state.
    """
    try:
        data = _read_bytes(file, max_file_bytes)
    except OSError as error:
        return _unread(file, error)
    if data is None:
        return Skipped(file.path, "special")
    if len(data) > max_file_bytes:
        return _refused(file, TOO_LARGE, "too_large")
    return _as_text(file, data)


def read_files(files: Iterable[SourceFile], *, max_file_bytes: int) -> list[Content]:
    """The content of each file."""
    return [read_source(file, max_file_bytes=max_file_bytes) for file in files]


def read_objects(
    repository: GitRepository,
    files: Sequence[tuple[SourceFile, str]],
    *,
    max_file_bytes: int,
) -> list[Content]:
    """The content of files of a commit, each given with the hash of its git object.

    Raises:
        IndexingFailed: git cannot read them.
    """
    found = read_blobs(repository, [object_id for _, object_id in files], max_file_bytes)
    return [
        _as_text(file, data) if isinstance(data, bytes) else _unread_object(file, data)
        for (file, _), (_, data) in zip(files, found, strict=True)
    ]


def _unread_object(file: SourceFile, reason: Unread) -> FileFailure | Skipped:
    if reason is Unread.TOO_LARGE:
        return _refused(file, TOO_LARGE, "too_large")
    return _refused(file, f"Its object in git is {reason.value}", "unreadable")


def _as_text(file: SourceFile, data: bytes) -> Content:
    if pointed_at(data) is not None:
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
    found = SourceText(data, text, blob_hash(data), kind, language, encoding=decoded.encoding)
    if file.shows_secrets:
        return replace(found, shows_secrets=True)
    if is_secret_text(file.path, text):
        return Skipped(file.path, "secret")
    masked = mask(text)
    return replace(found, text=masked.text, masked=len(masked.kinds))


def blob_hash(data: bytes) -> bytes:
    """The id that git gives to these bytes as a file's content; 20 bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def language_of_content(path: str, language: str, data: bytes) -> str:
    """The language of a file, where its name does not decide it."""
    if language == TEXT:
        return language_of_shebang(data) or TEXT
    if language == "c" and path.endswith((".h", ".h.in")):
        return language_of_header(data[:_HEAD_BYTES])
    return language


def failure_reason(error: OSError) -> str:
    """The contract's words for a failed system call on a file or directory."""
    if isinstance(error, PermissionError):
        return PERMISSION_DENIED
    return f"Cannot be read: {error.strerror}"


def _read_bytes(file: SourceFile, limit: int) -> bytes | None:
    """At most one byte more than the limit; None if this is no longer a regular file."""
    handle = open_regular(os.fsencode(file.location))
    if handle is None:
        return None
    try:
        parts = []
        wanted = limit + 1
        while wanted and (part := os.read(handle, wanted)):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def _unread(file: SourceFile, error: OSError) -> FileFailure | Skipped:
    if error.errno == errno.ELOOP:
        return Skipped(file.path, "symlink")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Skipped(file.path, "vanished")
    return _refused(file, failure_reason(error), "unreadable")


def _refused(file: SourceFile, failure: str, skip: str) -> FileFailure | Skipped:
    if file.named_as_source:
        return FileFailure(file.path, failure)
    return Skipped(file.path, skip)


def _kind(file: SourceFile, language: str, data: bytes) -> FileKind:
    kind = file.kind
    if not file.by_hand:
        kind = refine_kind(file.path, kind, data[:_HEAD_BYTES], data[-TAIL_BYTES:])
    if kind is FileKind.CONFIG and language != file.language:
        return FileKind.CODE  # a script, known by its first line
    return kind
