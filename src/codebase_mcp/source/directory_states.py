"""Which of the directories that git lists does a listing leave out as a whole?"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from codebase_mcp.source.listing_builder import ListingBuilder

# Metadata of version control is never source, ignored or not.
VERSION_CONTROL = frozenset({b".git", b".hg", b".svn", b".bzr", b".jj", b".sl", b".pijul"})

Test = Callable[[bytes], bool]


class DirectoryState(Enum):
    """The state of a directory that git lists."""

    OPEN = auto()
    IGNORED = auto()  # by .mcpignore
    ABSENT = auto()  # replaced by a link, or metadata of version control


class DirectoryStates:
    """The state of each directory, determined once from the root down.

    The two tests take a path relative to the root.
    """

    def __init__(self, builder: ListingBuilder, *, is_link: Test, is_git_directory: Test) -> None:
        self._builder = builder
        self._is_link = is_link
        self._is_git_directory = is_git_directory
        self._known = {b"": DirectoryState.OPEN}

    def of(self, directory: bytes) -> DirectoryState:
        """The state of a directory, relative to the root."""
        unknown = []
        while (state := self._known.get(directory)) is None:
            unknown.append(directory)
            directory = parent_of(directory)
        for below in reversed(unknown):
            if state is DirectoryState.OPEN:
                state = self._look_at(below)
            self._known[below] = state
        return state

    def _look_at(self, directory: bytes) -> DirectoryState:
        if directory[directory.rfind(b"/") + 1 :] in VERSION_CONTROL or self._is_link(directory):
            return DirectoryState.ABSENT
        if self._builder.ignores(directory, is_dir=True):
            return DirectoryState.IGNORED
        if self._is_git_directory(directory):
            self._builder.count_skipped("git_directory")
            return DirectoryState.ABSENT
        return DirectoryState.OPEN


def parent_of(path: bytes) -> bytes:
    """The directory of a path; the root is ``b""``."""
    return path[: max(path.rfind(b"/"), 0)]
