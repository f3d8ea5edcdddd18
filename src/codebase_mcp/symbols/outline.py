"""The outline of a file, or of the files of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import Symbol
from codebase_mcp.symbols.lookup import file_at
from codebase_mcp.symbols.storage import MOST_FILES, File, load_outlines

_ALL = 100


@dataclass(frozen=True, slots=True)
class FileOutline:
    """The definitions of a file, by line; of a file in a directory those at its top."""

    file: File
    definitions: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class TreeOutline:
    """The files at or below a path with definitions, and the rest (``others``).

    ``is_cut`` says that the directory has more files than were read.
    """

    path: str
    files: tuple[FileOutline, ...]
    others: tuple[File, ...]
    is_cut: bool


async def outline_of(tx: Transaction, path: str, snapshot_ids: Sequence[int]) -> TreeOutline:
    """The outline of a file, or of a directory.

    Raises:
        NotFound: no such file or directory is indexed.
    """
    files = await file_at(tx, path, snapshot_ids)
    is_file = all(file.path.endswith(path) for file in files) and path != ""
    definitions = await load_outlines(
        tx, {file.blob_id for file in files}, deepest=_ALL if is_file else 0
    )
    outlines = [FileOutline(file, tuple(definitions.get(file.blob_id, ()))) for file in files]
    shown = [outline for outline in outlines if outline.definitions or is_file]
    others = [] if is_file else [outline.file for outline in outlines if not outline.definitions]
    return TreeOutline(path, tuple(shown), tuple(others), len(files) >= MOST_FILES)
