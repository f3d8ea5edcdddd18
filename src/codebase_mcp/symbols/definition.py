"""Definitions and uses of names, and the definitions that a use may mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import NamedTuple

from codebase_mcp.model import ITEM, KINDS, FileKind, Reference, ReferenceKind, Symbol
from codebase_mcp.values import grouped

# Kinds of definitions that no file uses by name.
PROSE_KINDS = frozenset({"section", "key", "selector", "entry", ITEM})
TYPE_KINDS = frozenset(
    {"class", "struct", "interface", "trait", "enum", "type", "extension", "module"}
)
CALLABLE_KINDS = TYPE_KINDS | {"function", "method", "macro"}

CALLS = frozenset({ReferenceKind.CALL, ReferenceKind.NEW})

# Code is for the product, unless it is in a folder of this name.
_ASIDE = re.compile(
    r"(?:^|/)(?:bench(?:es|marks?)?|demos?|examples?|samples?|tutorials?)/", re.IGNORECASE
)
_RANKS: dict[str, int] = {kind: rank for rank, kind in enumerate(KINDS)}

DefinitionKey = tuple[int, str, int, str]
"""Identifies a definition: its snapshot, path, first line and qualified name."""


class File(NamedTuple):
    """A file of a snapshot, with its text."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    kind: str

    @property
    def is_test(self) -> bool:
        return self.kind == FileKind.TEST

    @property
    def rank(self) -> float:
        """Its place in the order of kinds: code first, and before tests examples and the like."""
        rank = _RANKS[self.kind]
        is_aside = self.kind == FileKind.CODE and _ASIDE.search(self.path)
        return _RANKS[FileKind.TEST] - 0.5 if is_aside else rank


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a name in a file; see `model.Reference`."""

    file: File
    line: int
    name: str
    kind: ReferenceKind
    receiver: str
    module: str
    alias: str


@dataclass(frozen=True)
class Surroundings:
    """The imports and base classes of a text."""

    imports: tuple[Reference, ...] = ()
    inherits: tuple[Reference, ...] = ()

    @cached_property
    def local(self) -> Mapping[str, Sequence[Reference]]:
        """The imports that each name in the text may stand for."""
        return grouped((reference.alias or reference.name, reference) for reference in self.imports)

    @cached_property
    def modules(self) -> frozenset[str]:
        """The modules that are imported, or something of them."""
        return frozenset(reference.module for reference in self.imports)


@dataclass(frozen=True, slots=True)
class Definition(Symbol):
    """A definition with its file.

    ``container`` is the qualified name of the enclosing definition, empty at the top of a file, and
    ``holder`` the last part of that.
    """

    file: File
    container: str = field(init=False, compare=False)
    holder: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        container = self.qualified[: -len(self.name)].rstrip(".")
        object.__setattr__(self, "container", container)
        object.__setattr__(self, "holder", container.rpartition(".")[2])

    @classmethod
    def of(cls, file: File, symbol: Symbol) -> Definition:
        return cls(**asdict(symbol), file=file)

    @property
    def is_type(self) -> bool:
        return self.kind in TYPE_KINDS

    @property
    def key(self) -> DefinitionKey:
        return self.file.snapshot_id, self.file.path, self.start_line, self.qualified


@dataclass(frozen=True, slots=True)
class Candidate:
    """A definition that a use may mean: how likely (0 to 1), and why."""

    definition: Definition
    confidence: float
    reason: str

    def at_most(self, confidence: float, reason: str) -> Candidate:
        """The same definition for another reason, no surer than ``confidence``."""
        return Candidate(self.definition, min(self.confidence, confidence), reason)


@dataclass(frozen=True, slots=True)
class ResolvedUse:
    """A use, the definitions around it, the outermost first, and what it may mean, best first.

    ``is_open`` if no rule finds a definition or shows that it belongs to something else.
    """

    use: Use
    around: tuple[Symbol, ...]
    candidates: tuple[Candidate, ...]
    is_open: bool = False

    def with_meaning(self, candidate: Candidate) -> FoundUse:
        """The use with one of its candidates as its meaning."""
        return FoundUse(
            self.use, self.around, candidate.definition, candidate.confidence, candidate.reason
        )


@dataclass(frozen=True, slots=True)
class FoundUse:
    """A use, the definitions around it, and the definition that it most likely means, if any."""

    use: Use
    around: tuple[Symbol, ...]
    definition: Definition | None
    confidence: float
    reason: str

    @property
    def enclosing(self) -> str | None:
        """The qualified name of the innermost definition around it."""
        return self.around[-1].qualified if self.around else None
