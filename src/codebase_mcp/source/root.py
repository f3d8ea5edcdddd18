"""Which directory does this path name, and may we read it?"""

from __future__ import annotations

from pathlib import Path

from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.remote import is_remote, masked

MAX_PATH_CHARS = 4_096


def resolve_root(repo_path: str) -> Path:
    """The real directory that a path names.

    Raises:
        InvalidInput: empty, too long, relative, missing, no directory, or not readable.
    """
    path = Path(repo_path)
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
    if not path.is_absolute():
        message = f"Repository path must be absolute: {repo_path}"
        raise _bad_path(repo_path, message, "an absolute path", hint=f"Try {path.absolute()}")
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            message = f"Repository path must be a directory: {repo_path}"
            raise _bad_path(repo_path, message, "a directory", hint=f"Try {path.parent}")
        next(root.iterdir(), None)
    except FileNotFoundError:
        message = f"Repository path does not exist: {repo_path}"
        raise _bad_path(repo_path, message, "an existing directory") from None
    except PermissionError:
        message = f"Repository path is not readable: {repo_path}"
        raise _bad_path(repo_path, message, "a readable directory") from None
    except (OSError, RuntimeError) as error:  # a loop of links, a name too long, …
        message = f"Repository path cannot be read: {repo_path} ({error})"
        raise _bad_path(repo_path, message, "a readable directory") from None
    return root


def _bad_path(value: str, message: str, rule: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput.of("repo_path", value, message, rule=rule, hint=hint)
