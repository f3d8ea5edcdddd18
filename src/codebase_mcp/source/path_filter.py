"""Which paths of a tree are listed: all, or some? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class PathFilter:
    """Selects some paths of a tree, directories with everything below; None selects all.

    Paths are bytes relative to the root; ``b""`` is the root itself.
    """

    def __init__(self, paths: Iterable[bytes] | None = None) -> None:
        self._paths = None if paths is None else frozenset(paths)
        self._ways = frozenset(way for path in self._paths or () for way in parents(path))

    def covers(self, path: bytes) -> bool:
        """Whether the path is selected, or below a selected one."""
        if self._paths is None or path in self._paths:
            return True
        return any(parent in self._paths for parent in parents(path))

    def may_contain(self, directory: bytes) -> bool:
        """Whether the directory is covered, or above a selected path."""
        return directory in self._ways or self.covers(directory)

    def relative_to(self, tree: bytes) -> list[bytes] | None:
        """The selected paths below a directory, relative to it; None if it is covered."""
        if self._paths is None or self.covers(tree):
            return None
        lead = tree + b"/" if tree else b""
        return sorted(path.removeprefix(lead) for path in self._paths if path.startswith(lead))


def parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the innermost first; the last is the root, ``b""``."""
    while path:
        path = path[: max(path.rfind(b"/"), 0)]
        yield path
