"""Which part of a tree does a run look at, where not at all of it?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from codebase_mcp.source.survey import shown

# With so many paths, listing the whole tree costs less than asking for them one by one.
MOST_PATHS = 500

# What such a file says concerns other files too.
_RULES = frozenset(
    {".gitignore", ".mcpignore", ".gitattributes", ".gitmodules", ".mcp-context.toml"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """Some paths of a tree: each a file, or a directory with all below it.

    ``folders`` are those that are, or may have been, directories; ``ways`` the directories above
    those that are there, which may have been files.
    """

    paths: frozenset[str]
    folders: frozenset[str]
    ways: frozenset[str] = frozenset()

    @classmethod
    def at(cls, root: Path, paths: Iterable[str]) -> Part:
        """The part as it is on disk; what is not there may have been a directory."""
        named = frozenset(paths)
        folders = frozenset(path for path in named if not (root / path).is_file())
        there = (PurePosixPath(path) for path in named if os.path.lexists(root / path))
        ways = frozenset(str(way) for path in there for way in path.parents)
        return cls(named, folders, ways - {"."})

    @property
    def concerns_others(self) -> bool:
        """Whether only a look at the whole tree tells what follows."""
        if len(self.paths) > MOST_PATHS or not self.paths or "." in self.paths:
            return True
        parts = [path.split("/") for path in self.paths]
        return any(names[-1] in _RULES or ".git" in names for names in parts)

    def parameters(self) -> dict[str, object]:
        """The paths as they are stored."""
        return {
            "paths": [shown(os.fsencode(path)) for path in self.paths | self.ways],
            "folders": [shown(os.fsencode(path)) + "/" for path in self.folders],
        }
