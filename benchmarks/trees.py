"""A tree of real code that has a given number of chunks.

Files are taken in the order of ``corpora.py``, every language in its share; what a fourth of the
folders holds goes into a second repository, so that a search has two to tell apart.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath

from codebase_mcp.source.walk import list_files
from corpora import Source, choose

REPOSITORIES = ("first", "second")

_HASH_COMMENTS = frozenset({".py", ".pyi", ".rb", ".sh", ".yaml", ".yml", ".toml", ".ps1", ".md"})


def sources_below(roots: Iterable[Path]) -> list[Source]:
    """The files that our own listing finds in some trees."""
    return [
        Source(Path(file.location), f"{number}-{root.name}/{file.path}", file.language, file.size)
        for number, root in enumerate(roots)
        for file in list_files(root).files
    ]


class Tree:
    """The files written so far, and those that are still to be had."""

    def __init__(self, root: Path, sources: Sequence[Source]) -> None:
        self.root = root
        self.repositories = tuple(root / name for name in REPOSITORIES)
        self.files: list[Path] = []
        self.written_bytes = 0
        self._left = iter(choose(sources, len(sources)))
        self._edits = 0
        for repository in self.repositories:
            repository.mkdir(parents=True)

    def add(self, more_bytes: float) -> bool:
        """Write so much more, in copies; False where nothing was left to write."""
        until = self.written_bytes + more_bytes
        before = len(self.files)
        while self.written_bytes < until:
            source = next(self._left, None)
            if source is None:
                break
            target = self._place(source.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.location, target)
            self.files.append(target)
            self.written_bytes += source.size
        return len(self.files) > before

    def edit(self, every: int) -> int:
        """Add a line to one file in ``every``, to others each time; returns their number."""
        chosen = self.files[self._edits % every :: every]
        self._edits += 1
        for file in chosen:
            mark = "#" if file.suffix in _HASH_COMMENTS else "//"
            with file.open("a") as stream:
                stream.write(f"\n{mark} edit number {self._edits}\n")
        return len(chosen)

    def _place(self, path: str) -> Path:
        folder = str(PurePosixPath(path).parent)
        is_second = sha256(folder.encode()).digest()[0] % 4 == 3
        return self.repositories[is_second] / path
