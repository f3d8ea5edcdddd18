"""Which files would an index of this tree contain, and what is their text?

Texts are read on demand and not kept, as a tree may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from codebase_mcp.chunking.lines import normalise_newlines
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.read import SourceText, read_source
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.walk import list_files


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it is indexed: lines end with ``\\n`` alone."""

    path: str
    text: str
    language: str
    kind: FileKind

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        lines = self.text.split("\n")
        return lines[:-1] if not lines[-1] else lines


@dataclass(frozen=True, slots=True)
class Corpus:
    """The listed files of a tree by path."""

    root: Path
    files: Mapping[str, SourceFile]
    max_file_bytes: int

    @classmethod
    def of(cls, root: Path, selection: Selection) -> Corpus:
        """The files that an index run would list."""
        listing = list_files(root, selection)
        return cls(root, {file.path: file for file in listing.files}, selection.max_file_bytes)

    def only(self, paths: Collection[str]) -> Corpus:
        """The corpus restricted to some paths."""
        kept = set(paths)
        return replace(self, files={p: file for p, file in self.files.items() if p in kept})

    def read(self, path: str) -> FileText | None:
        """The text of a file; None if it is not listed or not text."""
        file = self.files.get(path)
        found = None if file is None else read_source(file, max_file_bytes=self.max_file_bytes)
        if not isinstance(found, SourceText):
            return None
        return FileText(path, normalise_newlines(found.text), found.language, found.kind)

    def texts(self) -> Iterator[FileText]:
        """All files, one after the other."""
        for path in self.files:
            if (found := self.read(path)) is not None:
                yield found
