"""Which directories may be read for a caller?

The user who runs the server may name everything that it can read. Other callers may name what lies
below the allowed roots. What the program keeps for itself and what the kernel shows as files are
never read.
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

# The allowed roots of this process. None is ever removed, as that would open what was closed.
_roots: set[Path] = set()


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be read: everything outside of ``closed``, or of it what is below ``roots``.

    All are real paths. ``clones`` lies inside of what is closed, and may be read all the same.
    """

    roots: tuple[Path, ...] | None = None
    closed: tuple[Path, ...] = KERNEL_FOLDERS
    clones: Path | None = None

    def require(self, named: str, place: Path) -> None:
        """See that a place may be read; ``named`` is what the caller calls it.

        Nothing in the error depends on what is there.

        Raises:
            PermissionDenied: it may not.
        """
        if self.roots is not None and not _is_below(place, self.roots):
            raise _not_allowed(named, self.roots)
        is_clone = self.clones is not None and _is_below(place, (self.clones,))
        if _is_below(place, self.closed) and not is_clone:
            raise PermissionDenied(
                f"Repository path is in a folder that is never read: {named}",
                hint="These are /proc, /sys, /dev and the folders of this program's own data.",
                details={"field": "repo_path", "value": named},
            )

    def patterns_at(self, root: Path) -> Patterns:
        """What exactly the closed folders below a root are left out by."""
        inside = [place.relative_to(root) for place in self.closed if root in place.parents]
        return Patterns(root, tuple(f"/{_literal(str(place))}" for place in inside))


EVERYTHING = Reach()


def confine_git(roots: Iterable[Path]) -> None:
    """From now on git's records of a work tree below a root count only if they are below one too.

    This holds in the whole process and for every caller, since freshness checks, searches of
    branches and background runs read a repository for no caller in particular.
    """
    _roots.update(roots)


def real_place(path: str | Path) -> Path:
    """Where a path leads. Only links of the kernel cannot be followed, such as the root of another
    user's process below /proc: these count as the kernel's folder, whatever is behind them.
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
    return all(_is_allowed(place) for place in records)


def has_way_out(records: Iterable[Path]) -> bool:
    """Whether links or alternates in git's records lead out of the allowed roots."""
    records = list(records)
    starts = [real_place(place) for place in (*records, *_object_folders(records))]
    if not all(_is_below(place, _roots) for place in starts):
        return True
    waiting = [str(place) for place in starts]
    unused = {os.path.realpath(place) + "/hooks" for place in records}  # git runs none
    seen: set[str] = set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        links, folders = _inside(here, unused)
        targets = [real_place(link) for link in links]
        if not all(_is_below(target, _roots) for target in targets):
            return True
        waiting += [*folders, *map(str, targets)]
    return False


def _inside(directory: str, unused: set[str]) -> tuple[list[str], list[str]]:
    """The links and the directories in a directory, but some; none in anything else."""
    links, folders = [], []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.path in unused:
                continue
            if entry.is_symlink():
                links.append(entry.path)
            elif entry.is_dir():
                folders.append(entry.path)
    return links, folders


def _object_folders(records: Iterable[Path]) -> list[Path]:
    """Where git looks for objects: in the records, in their alternates, in the alternates' own."""
    found = [place / "objects" for place in records]
    for place in found:  # it grows meanwhile
        found += [other for other in _alternates(place) if other not in found]
    return found


def _alternates(objects: Path) -> list[Path]:
    text = read_ignore_file(os.fsencode(objects / "info" / "alternates"), follow=True) or b""
    named = [line for line in text.split(b"\n") if line and not line.startswith(b"#")]
    # A name in quotes has escapes, and is not worth reading: it counts as one outside.
    return [Path("/") if line.startswith(b'"') else objects / os.fsdecode(line) for line in named]


def _is_allowed(place: Path) -> bool:
    return _is_below(real_place(place), _roots)


def _is_below(place: Path, folders: Iterable[Path]) -> bool:
    return any(place.is_relative_to(folder) for folder in folders)


def _literal(path: str) -> str:
    """A path as a pattern that matches nothing else, but for names that hold a line break."""
    return _SPECIAL.sub(r"\\\g<0>", path).replace("\n", "?")


def _not_allowed(named: str, roots: tuple[Path, ...]) -> PermissionDenied:
    message = f"Repository path is not below an allowed root: {named}"
    hint = f"Allowed: {', '.join(map(str, roots))}. {_HOW_TO_ALLOW}"
    if not roots:
        message = f"No directory may be indexed by this caller, as no root is allowed: {named}"
        hint = _HOW_TO_ALLOW
    return PermissionDenied(message, hint=hint, details={"field": "repo_path", "value": named})
