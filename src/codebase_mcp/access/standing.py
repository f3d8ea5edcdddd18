"""The repository around a directory, and whether it may be indexed without a request."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.source.git_directory import git_repository_at, work_tree_of

# A folder without git and without any of these files is indexed by itself only up to this size: it
# may be a folder of downloads, or a folder above many projects.
MOST_FILES = 5_000
PROJECT_FILES = frozenset(
    {
        FILE_NAME,
        ".mcpignore",
        "build.gradle",
        "build.gradle.kts",
        "build.sbt",
        "Cargo.toml",
        "CMakeLists.txt",
        "composer.json",
        "Gemfile",
        "go.mod",
        "Makefile",
        "meson.build",
        "mix.exs",
        "package.json",
        "Package.swift",
        "pom.xml",
        "pubspec.yaml",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
    }
)


def repository_around(directory: Path, indexed: Collection[Path]) -> Path:
    """The root of the repository that a directory is in, indexed or not.

    That is the top of its git work tree, else the nearest folder above that is indexed, else the
    directory itself. Where the work tree is not indexed, but a folder of it that holds the
    directory is, somebody has chosen that folder.
    """
    directory = directory.resolve()
    top = work_tree_of(directory)
    if top is not None and top in indexed:
        return top
    above = next((folder for folder in (directory, *directory.parents) if folder in indexed), None)
    if above is not None and (top is None or above.is_relative_to(top)):
        return above
    return top or directory


def reason_not_to_index(root: Path, allowed_roots: Iterable[Path]) -> str | None:
    """Why a repository is not indexed by itself, as the end of a sentence; None if it may be.

    Without ``allowed_roots`` every place is allowed.
    """
    allowed = tuple(allowed_roots)
    if allowed and not any(root.is_relative_to(allowed_root) for allowed_root in allowed):
        return "it is outside of the allowed directories (--root)"
    if root == Path(root.anchor):
        return "it is the root of the file system"
    if root == Path.home().resolve():
        return "it is a home directory"
    if git_repository_at(root) is not None or any((root / name).exists() for name in PROJECT_FILES):
        return None
    if _has_more_files(root, MOST_FILES):
        return f"it has more than {MOST_FILES:,} files, and neither git nor a project file"
    return None


def _has_more_files(root: Path, most: int) -> bool:
    count = 0
    for _, _, files in os.walk(root):
        count += len(files)
        if count > most:
            return True
    return False
