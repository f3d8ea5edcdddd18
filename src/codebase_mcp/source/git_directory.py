"""Where is the git directory of a work tree, and does it belong to that work tree?

git itself is not asked: its search also accepts a directory that only looks like a bare repository.
``.git`` is untrusted input: if it points to the git directory of another repository, the commits
and file names of that repository would get into our index.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.source.open_file import (
    is_below,
    is_pipe_or_device,
    is_real_directory,
    read_ignore_file,
    real_path,
)

log = logging.getLogger(__name__)

# Files of the git directory that git always opens; it would block on a pipe.
_ALWAYS_OPENED = (
    *("HEAD", "index", "config", "config.worktree", "commondir", "packed-refs", "shallow"),
    *("info/exclude", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
    *("info/attributes", ".gitattributes"),
)
_CORE = re.compile(
    rb"^[ \t]*\[core\](.*?)(?=^[ \t]*\[|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_WORK_TREE = re.compile(
    rb"^[ \t]*worktree[ \t]*=[ \t]*(.*?)[ \t\r]*$", re.MULTILINE | re.IGNORECASE
)

# The allowed roots of this process. Roots are never removed: git's records of a work tree below a
# removed root could then lie anywhere.
_roots: set[Path] = set()


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A directory, and the git repository that it belongs to.

    ``work_tree`` is the top of the work tree that contains ``root``; None if ``root`` is a bare
    repository.
    """

    root: Path
    work_tree: Path | None

    @property
    def git_dir(self) -> Path:
        """The argument for ``--git-dir``: a ``.git`` file or directory, or the bare repository."""
        return self.work_tree / ".git" if self.work_tree else self.root

    @property
    def prefix(self) -> bytes:
        """The path from the top of the work tree to the root, with a slash; empty at the top."""
        if self.work_tree is None or self.root == self.work_tree:
            return b""
        return os.fsencode(self.root.relative_to(self.work_tree)) + b"/"

    @property
    def store(self) -> Path:
        """The git directory with refs and objects, which linked work trees share."""
        git_dir = git_dir_of(self.work_tree) if self.work_tree else None
        return common_dir(git_dir or self.git_dir)

    @property
    def has_way_out(self) -> bool:
        """Whether git could read records from outside of the allowed roots."""
        top = self.work_tree or self.root
        return is_confined(top) and _has_way_out({git_dir_of(top) or self.git_dir, self.store})


def git_repository_at(root: Path) -> GitRepository | None:
    """The bare repository that the directory is, or that of the work tree that it is in.

    None if the path of the root contains a link by now: another repository may be there.
    """
    if not is_real_directory(root):
        return None
    if is_bare_repository(root):
        return GitRepository(root, None)
    top = work_tree_of(root)
    return None if top is None else GitRepository(root, top)


def is_bare_repository(directory: Path) -> bool:
    """Whether the directory is a bare repository, not inside of another and not a ``.git``."""
    return (
        is_git_directory(os.fsencode(directory))
        and directory.name != ".git"
        and not os.path.lexists(directory / "commondir")  # the records of another repository
        and not any(is_pipe_or_device(directory / name) for name in _ALWAYS_OPENED)
        and git_dir_of(directory) is None
        and git_directory_around(directory.parent) is None
    )


def work_tree_of(directory: Path) -> Path | None:
    """The top of the work tree that the directory is in.

    A ``.git`` in a parent only counts if it belongs to us or to the owner of the directory: any
    user can create one in a shared folder such as ``/tmp``. If the directory is below an allowed
    root, parents above that root do not count.
    """
    try:
        owners = {directory.stat().st_uid, os.geteuid()}
        for top in (directory, *directory.parents):
            if is_confined(directory) and not is_confined(top):
                return None
            if git_dir_of(top) and (top == directory or (top / ".git").lstat().st_uid in owners):
                return top
    except OSError as error:
        log.warning("Cannot look for a git repository at %s: %s", directory, error)
    return None


def git_directory_around(directory: Path) -> Path | None:
    """The git directory that this directory is, or is inside of; None in a work tree.

    For parents the same ownership rule applies as for ``.git``.
    """
    owners = {directory.stat().st_uid, os.geteuid()}
    for folder in (directory, *directory.parents):
        if git_dir_of(folder):
            return None
        if folder.name == ".git":
            return folder
        if is_git_directory(os.fsencode(folder)) and (
            folder == directory or (folder / "HEAD").lstat().st_uid in owners
        ):
            return folder
    return None


def is_git_directory(location: bytes) -> bool:
    """Whether a directory has the structure of a git directory, whatever its name."""
    return (
        os.path.lexists(location + b"/HEAD")
        and os.path.isdir(location + b"/objects")  # noqa: PTH112 - Path has no bytes
        and os.path.isdir(location + b"/refs")  # noqa: PTH112 - Path has no bytes
    )


def git_dir_for(directory: Path) -> Path | None:
    """The git directory of the work tree that the directory is in."""
    top = work_tree_of(directory)
    return git_dir_of(top) if top else None


