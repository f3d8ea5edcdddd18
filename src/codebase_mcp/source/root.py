"""Which directory does this path name, and may it be read for the caller?

The user who runs the server may name everything that it can read. Others only name directories
below the allowed roots. The program's own data and the kernel's virtual file systems are never
read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.errors import InvalidInput, PermissionDenied
from codebase_mcp.source.git_directory import git_directory_around, is_bare_repository
from codebase_mcp.source.open_file import KERNEL_FOLDERS, is_below, real_path
from codebase_mcp.source.remote import is_remote, masked
from codebase_mcp.source.selection import Patterns
from codebase_mcp.values import require_storable

MAX_PATH_CHARS = 4_096
_HOW_TO_ALLOW = (
    "The operator of the server allows a directory by --root DIRECTORY, or in CODEBASE_MCP_ROOTS."
)
_SPECIAL = re.compile(r"[\\*?\[\]!# ]")


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
        if self.roots is not None and not is_below(path, self.roots):
            raise _not_allowed(named, self.roots)
        is_clone = self.clones is not None and path.is_relative_to(self.clones)
        if is_below(path, self.closed) and not is_clone:
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


def check_path(repo_path: str) -> Path:
    """An absolute path, which may not exist, or not be readable.

    Raises:
        InvalidInput: empty, too long, a URL, relative, or not valid Unicode.
    """
    if not repo_path.strip():
        raise _bad_path(repo_path, "Repository path cannot be empty", "an absolute path")
    if len(repo_path) > MAX_PATH_CHARS:
        message = f"Repository path must be at most {MAX_PATH_CHARS} characters"
        raise _bad_path(repo_path[:200], message, f"1..{MAX_PATH_CHARS} characters")
    if is_remote(repo_path):
        url = masked(repo_path)
        message = f"Repository path must be a directory, not a URL: {url}"
        hint = "codebase-mcp index URL fetches a repository."
        raise _bad_path(url, message, "an absolute path", hint=hint)
    if "\0" in repo_path:
        raise _bad_path(repo_path, "Repository path must not hold a NUL character", "no NUL")
    require_storable("repo_path", repo_path)
    path = Path(repo_path)
    if not path.is_absolute():
        message = f"Repository path must be absolute: {repo_path}"
        hint = "Pass the whole path, from / on: ~ and . mean nothing here."
        raise _bad_path(repo_path, message, "an absolute path", hint=hint)
    return path


def resolve_root(repo_path: str, reach: Reach = EVERYTHING) -> Path:
    """The real directory that a path names, if it is within reach.

    A caller learns nothing about paths out of reach, not even whether they exist.

    Raises:
        InvalidInput: as `check_path`, or missing, no directory, or inside of git's own records.
        PermissionDenied: it is out of reach, or not readable.
    """
    path = check_path(repo_path)
    reach.require(repo_path, real_path(path))
    try:
        root = path.resolve(strict=True)
        reach.require(repo_path, root)  # again, as links may have changed
        require_storable("repo_path", str(root))  # links may lead to another name
        if not root.is_dir():
            message = f"Repository path must be a directory: {repo_path}"
            raise _bad_path(repo_path, message, "a directory", hint=f"Try {path.parent}")
        next(root.iterdir(), None)
        records = None if is_bare_repository(root) else git_directory_around(root)
    except FileNotFoundError:
        message = f"Repository path does not exist: {repo_path}"
        raise _bad_path(repo_path, message, "an existing directory") from None
    except PermissionError:
        raise PermissionDenied(
            f"Repository path is not readable: {repo_path}",
            hint="Let the user that this program runs as list and enter the directory.",
            details={"field": "repo_path", "value": repo_path},
        ) from None
    except (OSError, RuntimeError) as error:  # a loop of links, a name too long, …
        message = f"Repository path cannot be read: {repo_path} ({error})"
        raise _bad_path(repo_path, message, "a readable directory") from None
    if records is not None:
        raise _of_git(repo_path, records)
    return root


def _of_git(value: str, records: Path) -> InvalidInput:
    """The error for a directory inside of git's records."""
    folders = (records, *records.parents)
    git_dir = next((folder for folder in folders if folder.name == ".git"), None)
    if git_dir is not None:
        message = f"Repository path lies inside a .git directory: {value}"
        return _bad_path(value, message, "a work tree", hint=f"Try {git_dir.parent}")
    bare = next(filter(is_bare_repository, folders), None)
    message = f"Repository path is a part of a bare git repository: {value}"
    return _bad_path(value, message, "a repository", hint=f"Try {bare}" if bare else None)


def _bad_path(value: str, message: str, rule: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput.of("repo_path", value, message, rule=rule, hint=hint)


def _not_allowed(named: str, roots: tuple[Path, ...]) -> PermissionDenied:
    message = f"Repository path is not below an allowed root: {named}"
    hint = f"Allowed: {', '.join(map(str, roots))}. {_HOW_TO_ALLOW}"
    if not roots:
        message = f"No directory may be indexed by this caller, as no root is allowed: {named}"
        hint = _HOW_TO_ALLOW
    return PermissionDenied(message, hint=hint, details={"field": "repo_path", "value": named})
