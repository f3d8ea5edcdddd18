"""The words that all rooms exchange: files, chunks, symbols, projects.

Values only: frozen, without behaviour beyond what is derived from their own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

# A file or directory that changed within this time (ns) before it was read may change again with
# the same times: some file systems keep them to one or two seconds. Git calls it "racily clean".
RACY_NS = 2_000_000_000


# The name of a repository's files on disk, as a state that can be searched; others are commits.
WORKTREE = "worktree"


class FileKind(StrEnum):
    """What a file is for; decided once, when it is listed, and stored with it."""

    CODE = "code"
    TEST = "test"
    DOCS = "docs"
    CONFIG = "config"
    GENERATED = "generated"
    VENDORED = "vendored"


# Files are shown in this order of their kinds.
KINDS = (
    FileKind.CODE,
    FileKind.CONFIG,
    FileKind.TEST,
    FileKind.DOCS,
    FileKind.GENERATED,
    FileKind.VENDORED,
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source tree, as listed; its text is not read yet.

    ``path`` is relative to the root, with forward slashes, and fit to be stored and shown: bytes
    that are not UTF-8 stand in it as ``\\xNN``. ``location`` is what the operating system opens;
    for a file of a commit the hash of its git object, and its times are none.
    ``named_as_source`` says that the name alone promises text in a known language, so that a
    binary or undecodable content is a failure worth reporting, not a file to skip.
    ``by_hand`` says that the repository calls it written by people, whatever it looks like.
    ``shows_secrets`` says that its secrets are wanted: nothing in it is masked.
    """

    path: str
    location: str
    size: int
    mtime_ns: int
    ctime_ns: int
    language: str
    kind: FileKind
    named_as_source: bool
    by_hand: bool = False
    shows_secrets: bool = False


def extension_of(path: str) -> str:
    """The extension of a file's name, in lower case and without the dot; empty if it has none."""
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot else ""


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that should be indexed and cannot be; ``reason`` as the contract words it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"Failed to process {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one source tree, sorted by path, and what was left out and why.

    ``not_fetched`` are the submodules that are not checked out. ``unchanged`` are the paths of
    files that are as the caller knew them; they are not among ``files``.
    """

    root: Path
    files: tuple[SourceFile, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[FileFailure, ...] = ()
    not_fetched: tuple[str, ...] = ()
    unchanged: frozenset[str] = frozenset()


ITEM = "item"

FIELD_KINDS = frozenset({"attribute", "entry", "enumerator", "field", ITEM})
"""Definitions that are part of another and hold a value. They name no chunk.

A ``field`` is declared, an ``attribute`` assigned to the own object in a method; an ``entry`` is a
key within another of a configuration. An ``item`` is an entry of a long literal or a branch of a
long switch: lines are in it as in a definition, but no name leads to it.
"""

MOST_ITEMS = 3
"""Lines in more items of a definition are listed under the definition."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition: what it is called, what it is, and where it stands (1-based, inclusive).

    ``qualified`` joins the names of the definitions around it with dots; ``depth`` counts them.
    """

    name: str
    qualified: str
    kind: str
    start_line: int
    end_line: int
    depth: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole lines (1-based, inclusive) that reads as one piece.

    ``symbol`` is the qualified name of the definition that the chunk is, or lies in; ``kind`` is
    that definition's kind, or ``text`` if there is none.
    """

    start_line: int
    end_line: int
    symbol: str | None
    kind: str


class ReferenceKind(StrEnum):
    """How a name is used."""

    CALL = "call"
    IMPORT = "import"
    INHERIT = "inherit"
    NEW = "new"
    TYPE = "type"
    USE = "use"


class Reference(NamedTuple):
    """A use of a name that is defined elsewhere, on a line (1-based).

    ``receiver`` is the last name of the expression before the dot: ``self``, ``os``, ``super()``.
    It is ``?`` for an expression without a name, and empty if nothing stands before the name.
    ``module`` is what an import takes the name from, as written; ``alias`` is its name in this
    text, if that is another. Of a type ``alias`` is what is declared to have it, of a call what
    gets its result; that is stored apart (see ``text/references.py``).
    """

    line: int
    name: str
    kind: ReferenceKind
    receiver: str = ""
    module: str = ""
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """What one text falls into.

    Every non-blank line lies in exactly one chunk. ``comments`` holds the text of comments and
    docstrings, markers included. ``references`` are sorted by line. ``fields`` are the definitions
    of the kinds FIELD_KINDS, ``symbols`` all others.
    """

    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    comments: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    fields: tuple[Symbol, ...] = ()