def git_dir_of(top: Path) -> Path | None:
    """The git directory of a work tree; None if there is none or it belongs to another repository.

    A git directory outside of ``.git`` must refer to the work tree, as those of linked work trees
    and of submodules do. If the work tree is below an allowed root, so must the git directory be.
    """
    entry = top / ".git"
    try:
        mode = entry.lstat().st_mode
        git_dir = entry if stat.S_ISDIR(mode) else _target(entry, mode)
        if git_dir is None or not os.path.lexists(git_dir / "HEAD"):
            return None
        if any(is_pipe_or_device(git_dir / name) for name in _ALWAYS_OPENED):
            return None
        shares = os.path.lexists(git_dir / "commondir")
        if stat.S_ISDIR(mode):
            is_own = not shares
        elif shares:
            is_own = _is_linked(git_dir, entry)
        else:
            is_own = _is_configured(git_dir, top)
    except OSError:
        return None
    if is_confined(top) and not are_allowed(git_dir, common_dir(git_dir)):
        return None
    return git_dir if is_own else None


def common_dir(git_dir: Path) -> Path:
    """The git directory that linked work trees share."""
    return git_dir / os.fsdecode(_first_line(git_dir / "commondir") or b".")


@dataclass(slots=True)
class Checkout:
    """What git has checked out in the work tree of a root, or what a bare repository has at HEAD.

    Finding git's files takes a millisecond, and looking at their times some microseconds. So they
    are found again only when a time has changed.
    """

    root: Path
    _files: tuple[Path, ...] = ()
    _times: tuple[tuple[int, ...], ...] = ()

    def has_changed(self) -> bool:
        """Whether there was a checkout, commit, merge, fetch or reset since the last call."""
        if self._files and self._times == tuple(map(_times, self._files)):
            return False
        self._files = _checkout_files(self.root)
        self._times = tuple(map(_times, self._files))
        return True


def _checkout_files(root: Path) -> tuple[Path, ...]:
    """The files that git replaces when another commit is checked out, or when a ref moves."""
    git_dir = None
    with suppress(OSError):
        git_dir = root if is_bare_repository(root) else git_dir_for(root)
    if git_dir is None:
        return (root / ".git",)
    ref = os.fsdecode(_first_line(git_dir / "HEAD").removeprefix(b"ref:").strip())
    refs = [common_dir(git_dir) / name for name in (ref, "packed-refs", "reftable/tables.list")]
    return (git_dir / "HEAD", git_dir / "index", *refs)


def _times(location: Path) -> tuple[int, ...]:
    try:
        status = location.stat()
    except (OSError, ValueError):
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _target(entry: Path, mode: int) -> Path | None:
    """The target of a ``.git`` that is a link or a file."""
    if entry.is_dir():
        return entry.resolve()
    pointer = _first_line(entry)
    if not pointer.startswith(b"gitdir: "):
        return None
    return entry.parent / os.fsdecode(pointer.removeprefix(b"gitdir: "))


def _is_linked(git_dir: Path, entry: Path) -> bool:
    """Whether the repository that a ``.git`` points to has the work tree as a linked work tree."""
    back = git_dir / os.fsdecode(_first_line(git_dir / "gitdir"))
    worktrees = common_dir(git_dir).resolve() / "worktrees"
    return git_dir.resolve().parent == worktrees and back.samefile(entry)


def _is_configured(git_dir: Path, top: Path) -> bool:
    """Whether the git directory is configured for the work tree, as that of a submodule is."""
    work_tree = None
    for name in ("config", "config.worktree"):
        text = read_ignore_file(os.fsencode(git_dir / name), follow=True) or b""
        for section in _CORE.findall(text):
            for value in _WORK_TREE.findall(section):
                work_tree = re.sub(rb"\\(.)", rb"\1", value.strip(b'"'))
    return work_tree is not None and (git_dir / os.fsdecode(work_tree)).samefile(top)


def _first_line(location: Path) -> bytes:
    text = read_ignore_file(os.fsencode(location), follow=True) or b""
    return text.split(b"\n", 1)[0].rstrip(b"\r")


def confine_git(roots: Iterable[Path]) -> None:
    """From now on, only use git's records of a work tree below a root if they are below a root too.

    This holds in the whole process and for every caller, since freshness checks, searches of
    branches and background runs read a repository for no caller in particular.
    """
    _roots.update(roots)


def is_confined(top: Path) -> bool:
    """Whether a work tree is below an allowed root."""
    return bool(_roots) and is_below(top, _roots)


def are_allowed(*records: Path) -> bool:
    """Whether git's records are below allowed roots."""
    return all(is_below(real_path(path), _roots) for path in records)


def _has_way_out(records: Iterable[Path]) -> bool:
    """Whether links or alternates in git's records lead out of the allowed roots."""
    records = list(records)
    waiting = [real_path(path) for path in (*records, *_object_folders(records))]
    hooks = {real_path(path) / "hooks" for path in records}  # git runs none
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        if not is_below(path, _roots):
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
