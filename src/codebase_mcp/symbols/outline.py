"""What is defined in this file, or in the files of this directory?"""

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
    """The files at or below a path that define something, and the ``others``.

    ``is_cut`` says that there are more than were looked at.
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
    is_file = all(one.path.endswith(path) for one in files) and path != ""
    definitions = await load_outlines(
        tx, {one.blob_id for one in files}, deepest=_ALL if is_file else 0
    )
    found = [FileOutline(one, tuple(definitions.get(one.blob_id, ()))) for one in files]
    shown = [one for one in found if one.definitions or is_file]
    others = [] if is_file else [one.file for one in found if not one.definitions]
    return TreeOutline(path, tuple(shown), tuple(others), len(files) >= MOST_FILES)
