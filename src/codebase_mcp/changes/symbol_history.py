"""When did a definition appear, change, move and vanish?

Read from git's objects, not from the index: the commits that changed the files which define the
name, now or once, and each version of these files parsed once. Merges are left out, as what they
bring in was done by the commits that they merge.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Literal

from codebase_mcp.chunking.lines import normalise_newlines
from codebase_mcp.chunking.split import split
from codebase_mcp.model import FileKind, Symbol
from codebase_mcp.secrets.masking import mask
from codebase_mcp.source.classify import kind_of, language_of
from codebase_mcp.source.commit_log import Tip, list_commits
from codebase_mcp.source.git import ask_git, stream_git
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import Unread, read_blobs
from codebase_mcp.source.listing_builder import escape_path
from codebase_mcp.source.read import decode

# A name that very many files hold is followed in the first of them alone.
MAX_PATHS = 300
# A larger version of a file is left out.
MAX_BYTES = 1 << 20
# Parsing ends after this time; versions that were not parsed then are left out.
TIME_LIMIT_S = 20.0

_YEAR_9999 = 253_370_764_800
_QUIET = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
_COMMITS = ("diff-tree", "--stdin", "--root", "-r", "-z", "--relative", *_QUIET)
_FORMAT = "--format=%x00%H%x00%an%x00%at%x00%s"

Change = Literal["added", "changed", "moved", "removed"]


@dataclass(frozen=True, slots=True)
class SymbolEvent:
    """What a commit did to a definition.

    The lines are those of the version after it; of a removed definition, those before. ``former``
    is the place, as ``path`` or name, from which it was moved.
    """

    commit: str
    author: str
    at: datetime
    subject: str
    change: Change
    path: str
    symbol: str
    first_line: int
    last_line: int
    former: str | None = None


@dataclass(frozen=True, slots=True)
class SymbolHistory:
    """The events, newest first, among the newest commits.

    ``is_complete`` says that these are all commits of the repository, and that every version of the
    files could be parsed.
    """

    events: tuple[SymbolEvent, ...]
    commits: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _FileChange:
    """Two versions of a file, as git's blob ids; None where it did not exist."""

    path: bytes
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class _Commit:
    hash: str
    author: str
    at: datetime
    subject: str
    changes: tuple[_FileChange, ...]


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition of the name in a version of a file, with its whole ``text``."""

    symbol: Symbol
    text: str

    @property
    def place(self) -> tuple[str, int, int]:
        """Its name, and its first and last line."""
        return self.symbol.qualified, self.symbol.start_line, self.symbol.end_line


_Definitions = Mapping[str, _Definition]


@dataclass(slots=True)
class _Versions:
    """The definitions of a name in versions of files, each parsed once."""

    repository: GitRepository
    name: str
    end: float
    is_complete: bool = True
    parsed: dict[tuple[str, str], _Definitions] = field(default_factory=dict)

    def parse(self, commits: Iterable[_Commit]) -> None:
        """Parse every version that a commit made or replaced."""
        languages: dict[str, set[str]] = {}
        for change in (change for commit in commits for change in commit.changes):
            for blob in filter(None, (change.old, change.new)):
                languages.setdefault(blob, set()).add(language_of(escape_path(change.path)))
        for blob, content in read_blobs(self.repository, list(languages), MAX_BYTES):
            for language in languages[blob]:
                if isinstance(content, Unread) or time.monotonic() > self.end:
                    self.is_complete = False
                else:
                    self.parsed[blob, language] = self._definitions(content, language)

    def of(self, path: bytes, blob: str | None) -> _Definitions | None:
        """The definitions in a version of a file; None if it was not parsed."""
        return self.parsed.get((blob, language_of(escape_path(path)))) if blob else {}

    def _definitions(self, content: bytes, language: str) -> _Definitions:
        if self.name.isascii() and not all(p.encode() in content for p in self.name.split(".")):
            return {}
        try:
            text = normalise_newlines(decode(content).text)
        except UnicodeDecodeError:
            return {}
        lines = text.split("\n")
        definitions: dict[str, _Definition] = {}
        for symbol in split(text, language).symbols:
            if f".{symbol.qualified}".endswith(f".{self.name}"):
                own = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
                before = definitions.get(symbol.qualified)
                whole = own if before is None else f"{before.text}\n{own}"
                definitions[symbol.qualified] = _Definition(
                    before.symbol if before else symbol, whole
                )
        return definitions


def symbol_history(
    tip: Tip, name: str, depth: int = 1_000, *, limit_s: float = TIME_LIMIT_S
) -> SymbolHistory:
    """The events of the newest ``depth`` commits for definitions of a name, newest first.

    A name with dots is the end of a qualified name: ``Session.open``.

    Raises:
        IndexingFailed: git cannot read the commits.
    """
    repository = tip.repository
    hashes = list_commits(tip, depth)
    paths = _paths_with(repository, tip.commit, name.rpartition(".")[2], hashes)
    commits = list(_commits(repository, hashes, paths[:MAX_PATHS])) if paths else []
    commits = [commit for commit in commits if commit.hash not in tip.edge]
    versions = _Versions(repository, name, time.monotonic() + limit_s)
    versions.parse(commits)
    events = [event for commit in commits for event in _events(commit, versions)]
    is_all = len(hashes) < depth and not tip.edge and len(paths) <= MAX_PATHS
    return SymbolHistory(tuple(events), len(hashes), is_all and versions.is_complete)


def _paths_with(
    repository: GitRepository, commit: str, word: str, hashes: Sequence[str]
) -> list[bytes]:
    """The files that hold a word, or in which a commit changed how often it occurs: code first."""
    output = ask_git(
        repository,
        *("grep", "-l", "-z", "-I", "--fixed-strings", "--no-textconv", "--no-color"),
        *("-e", word, commit, "--"),
    )
    now = (path.partition(b":")[2] for path in (output or b"").split(b"\0"))
    # Not --always: a commit that changes no such file is not listed.
    listed = stream_git(
        repository, *_COMMITS, "--no-commit-id", "--name-only", f"-S{word}", lines=hashes
    )
    paths = {*now, *b"".join(listed).split(b"\0")} - {b""}
    kinds = {path: kind_of(escape_path(path)) for path in paths}
    code = [path for path in paths if kinds[path] is not FileKind.DOCS]
    return sorted(code, key=lambda path: (kinds[path] is not FileKind.CODE, path))


def _commits(
    repository: GitRepository, hashes: Sequence[str], paths: Sequence[bytes]
) -> Iterator[_Commit]:
    """The commits that touch some paths, in the order of their hashes."""
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    output = b"".join(
        stream_git(repository, *_COMMITS, "--raw", _FORMAT, "--", *names, lines=hashes)
    )
    fields = iter(output.split(b"\0"))
    next(fields, None)
    while commit := next(fields, b""):
        author, at, subject = (next(fields, b"") for _ in range(3))
        changes = tuple(_changes(takewhile(bool, fields)))
        seconds = min(int(at[:20]), _YEAR_9999) if at.isdigit() else 0
        yield _Commit(
            commit.decode("ascii", "replace"),
            mask(escape_path(author)).text,
            datetime.fromtimestamp(seconds, UTC),
            mask(escape_path(subject)).text,
            changes,
        )


def _changes(fields: Iterator[bytes]) -> Iterator[_FileChange]:
    """From git's ``:MODE MODE BLOB BLOB STATUS``, each followed by a path."""
    for raw in fields:
        old_mode, new_mode, old, new, _ = raw.lstrip(b"\n:").decode("ascii", "replace").split()
        is_file = (mode.startswith("100") for mode in (old_mode, new_mode))
        blobs = [
            blob if is_read else None for blob, is_read in zip((old, new), is_file, strict=True)
        ]
        yield _FileChange(next(fields, b""), *blobs)


