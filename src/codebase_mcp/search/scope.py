"""Which snapshots and files are searched, and how rare are the terms there?"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.nearest import sealed_times
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.search.query import Query, inverse_frequencies
from codebase_mcp.text.tokens import ALL_CHUNKS

if TYPE_CHECKING:
    from codebase_mcp.search.segments import Segments

_SQL = load_queries("codebase_mcp.search", "search.sql")

# If at most this many texts pass the filters, the statements get a list of them. Otherwise they
# test each chunk they read.
FEW_TEXTS = 1_000

# Special parts of a directory's pattern. A name in braces without a comma is itself.
_ONE_OF = re.compile(r"\{[^{}]*,[^{}]*\}")
_DIRECTORY_PIECES = re.compile(rf"(\*\*/|\*\*|\*|{_ONE_OF.pattern})")

# The same for the stored texts that are not searched.
_MOST_HIDDEN = 500

# How many vectors the vector index compares: with 300 it finds 98.0 % of the 10 nearest of 42,710
# chunks, with 500 it finds 98.4 % and takes half as long again. If filters exclude most of them,
# the search of the index goes on, up to the second number.
_PREPARATION = {"searched": "300", "most": "50000", "most_hidden": _MOST_HIDDEN + 1}


@dataclass(frozen=True, slots=True)
class FileFilters:
    """Conditions that a file must meet to be searched; None allows everything.

    ``directory`` is relative to the repository's root and may hold ``*``, ``**`` and ``{a,b}``;
    extensions and languages are in lower case, extensions without a dot; kinds are those of
    `FileKind`.
    """

    repository_id: UUID | None = None
    extensions: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    directory: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether they exclude any file."""
        return self != FileFilters()

    def test(self) -> Callable[[UUID, str, str, str, str], bool]:
        """A function that tests a file's repository, path, extension, language and kind."""
        is_below = directory_matcher(self.directory) if self.directory else None

        def passes(
            repository_id: UUID, path: str, extension: str, language: str, kind: str
        ) -> bool:
            return (
                (self.repository_id is None or repository_id == self.repository_id)
                and (not self.extensions or extension in self.extensions)
                and (not self.languages or language in self.languages)
                and (not self.kinds or kind in self.kinds)
                and (is_below is None or is_below(path))
            )

        return passes

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements, without the repository."""
        return {
            "extensions": list(self.extensions) if self.extensions else None,
            "languages": list(self.languages) if self.languages else None,
            "kinds": list(self.kinds) if self.kinds else None,
            "directory": directory_pattern(self.directory) if self.directory else None,
            **directory_bounds(self.directory),
        }


ScopeVersion = tuple[tuple[int, UUID], ...]
"""Some snapshots, each with the version of its files."""


@dataclass(frozen=True, slots=True)
class ScopedSnapshot:
    """A snapshot to search, with the state of its index.

    ``view`` is ``worktree`` or a commit; ``version`` changes when the files of the snapshot change.
    """

    profile: Profile
    version: UUID
    view: str
    id: int
    repository_id: UUID
    root: str
    name: str
    median_depth: float
    files_pending: int
    files_failed: int
    skipped: str
    indexed_at: datetime | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> ScopedSnapshot:
        """From the columns of the statement ``scope``."""
        return cls(Profile.from_row(row[11:]), *row[:11])


def version_of(snapshots: Iterable[ScopedSnapshot]) -> ScopeVersion:
    """The state of some snapshots."""
    return tuple((snapshot.id, snapshot.version) for snapshot in snapshots)


InMemory = Callable[[Transaction, Sequence[ScopedSnapshot]], Awaitable["Segments | None"]]
"""What is in memory of some snapshots in the state that a transaction sees."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector by a model."""

    profile: Profile
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Scope:
    """The snapshots to search, the texts that pass the filters, and how rare the terms are.

    ``unfiltered`` are the snapshots that a search without filters reads. ``is_default`` means that
    the caller chose no snapshots.
    ``frequencies`` gives the number of chunks with each term of the query and each expansion term;
    ``expansion`` gives the weights of the expansion terms.

    ``is_narrow`` means that some stored texts are not searched. Then ``texts`` are the ids of the
    texts that pass, or None if they are too many. Otherwise ``hidden`` are the few stored texts
    that are not searched. Both are arrays in text form.

    ``sealed`` gives, for each profile, the time up to which its vectors are in the vector index.
    ``secondary`` is the profile of the secondary model, if the project has one and it was asked
    for. ``memory`` is a copy of the state of the snapshots, if there is one; ``texts``, ``hidden``
    and ``sealed`` are then not needed.
    """

    unfiltered: tuple[ScopedSnapshot, ...]
    filters: FileFilters
    is_default: bool
    is_narrow: bool
    frequencies: Mapping[int, int]
    expansion: Mapping[int, float]
    texts: str | None = None
    hidden: str = "{}"
    sealed: Mapping[int, int] = field(default_factory=dict)
    secondary: Profile | None = None
    memory: Segments | None = None

    @property
    def snapshots(self) -> tuple[ScopedSnapshot, ...]:
        """The snapshots that pass the filters."""
        only = self.filters.repository_id
        if only is None:
            return self.unfiltered
        return tuple(snapshot for snapshot in self.unfiltered if snapshot.repository_id == only)

    @property
    def version(self) -> ScopeVersion:
        """The state of the snapshots."""
        return version_of(self.unfiltered)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The distinct profiles of the snapshots; several if the model was changed."""
        return tuple({s.profile.id: s.profile for s in self.snapshots}.values())

    def expansion_weights(self) -> dict[int, float]:
        """Each expansion term's weight times its inverse document frequency."""
        frequencies = inverse_frequencies(self.expansion, self.frequencies)
        return {term: self.expansion[term] * idf for term, idf in frequencies.items()}

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements."""
        return {
            "snapshots": array_literal(snapshot.id for snapshot in self.snapshots),
            "all_snapshots": array_literal(snapshot.id for snapshot in self.unfiltered),
            "hidden": self.hidden,
            "narrow": self.is_narrow,
            **self.filters.parameters(),
        }


async def load_scope(
    tx: Transaction,
    query: Query,
    expansion: Mapping[int, float],
    filters: FileFilters,
    snapshot_ids: Sequence[int] | None = None,
    *,
    with_secondary: bool = False,
    memory_of: InMemory | None = None,
) -> Scope:
    """The snapshots to search, and the statistics for choosing and scoring candidates.

    ``snapshot_ids`` are searched instead of the default; ``memory_of`` returns what is in memory of
    the snapshots in their state, if anything is.
    """
    is_default = snapshot_ids is None
    terms = counted_terms(query, expansion)
    ids = {"ids": None if snapshot_ids is None else array_literal(snapshot_ids)}
    if memory_of is not None:
        snapshots = _snapshots(await tx.fetch_all(_SQL["scope"], **ids))
        if (memory := await memory_of(tx, snapshots)) is not None:
            frequencies = memory.frequencies(terms)
            return Scope(
                snapshots, filters, is_default, filters.narrow, frequencies, expansion,
                memory=memory,
            )  # fmt: skip
    statements: dict[str, Statement] = {
        "scope": (_SQL["scope"], ids),
        "frequencies": frequencies_statement(terms, snapshot_ids),
    }
    if filters.narrow or not is_default:
        # Its plan depends on the filters, so it runs before "prepare" forces generic plans.
        bound = filters.parameters() | ids | {"most": FEW_TEXTS + 1}
        statements["texts"] = _SQL["scope_texts"], bound | {"repository_id": filters.repository_id}
    if with_secondary:
        statements["secondary"] = _SQL["secondary_profile"], {}
    statements["prepare"] = _SQL["prepare"], _PREPARATION
    rows = await fetch_named(tx, statements)
    texts = None
    if "texts" in rows and len(rows["texts"]) <= FEW_TEXTS:
        texts = array_literal({blob_id for (blob_id,) in rows["texts"]})
    secondary = [Profile.from_row(row) for row in rows.get("secondary", ())]
    [(*_, vector_indexes, hidden)] = rows["prepare"]
    has_many_hidden = len(hidden) > _MOST_HIDDEN
    return Scope(
        unfiltered=_snapshots(rows["scope"]),
        filters=filters,
        is_default=is_default,
        is_narrow=filters.narrow or not is_default or has_many_hidden,
        frequencies=dict(rows["frequencies"]),
        expansion=expansion,
        texts=texts,
        hidden=array_literal(hidden) if is_default and not has_many_hidden else "{}",
        sealed=sealed_times(vector_indexes),
        secondary=secondary[0] if secondary else None,
    )


async def fetch_named(tx: Transaction, statements: Mapping[str, Statement]) -> dict[str, list[Row]]:
    """Run some statements in one round trip; the rows of each, by the statement's name."""
    rows = await tx.fetch_many(list(statements.values()))
    return dict(zip(statements, rows, strict=True))


