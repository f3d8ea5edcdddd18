"""Which files are searched?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from codebase_mcp.search.directories import directory_bounds, directory_pattern


@dataclass(frozen=True, slots=True)
class FileFilters:
    """What a file must be to be searched; None allows everything.

    ``directory`` is relative to the repository's root and may hold ``*`` and ``**``; extensions
    and languages are in lower case, extensions without a dot; kinds are those of `FileKind`.
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

    def parameters(self) -> dict[str, Any]:
        """All but the repository as parameters of the statements."""
        return {
            "extensions": list(self.extensions) if self.extensions else None,
            "languages": list(self.languages) if self.languages else None,
            "kinds": list(self.kinds) if self.kinds else None,
            "directory": directory_pattern(self.directory) if self.directory else None,
            **directory_bounds(self.directory),
        }
