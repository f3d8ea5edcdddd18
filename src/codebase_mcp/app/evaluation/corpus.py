"""The files that an index of a tree contains, with their texts.

Texts are read on demand and not kept, as a tree may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codebase_mcp.chunking.lines import normalise_newlines
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.source_tree import SourceTree, read_each, source_tree_at


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
    tree: SourceTree

    @classmethod
    def of(cls, root: Path, selection: Selection) -> Corpus:
        """The files that an index run would list."""
        tree = source_tree_at(root, selection)
        return cls(root, {file.path: file for file in tree.list_files().files}, tree)

    def only(self, paths: Collection[str]) -> Corpus:
        """The corpus restricted to some paths."""
        kept = set(paths)
        return replace(self, files={p: file for p, file in self.files.items() if p in kept})

    def read(self, path: str) -> FileText | None:
        """The text of a file; None if it is not listed or not text."""
        return next(self._texts([self.files[path]] if path in self.files else []), None)

    def texts(self) -> Iterator[FileText]:
        return self._texts([*self.files.values()])

    def _texts(self, files: Sequence[SourceFile]) -> Iterator[FileText]:
        for file, source in read_each(self.tree, files):
            if isinstance(source, SourceText):
                text = normalise_newlines(source.text)
                yield FileText(file.path, text, source.language, source.kind)
