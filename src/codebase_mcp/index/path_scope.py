"""Which paths of a tree does a partial run cover?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from codebase_mcp.source.listing_builder import escape_path

# With more paths than this, listing the whole tree is cheaper.
MAX_PATHS = 500

# Changes of these files affect other files too.
_RULES = frozenset(
    {".gitignore", ".mcpignore", ".gitattributes", ".gitmodules", ".mcp-context.toml"}
)


@dataclass(frozen=True, slots=True)
class PathScope:
    """Some paths of a tree: each a file, or a directory with all below it.

    ``directories`` are those that are, or may have been, directories. ``ancestors`` are the
    directories above existing paths; the index may still hold them as files.
    """

    paths: frozenset[str]
    directories: frozenset[str]
    ancestors: frozenset[str] = frozenset()

    @classmethod
    def at(cls, root: Path, paths: Iterable[str]) -> PathScope:
        """The scope for paths on disk; a path that is gone may have been a directory."""
        named = frozenset(paths)
        directories = frozenset(path for path in named if not (root / path).is_file())
        existing = (PurePosixPath(path) for path in named if os.path.lexists(root / path))
        ancestors = frozenset(str(parent) for path in existing for parent in path.parents)
        return cls(named, directories, ancestors - {"."})

    @property
    def affects_other_files(self) -> bool:
        """Whether a run over the whole tree is needed."""
        if len(self.paths) > MAX_PATHS or not self.paths or "." in self.paths:
            return True
        parts = [path.split("/") for path in self.paths]
        return any(names[-1] in _RULES or ".git" in names for names in parts)

    def parameters(self) -> dict[str, object]:
        return {
            "paths": [escape_path(os.fsencode(path)) for path in self.paths | self.ancestors],
            "directories": [escape_path(os.fsencode(path)) + "/" for path in self.directories],
        }
