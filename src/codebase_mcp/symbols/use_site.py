"""A use of a name, with what surrounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.model import Reference, Symbol
from codebase_mcp.symbols.candidates import Candidates
from codebase_mcp.symbols.declared import DeclaredType
from codebase_mcp.symbols.definition import Definition, Surroundings, Use
from codebase_mcp.symbols.imports import Fit
from codebase_mcp.symbols.languages import Language
from codebase_mcp.symbols.packages import PackageNames


@dataclass(frozen=True, slots=True)
class UseSite:
    """A use with the imports and definitions around it."""

    use: Use
    around: tuple[Symbol, ...]
    surroundings: Surroundings
    rules: Language
    imported: tuple[Reference, ...]
    packages: PackageNames
    declared: tuple[DeclaredType, ...] = ()
    """The types that the receiver may have."""

    def near(self, module: str, candidates: Candidates) -> list[tuple[Fit, Definition]]:
        """The candidates that a module may mean, with how well each fits."""
        language, path, fit = self.use.file.language, self.use.file.path, self.packages.fit
        near = candidates.near(module, language, self.packages.words)
        return [
            (fit(language, path, module, definition.file.path), definition) for definition in near
        ]

    def local(self, name: str) -> Sequence[Reference]:
        """The imports that a name in this file may stand for."""
        return self.surroundings.local.get(name, ())
