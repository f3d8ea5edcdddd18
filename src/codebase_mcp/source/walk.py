"""Which files does a source tree have?

Inside a work tree git lists them; elsewhere the directory is walked with the same ignore rules.
``.mcpignore`` applies to both. Only ignore files are opened.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from codebase_mcp.model import Listing
from codebase_mcp.source.git import LIST_FILES, listed_entries, run_git, standard_excludes
from codebase_mcp.source.git_directory import (
    GitRepository,
    git_directory_around,
    is_git_directory,
    work_tree_of,
)
from codebase_mcp.source.ignore import Chain, IgnoreFiles, parse_rules
from codebase_mcp.source.listing_builder import (
    VERSION_CONTROL,
    DirectoryState,
    DirectoryStates,
    KnownFile,
    ListingBuilder,
    PathFilter,
    escape_path,
    parent_of,
    parents,
    path_prefix,
    with_slash,
)
from codebase_mcp.source.selection import EVERYTHING, Selection

log = logging.getLogger(__name__)

# Directories of package managers and interpreters. Committed files in them are listed (as
# vendored); untracked files in them are not this project's source, even without an ignore file.
INSTALLED = frozenset(
    b"node_modules bower_components jspm_modules site-packages dist-packages __pypackages__"
    b" __pycache__ .tox .nox".split()
)
_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*)/': ", re.MULTILINE)


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


def list_files(
    root: Path,
    selection: Selection = EVERYTHING,
    paths: Iterable[str] | None = None,
    known: Mapping[str, KnownFile] | None = None,
) -> Listing:
    """The files of a tree, sorted by path.

    ``root`` is an existing directory. If an outer work tree ignores it as a whole, it is listed by
    itself. With ``paths``, files or directories relative to the root, only these are listed.
    Of files that were listed before and are as in ``known``, only the paths are.
    """
    if git_directory_around(root):
        return Listing(root, ())
    outer = work_tree_of(root) or root
    path_filter = PathFilter(None if paths is None else map(os.fsencode, paths))
    builder = ListingBuilder(root, selection, outer, path_filter, known=known)
    while builder.pending:
        _list_tree(builder, builder.pending.pop())
    return builder.listing()


def _list_tree(builder: ListingBuilder, tree: bytes) -> None:
    """List a directory by its own rules: the root, or a repository inside."""
    directory = Path(os.fsdecode(builder.location(tree)))
    top = work_tree_of(directory)
    if top is None or (tree and top != directory):
        # In the second case the nested repository has the git directory of another repository.
        _walk(builder, tree, directory, top)
        return
    paths = _paths_for_git(builder, tree)
    files = list_with_git(directory, top, paths)
    if files is None:
        log.warning("Listing %s without git", directory)
        _walk(builder, tree, directory, top)
    elif top != directory and files.is_empty and _is_left_out(directory, top, paths):
        _walk(builder, tree, directory, None)
    else:
        _add_listed(builder, tree, files)


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
    lead = path_prefix(top, directory)
    files = GitFiles(
        unreadable=[path.removeprefix(lead) for path in _UNREADABLE.findall(git.stderr)]
    )
    previous = b""
    for _, details, path in listed_entries(git.stdout):
        if path == previous:
            continue
        previous = path
        if details.startswith(b"160000"):
            files.submodules.append(path)
        elif details:
            files.tracked.append(path)
        elif path.endswith(b"/"):
            files.nested.append(path[:-1])
        else:
            files.untracked.append(path)
    return files


def _paths_for_git(builder: ListingBuilder, tree: bytes) -> list[bytes] | None:
    """The paths to pass to git; for a path inside a nested repository, that repository."""
    paths = builder.path_filter.relative_to(tree)
    if paths is None:
        return None
    start = builder.location(with_slash(tree))
    outermost = set()
    for path in paths:
        folders = reversed([folder for folder in parents(path) if folder])
        nested = (folder for folder in folders if os.path.lexists(start + folder + b"/.git"))
        outermost.add(next(nested, path))
    return sorted(outermost)


def _is_left_out(directory: Path, top: Path, paths: list[bytes] | None) -> bool:
    """Whether git lists no files at all in a directory where it lists none of ``paths``."""
    everything = None if paths is None else list_with_git(directory, top)
    return everything is None or everything.is_empty


def _add_listed(builder: ListingBuilder, tree: bytes, listed: GitFiles) -> None:
    """Add the files that git lists, if they are on disk."""
    lead = with_slash(tree)
    states = DirectoryStates(
        builder,
        is_link=lambda path: os.path.islink(builder.location(path)),  # noqa: PTH114 - no bytes
        is_git_directory=lambda path: is_git_directory(builder.location(path)),
    )
    untracked = [path for path in listed.untracked if not _is_installed(path)]
    if len(untracked) != len(listed.untracked):
        builder.skipped["installed"] += len(listed.untracked) - len(untracked)
    for path_lists in (listed.tracked, untracked):
        for folder, paths in groupby(path_lists, parent_of):
            _add_paths(builder, lead, folder, paths, states)
    for path in listed.nested:
        _add_nested(builder, lead + path, states.of(lead + path))
    for path in listed.submodules:
        _add_submodule(builder, lead + path, states.of(lead + path))
    for path in listed.unreadable:
        builder.add_failure(lead + path, PermissionError())


def _add_nested(builder: ListingBuilder, path: bytes, directory: DirectoryState) -> None:
    if directory is DirectoryState.IGNORED:
        builder.count_skipped("ignored")
    elif _is_installed(path + b"/"):
        builder.count_skipped("installed")
    elif directory is DirectoryState.OPEN and builder.path_filter.may_contain(path):
        builder.pending.append(path)


def _add_submodule(builder: ListingBuilder, path: bytes, directory: DirectoryState) -> None:
    if directory is DirectoryState.IGNORED:
        builder.count_skipped("ignored")
    elif not builder.selection.include_submodules:
        builder.count_skipped("submodule")
    elif directory is DirectoryState.OPEN and is_repository(builder.location(path)):
        builder.pending.append(path)
    else:
        builder.count_skipped("submodule_not_fetched")
        builder.not_fetched.append(escape_path(path))


def _add_paths(
    builder: ListingBuilder,
    lead: bytes,
    folder: bytes,
    paths: Iterable[bytes],
    states: DirectoryStates,
) -> None:
    """Add files of one directory that git lists."""
    directory = states.of((lead + folder).rstrip(b"/"))
    if directory is DirectoryState.ABSENT:
        return
    is_open = directory is DirectoryState.OPEN
    may_ignore = is_open and builder.may_ignore(lead + folder)
    covers = builder.path_filter.covers
    for path in (lead + path for path in paths):
        if not covers(path):
            continue
        if not is_open or (may_ignore and builder.ignores(path, is_dir=False)):
            builder.count_skipped("ignored")
        else:
            _add_entry(builder, path)


def _add_entry(builder: ListingBuilder, path: bytes) -> None:
    try:
        status = os.lstat(builder.location(path))
    except (FileNotFoundError, NotADirectoryError):
        return  # deleted, or outside a sparse checkout
    except OSError as error:
        builder.add_failure(path, error)
        return
    if not stat.S_ISDIR(status.st_mode):
        builder.add(path, status)


class GitRules:
    """All ignore rules for a directory that is listed by its own rules, and everything in it.

    ``top`` is the work tree that it is in and whose rules apply, if any.
    """

    def __init__(
        self, builder: ListingBuilder, tree: bytes, directory: Path, top: Path | None
    ) -> None:
        outer = top or directory
        texts = standard_excludes(directory, top, builder.not_applied)
        excludes: Chain = tuple((0, parse_rules(text)) for text in texts)
        self._rules = IgnoreFiles(
            os.fsencode(outer), b".gitignore", outermost=excludes, read=builder.read_rules
        )
        self._builder = builder
        self._prefix = path_prefix(outer, directory)
        self._lead = len(with_slash(tree))

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether a path relative to the root is ignored; its directory must not be ignored."""
        inner = self._prefix + path[self._lead :]
        is_ignored = self._rules.ignores(inner, is_dir=is_dir)
        return is_ignored or self._builder.ignores(path, is_dir=is_dir)


