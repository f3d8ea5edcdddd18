"""Which files does git list in a work tree? Its output is untrusted."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.source.git import run_git
from codebase_mcp.source.git_directory import GitRepository

log = logging.getLogger(__name__)

# What lists the entries of the index and untracked files. -t tags each line with its type; without
# it the name of an untracked file could look like the details of a tracked file.
LIST_FILES = ("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--")

_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*)/': ", re.MULTILINE)
# Paths that lead out of the tree or into the git directory. Git refuses to write them to an index,
# but reads a forged index.
_OUTSIDE_TREE = re.compile(rb"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)
_SUBMODULE = b"160000"


@dataclass(slots=True)
class GitFiles:
    """The paths git lists below a directory, as bytes relative to it.

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
    repository = GitRepository(directory, top)
    git = run_git(directory, repository, *LIST_FILES, *map(os.fsdecode, paths or ()))
    if git is None:
        return None
    if git.returncode != 0:
        message = git.stderr.decode("utf-8", "backslashreplace").strip()
        log.warning("git ls-files failed in %s: %s", directory, message)
        return None
    lead = os.fsencode(directory.relative_to(top)) + b"/" if directory != top else b""
    files = GitFiles(
        unreadable=[path.removeprefix(lead) for path in _UNREADABLE.findall(git.stderr)]
    )
    previous = b""
    for _, details, path in listed_entries(git.stdout):
        if path == previous:
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


def listed_entries(output: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The type, details and path of each entry in the output of ``LIST_FILES``.

    The details are mode, hash and stage; empty for untracked files. The path of a directory, which
    is a repository of its own, ends with a slash. Paths that lead out of the tree are left out.
    """
    for record in output.split(b"\0"):
        tag, _, rest = record.partition(b" ")
        details, _, path = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if tag and not is_outside_tree(path.removesuffix(b"/")):
            yield tag, details, path


def is_outside_tree(path: bytes) -> bool:
    """Whether a path leads out of its tree or into a git directory, or has an empty part."""
    return _OUTSIDE_TREE.search(path) is not None
