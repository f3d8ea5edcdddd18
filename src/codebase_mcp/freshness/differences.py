"""Which paths of a tree differ from the index?"""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.index.identity import blob_id_of_content
from codebase_mcp.index.plan import StoredFile, make_plan
from codebase_mcp.model import SourceFile
from codebase_mcp.source.read import Content, SourceText
from codebase_mcp.source.source_tree import SourceTree, read_each

# If more files than this have new times, their content is not compared: the index run reads them
# anyway.
MOST_READ = 300


def differences(
    tree: SourceTree, stored: Mapping[str, StoredFile], paths: set[str] | None, generation: int
) -> set[str]:
    """The paths at which a tree differs from the index: all, or among ``paths``."""
    listing = tree.list_files(paths)
    if paths is not None:
        folders = tuple(path + "/" for path in paths)
        stored = {p: f for p, f in stored.items() if p in paths or p.startswith(folders)}
    plan = make_plan(listing, stored)
    differing = set(plan.removed)
    suspects = [f for f in plan.to_read if not _is_as_read(f, stored.get(f.path))]
    for file, content in read_each(tree, suspects[:MOST_READ]):
        if _changes_index(content, stored.get(file.path), generation):
            differing.add(file.path)
    differing.update(file.path for file in suspects[MOST_READ:])
    return differing


def _is_as_read(file: SourceFile, before: StoredFile | None) -> bool:
    """Whether a file that was read shortly after a change has not changed since.

    With a time resolution below one second that is practically certain; and lines of a hit are
    compared with the file before they are shown.
    """
    if before is None or before.mtime_ns or file.ctime_ns % 1_000_000_000 == 0:
        return False
    return (file.size, file.ctime_ns) == (before.size, before.ctime_ns)


def _changes_index(content: Content, before: StoredFile | None, generation: int) -> bool:
    """Whether the index would change if a file with this content were indexed."""
    if isinstance(content, SourceText) and before is not None:
        return before.blob_id != blob_id_of_content(content, generation)
    return isinstance(content, SourceText) or before is not None
