"""Which directories may be read for a caller?

The user who runs the server may name everything that it can read. Others only name directories
below the allowed roots. The program's own data and the kernel's virtual file systems are never
read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.errors import PermissionDenied
from codebase_mcp.source.ignore import read_ignore_file
from codebase_mcp.source.selection import Patterns

KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))

_HOW_TO_ALLOW = (
    "The operator of the server allows a directory by --root DIRECTORY, or in CODEBASE_MCP_ROOTS."
)
_SPECIAL = re.compile(r"[\\*?\[\]!# ]")

# The allowed roots of this process. Roots are never removed: git's records of a work tree below a
# removed root could then lie anywhere.
_roots: set[Path] = set()


@dataclass(frozen=True, slots=True)
class Reach:
    """The directories that may be read: below ``roots``, or anywhere; never below ``closed``.

    All are real paths. ``clones`` lies below a closed directory, but may be read.
    """

    roots: tuple[Path, ...] | None = None
    closed: tuple[Path, ...] = KERNEL_FOLDERS
    clones: Path | None = None

    def require(self, named: str, path: Path) -> None:
        """Check that a path may be read, which the caller spelled as ``named``.

        The error does not depend on whether the path exists.

        Raises:
            PermissionDenied: it may not be read.
        """
        if self.roots is not None and not _is_below(path, self.roots):
            raise _not_allowed(named, self.roots)
        is_clone = self.clones is not None and path.is_relative_to(self.clones)
        if _is_below(path, self.closed) and not is_clone:
            raise PermissionDenied(
                f"Repository path is in a folder that is never read: {named}",
                hint="These are /proc, /sys, /dev and the folders of this program's own data.",
                details={"field": "repo_path", "value": named},
            )

    def patterns_at(self, root: Path) -> Patterns:
        """Patterns that match exactly the closed folders below a root."""
        inside = [folder.relative_to(root) for folder in self.closed if root in folder.parents]
        # A pattern cannot hold a line break: ? stands for it.
        names = [_SPECIAL.sub(r"\\\g<0>", str(path)).replace("\n", "?") for path in inside]
        return Patterns(root, tuple(f"/{name}" for name in names))


EVERYTHING = Reach()


def confine_git(roots: Iterable[Path]) -> None:
    """From now on, only use git's records of a work tree below a root if they are below a root too.

    This holds in the whole process and for every caller, since freshness checks, searches of
    branches and background runs read a repository for no caller in particular.
    """
    _roots.update(roots)


def real_path(path: str | Path) -> Path:
    """The path with all links resolved.

    Only links of the kernel cannot be followed, such as the root of another user's process below
    /proc: for these the result is a folder of the kernel.
    """
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return KERNEL_FOLDERS[0]


def is_confined(top: Path) -> bool:
    """Whether a work tree is below an allowed root."""
    return bool(_roots) and _is_below(top, _roots)


def are_allowed(*records: Path) -> bool:
    """Whether git's records are below allowed roots."""
    return all(_is_below(real_path(path), _roots) for path in records)


def has_way_out(records: Iterable[Path]) -> bool:
    """Whether links or alternates in git's records lead out of the allowed roots."""
    records = list(records)
    waiting = [real_path(path) for path in (*records, *_object_folders(records))]
    hooks = {real_path(path) / "hooks" for path in records}  # git runs none
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        if not _is_below(path, _roots):
            return True
        seen.add(path)
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                inner = Path(entry.path)
                if inner not in hooks and (entry.is_symlink() or entry.is_dir()):
                    waiting.append(real_path(inner) if entry.is_symlink() else inner)
    return False


def _object_folders(records: Iterable[Path]) -> list[Path]:
    """Where git looks for objects: in the records, in their alternates, in the alternates' own."""
    folders = [path / "objects" for path in records]
    seen = set(folders)
    for folder in folders:  # the loop also visits the folders that it adds
        text = read_ignore_file(os.fsencode(folder / "info" / "alternates"), follow=True) or b""
        for name in text.split(b"\n"):
            # A name in quotes has escapes, which are not decoded: / is never below an allowed root.
            path = Path("/") if name.startswith(b'"') else folder / os.fsdecode(name)
            if name and not name.startswith(b"#") and path not in seen:
                seen.add(path)
                folders.append(path)
    return folders


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _not_allowed(named: str, roots: tuple[Path, ...]) -> PermissionDenied:
    message = f"Repository path is not below an allowed root: {named}"
    hint = f"Allowed: {', '.join(map(str, roots))}. {_HOW_TO_ALLOW}"
    if not roots:
        message = f"No directory may be indexed by this caller, as no root is allowed: {named}"
        hint = _HOW_TO_ALLOW
    return PermissionDenied(message, hint=hint, details={"field": "repo_path", "value": named})