async def load_snapshots(
    tx: Transaction, ids: Collection[int] | None
) -> tuple[ScopedSnapshot, ...]:
    """Some snapshots, or those that are searched by default: of the files on disk."""
    array = None if ids is None else array_literal(ids)
    return _snapshots(await tx.fetch_all(_SQL["scope"], ids=array))


def _snapshots(rows: Sequence[Row]) -> tuple[ScopedSnapshot, ...]:
    return tuple(map(ScopedSnapshot.from_row, rows))


def counted_terms(query: Query, expansion: Mapping[int, float]) -> list[int]:
    """The terms whose frequencies a search needs."""
    return [ALL_CHUNKS, *(term.id for term in query.terms), *expansion]


async def load_frequencies(tx: Transaction, terms: Iterable[int], scope: Scope) -> dict[int, int]:
    """The number of searched chunks with each term; without the terms that no chunk has."""
    if scope.memory is not None:
        return scope.memory.frequencies(list(terms))
    ids = None if scope.is_default else [snapshot.id for snapshot in scope.unfiltered]
    query, parameters = frequencies_statement(terms, ids)
    return dict(await tx.fetch_all(query, **parameters))


def frequencies_statement(terms: Iterable[int], snapshot_ids: Sequence[int] | None) -> Statement:
    """The statement that counts the chunks with each term, in some snapshots or by default."""
    parameters = {"terms": array_literal(terms)}
    if snapshot_ids is None:
        return _SQL["frequencies"], parameters
    return _SQL["view_frequencies"], parameters | {"ids": array_literal(snapshot_ids)}


