"""Which part of a tree is asked about: all of it, or some paths? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Extent:
    """Some paths of a tree, files or directories with all below them; None is the whole tree.

    Paths are bytes relative to the root; ``b""`` is the root itself.
    """

    def __init__(self, paths: Iterable[bytes] | None = None) -> None:
        self._paths = None if paths is None else frozenset(paths)
        self._ways = frozenset(way for path in self._paths or () for way in parents(path))

    def covers(self, path: bytes) -> bool:
        """Whether the path is among those asked about, or below one of them."""
        if self._paths is None or path in self._paths:
            return True
        return any(parent in self._paths for parent in parents(path))

    def leads_on(self, directory: bytes) -> bool:
        """Whether the directory is covered, or on the way to what is."""
        return directory in self._ways or self.covers(directory)

    def within(self, tree: bytes) -> list[bytes] | None:
        """The paths asked about below a directory, relative to it; None if it is covered."""
        if self._paths is None or self.covers(tree):
            return None
        lead = tree + b"/" if tree else b""
        return sorted(path.removeprefix(lead) for path in self._paths if path.startswith(lead))


def parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the innermost first; last the root, which is empty."""
    while path:
        path = path[: max(path.rfind(b"/"), 0)]
        yield path
