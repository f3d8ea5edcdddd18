"""Which files are there?

Lists a source tree: by git's own knowledge inside a work tree, else by walking the disk under the
same ignore rules; in both under ``.mcpignore``. Nothing is opened here but ignore files. What a
name says about a file is ``classify.py``'s, its content ``read.py``'s.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path

from codebase_mcp.model import Listing
from codebase_mcp.source.extent import Extent, parents
from codebase_mcp.source.git import GitFiles, list_with_git, standard_excludes
from codebase_mcp.source.git_directory import (
    git_directory_around,
    is_git_directory,
    work_tree_of,
)
from codebase_mcp.source.ignore import Chain, IgnoreFiles, parse_rules
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.survey import Survey, way_down

log = logging.getLogger(__name__)

# The records of version control are never source, whether or not they are ignored.
VERSION_CONTROL = frozenset({b".git", b".hg", b".svn", b".bzr", b".jj", b".sl", b".pijul"})
# What package managers and interpreters put there. Committed it is listed (as vendored);
# otherwise it is not this project's source even where nobody wrote an ignore file.
INSTALLED = frozenset(
    b"node_modules bower_components jspm_modules site-packages dist-packages __pypackages__"
    b" __pycache__ .tox .nox".split()
)


def list_files(
    root: Path, selection: Selection = EVERYTHING, paths: Iterable[str] | None = None
) -> Listing:
    """The files of a tree, sorted by path.

    ``root`` is an existing directory. One that an outer work tree ignores as a whole is listed by
    itself, since somebody asked for it. Where only some ``paths`` are asked about, files or
    directories relative to the root, only these are looked at.
    """
    if git_directory_around(root):
        return Listing(root, ())
    outer = work_tree_of(root) or root
    prefix = way_down(outer, root)
    too_large: list[bytes] = []
    own_rules = IgnoreFiles(os.fsencode(outer), b".mcpignore", too_large=too_large)
    extent = Extent() if paths is None else Extent(map(os.fsencode, paths))
    survey = Survey(root, selection, own_rules, prefix, extent, not_applied=too_large)
    while survey.pending:
        _list_tree(survey, survey.pending.pop())
    return survey.listing()


def _list_tree(survey: Survey, tree: bytes) -> None:
    """List a directory by its own rules: the root, or a repository inside."""
    directory = Path(os.fsdecode(survey.at(tree)))
    top = work_tree_of(directory)
    if top is None or (tree and top != directory):
        # The latter git takes for a repository inside, whose records are not its own.
        _walk(survey, tree, directory, top)
        return
    paths = _wanted(survey, tree)
    found = list_with_git(directory, top, paths)
    if found is None:
        log.warning("Listing %s without git", directory)
        _walk(survey, tree, directory, top)
    elif top != directory and found.is_empty and _is_left_out(directory, top, paths):
        _walk(survey, tree, directory, None)
    else:
        _take_listed(survey, tree, found)


def _wanted(survey: Survey, tree: bytes) -> list[bytes] | None:
    """What git is asked about in a tree: of what it takes for a repository inside, that alone."""
    paths = survey.extent.within(tree)
    if paths is None:
        return None
    lead = tree + b"/" if tree else b""
    wanted = set()
    for path in paths:
        ways = reversed([way for way in parents(path) if way])
        inside = (way for way in ways if os.path.lexists(survey.at(lead + way) + b"/.git"))
        wanted.add(next(inside, path))
    return sorted(wanted)


def _is_left_out(directory: Path, top: Path, paths: list[bytes] | None) -> bool:
    """Whether a directory in which git lists nothing of ``paths`` has nothing at all for git."""
    everything = None if paths is None else list_with_git(directory, top)
    return everything is None or everything.is_empty


def _take_listed(survey: Survey, tree: bytes, found: GitFiles) -> None:
    """Sort in what git lists, as far as it is on disk."""
    lead = tree + b"/" if tree else b""
    standing = _Standing(survey)
    for path in found.tracked:
        _take_path(survey, lead + path, standing)
    for path in found.untracked:
        if _is_installed(path):
            survey.skip("installed")
        else:
            _take_path(survey, lead + path, standing)
    for path in found.nested:
        _take_nested(survey, lead + path, standing.of(lead + path))
    for path in found.submodules:
        _take_submodule(survey, lead + path, standing.of(lead + path))
    for path in found.unreadable:
        survey.fail(lead + path, PermissionError())


def _take_nested(survey: Survey, path: bytes, directory: _Directory) -> None:
    if directory is _Directory.IGNORED:
        survey.skip("ignored")
    elif _is_installed(path + b"/"):
        survey.skip("installed")
    elif directory is _Directory.OPEN and survey.extent.leads_on(path):
        survey.pending.append(path)


def _take_submodule(survey: Survey, path: bytes, directory: _Directory) -> None:
    is_wanted = survey.selection.include_submodules
    if directory is _Directory.IGNORED:
        survey.skip("ignored")
    elif is_wanted and directory is _Directory.OPEN and is_repository(survey.at(path)):
        survey.pending.append(path)
    else:
        survey.skip("submodule")


def _take_path(survey: Survey, path: bytes, standing: _Standing) -> None:
    directory = standing.of(_parent(path))
    if directory is _Directory.ABSENT or not survey.extent.covers(path):
        return
    if directory is _Directory.IGNORED or survey.ignores(path, is_dir=False):
        survey.skip("ignored")
        return
    try:
        status = os.lstat(survey.at(path))
    except (FileNotFoundError, NotADirectoryError):
        return  # deleted, or outside a sparse checkout
    except OSError as error:
        survey.fail(path, error)
        return
    if not stat.S_ISDIR(status.st_mode):
        survey.take(path, status)


class _Directory(Enum):
    """How a directory that git names stands on disk."""

    OPEN = auto()
    IGNORED = auto()  # by .mcpignore
    ABSENT = auto()  # a link took its place, or it holds the records of a version control


class _Standing:
    """How each directory stands, found once from the root down."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._known = {b"": _Directory.OPEN}

    def of(self, directory: bytes) -> _Directory:
        unknown = []
        while (standing := self._known.get(directory)) is None:
            unknown.append(directory)
            directory = _parent(directory)
        for below in reversed(unknown):
            if standing is _Directory.OPEN:
                standing = self._look_at(below)
            self._known[below] = standing
        return standing

    def _look_at(self, directory: bytes) -> _Directory:
        if directory[directory.rfind(b"/") + 1 :] in VERSION_CONTROL:
            return _Directory.ABSENT
        if os.path.islink(self._survey.at(directory)):  # noqa: PTH114 - Path has no bytes
            return _Directory.ABSENT
        if self._survey.ignores(directory, is_dir=True):
            return _Directory.IGNORED
        if is_git_directory(self._survey.at(directory)):
            self._survey.skip("git_directory")
            return _Directory.ABSENT
        return _Directory.OPEN