def _events(commit: _Commit, versions: _Versions) -> Iterator[SymbolEvent]:
    """The events of a commit; a move within it is a single event."""
    added: list[tuple[SymbolEvent, str]] = []
    removed: list[tuple[SymbolEvent, str]] = []
    event = partial(SymbolEvent, commit.hash, commit.author, commit.at, commit.subject)
    for file in commit.changes:
        old, new = versions.of(file.path, file.old), versions.of(file.path, file.new)
        if old is None or new is None:
            continue
        path = escape_path(file.path)
        removed += [
            (event("removed", path, *gone.place), gone.text)
            for name, gone in old.items()
            if name not in new
        ]
        for name, definition in new.items():
            if name not in old:
                added.append((event("added", path, *definition.place), definition.text))
            elif old[name].text != definition.text:
                yield event("changed", path, *definition.place)
    for new_event, text in added:
        origin = next(
            (gone for gone in removed if gone[0].symbol == new_event.symbol or gone[1] == text),
            None,
        )
        if origin is None:
            yield new_event
            continue
        removed.remove(origin)
        before_move = origin[0]
        is_elsewhere = before_move.path != new_event.path
        former = before_move.path if is_elsewhere else before_move.symbol
        yield replace(new_event, change="moved", former=former)
    yield from (gone for gone, _ in removed)
