"""Which files does git list below a directory of a work tree? Its output is untrusted."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.source.git import run_git
from codebase_mcp.source.git_directory import GitRepository

_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*)/': ", re.MULTILINE)
# Paths that lead out of the tree or into the git directory. Git refuses to write them to an index,
# but reads a forged one.
_OUTSIDE_TREE = re.compile(rb"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)
_SUBMODULE = b"160000"


@dataclass(slots=True)
class GitFiles:
    """The paths git lists below one directory, as bytes relative to it.

    ``untracked`` excludes ignored files. ``nested`` are directories that are separate repositories,
    ``submodules`` those tracked as such, ``unreadable`` those that git could not open.
    """

    tracked: list[bytes] = field(default_factory=list)
    untracked: list[bytes] = field(default_factory=list)
    nested: list[bytes] = field(default_factory=list)
    submodules: list[bytes] = field(default_factory=list)
    unreadable: list[bytes] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether git lists nothing except submodules."""
        return not (self.tracked or self.untracked or self.nested)


def list_with_git(
    directory: Path, top: Path, paths: Sequence[bytes] | None = None
) -> GitFiles | None:
    """The files that git lists below a directory of the work tree ``top``; None if git failed.

    With ``paths``, files and directories relative to the directory, only these are listed.
    """
    # -t tags each line with its type; without it the name of an untracked file could look like the
    # details of a tracked one.
    answer = run_git(
        directory,
        GitRepository(directory, top / ".git", top),
        *("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--"),
        *map(os.fsdecode, paths or ()),
    )
    if answer is None:
        return None
    output, complaints = answer
    lead = os.fsencode(directory.relative_to(top)) + b"/" if directory != top else b""
    files = GitFiles(
        unreadable=[path.removeprefix(lead) for path in _UNREADABLE.findall(complaints)]
    )
    previous = b""
    for record in output.split(b"\0"):
        tag, _, rest = record.partition(b" ")
        if not tag:
            continue
        details, _, path = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if path == previous or is_outside_tree(path.removesuffix(b"/")):
            continue
        previous = path
        if details.startswith(_SUBMODULE):
            files.submodules.append(path)
        elif details:
            files.tracked.append(path)
        elif path.endswith(b"/"):
            files.nested.append(path[:-1])
        else:
            files.untracked.append(path)
    return files


def is_outside_tree(path: bytes) -> bool:
    """Whether a path leads out of its tree or into a git directory, or has an empty part."""
    return _OUTSIDE_TREE.search(path) is not None