def _walk(survey: Survey, tree: bytes, directory: Path, top: Path | None) -> None:
    """List a directory from the disk, under the ignore files that git would apply.

    ``top`` is the work tree that it lies in and whose rules apply, if any.
    """
    outer = top or directory
    prefix = way_down(outer, directory)
    too_large = survey.not_applied
    texts = standard_excludes(directory, top, too_large)
    excludes: Chain = tuple((0, parse_rules(text)) for text in texts)
    rules = IgnoreFiles(os.fsencode(outer), b".gitignore", outermost=excludes, too_large=too_large)
    lead = len(tree) + 1 if tree else 0
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        for entry in _entries(survey, here):
            path = b"%s/%s" % (here, entry.name) if here else entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            inner = prefix + path[lead:]
            is_wanted = survey.extent.leads_on if is_dir else survey.extent.covers
            if entry.name in VERSION_CONTROL or not is_wanted(path):
                continue
            if is_dir and entry.name in INSTALLED:
                survey.skip("installed")
            elif rules.ignores(inner, is_dir=is_dir) or survey.ignores(path, is_dir=is_dir):
                survey.skip("ignored")
            elif not is_dir:
                _take_entry(survey, path, entry)
            elif is_repository(entry.path):
                survey.pending.append(path)
            elif is_git_directory(entry.path):
                survey.skip("git_directory")
            else:
                waiting.append(path)


def _entries(survey: Survey, directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(survey.at(directory)) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        survey.fail(directory or b".", error)
        return []


def _take_entry(survey: Survey, path: bytes, entry: os.DirEntry[bytes]) -> None:
    try:
        survey.take(path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return
    except OSError as error:
        survey.fail(path, error)


def is_repository(location: bytes) -> bool:
    """Whether a directory is the top of a work tree."""
    if not os.path.lexists(location + b"/.git"):
        return False
    directory = Path(os.fsdecode(location))
    return work_tree_of(directory) == directory


def _is_installed(path: bytes) -> bool:
    return not INSTALLED.isdisjoint(path.split(b"/")[:-1])


def _parent(path: bytes) -> bytes:
    return path[: max(path.rfind(b"/"), 0)]