def directory_matcher(directory: str) -> Callable[[str], bool]:
    """A test whether a path is at or below a directory, in a time linear in its length.

    It uses the regular expressions of Rust, which pydantic includes. Python's backtrack: a pattern
    with ten times ``**/`` would occupy the server for hours.
    """
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415 - for filters alone

    pattern = "(?s)" + directory_pattern(directory)
    return SchemaValidator(
        core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    ).isinstance_python


def directory_pattern(directory: str) -> str:
    """A regular expression for paths at or below a directory, with ``*``, ``**`` and ``{a,b}``.

    They mean what they do in a shell. Not for Python's engine, which backtracks; PostgreSQL's
    engine does not.
    """
    return f"^{_pattern(directory)}(?:/|$)"


def _pattern(directory: str) -> str:
    regex: list[str] = []
    collapsed = re.sub(r"(\*\*/){2,}", "**/", directory.strip("/"))
    for piece in filter(None, _DIRECTORY_PIECES.split(collapsed)):
        match piece:
            case "**" | "*" if regex[-1:] == [".*"]:
                pass  # nothing more; PostgreSQL needs a second for hundreds in a row
            case "**/":
                regex.append("(?:.*/)?")
            case "**":
                regex.append(".*")
            case "*":
                regex.append("[^/]*")
            case _ if _ONE_OF.fullmatch(piece):
                regex.append(f"(?:{'|'.join(map(_pattern, piece[1:-1].split(',')))})")
            case _:
                regex.append(re.escape(piece))
    return "".join(regex)


def directory_bounds(directory: str | None) -> dict[str, str | None]:
    """Cheap conditions that every path at or below a directory meets.

    Compared by bytes it is not before ``first``, but before ``beyond``, and it is LIKE ``piece``.
    Both cost a fraction of what the regular expression does.
    """
    if directory is None:
        return dict.fromkeys(("first", "beyond", "piece"))
    pieces = re.split(rf"\*|{_ONE_OF.pattern}", directory.strip("/"))
    longest = max(pieces, key=len).strip("/")
    piece = "%" + re.sub(r"([\\%_])", r"\\\1", longest) + "%"
    end = pieces[0].rstrip(chr(0x10FFFF))
    if not end:
        return {"first": None, "beyond": None, "piece": piece}
    following = ord(end[-1]) + 1
    if 0xD800 <= following < 0xE000:  # no text holds a surrogate
        following = 0xE000
    return {"first": pieces[0], "beyond": end[:-1] + chr(following), "piece": piece}