def _walk(builder: ListingBuilder, tree: bytes, directory: Path, top: Path | None) -> None:
    """Walk a directory with the ignore files that git would apply.

    ``top`` is the work tree that it is in and whose rules apply, if any.
    """
    rules = GitRules(builder, tree, directory, top)
    waiting = [tree]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(builder, folder):
            path = with_slash(folder) + entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            selects = builder.path_filter.may_contain if is_dir else builder.path_filter.covers
            if entry.name in VERSION_CONTROL or not selects(path):
                continue
            if is_dir and entry.name in INSTALLED:
                builder.count_skipped("installed")
            elif rules.ignores(path, is_dir=is_dir):
                builder.count_skipped("ignored")
            elif not is_dir:
                _add_entry(builder, path)
            elif is_repository(entry.path):
                builder.pending.append(path)
            elif is_git_directory(entry.path):
                builder.count_skipped("git_directory")
            else:
                waiting.append(path)


def _entries(builder: ListingBuilder, directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(builder.location(directory)) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        builder.add_failure(directory or b".", error)
        return []


def is_repository(location: bytes) -> bool:
    """Whether a directory is the top of a work tree."""
    if not os.path.lexists(location + b"/.git"):
        return False
    directory = Path(os.fsdecode(location))
    return work_tree_of(directory) == directory


def _is_installed(path: bytes) -> bool:
    return not INSTALLED.isdisjoint(path.split(b"/")[:-1])
