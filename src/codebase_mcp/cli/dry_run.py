"""Which files would a run index? Lists them without a database, and writes nothing."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.cli.indexing import MAX_ERRORS_SHOWN, cloned_source
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.shell import identity_here
from codebase_mcp.cli.terminal import console
from codebase_mcp.model import SourceFile
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at, resolve_for
from codebase_mcp.source.source_tree import source_tree_at

LARGEST = 10
# A folder with this share of its bytes in a single inner folder is not shown.
_MERELY_AROUND = 0.8


def dry_run(options: argparse.Namespace, settings: Settings) -> int:
    """List the files of a directory, or of a clone as it was last fetched."""
    path = cloned_source(options, settings).path
    root = resolve_for(identity_here(settings), settings, path)
    repository = repository_at(settings, root)
    listing = source_tree_at(root, repository.selection).list_files()
    largest = sorted(listing.files, key=lambda file: (-file.size, file.path))[:LARGEST]
    content: dict[str, Any] = {
        "status": "dry_run",
        "root": str(root),
        "files": len(listing.files),
        "bytes": sum(file.size for file in listing.files),
        "languages": dict(Counter(file.language for file in listing.files).most_common()),
        "kinds": dict(Counter(str(file.kind) for file in listing.files).most_common()),
        "files_skipped": dict(listing.skipped),
        "largest_folders": largest_folders(listing.files),
        "largest_files": [{"path": file.path, "bytes": file.size} for file in largest],
        "errors": [str(failure) for failure in listing.failures],
    }
    if described := repository.described():
        content["repository_settings"] = described
    if options.json:
        print_json(content)
    else:
        _show(content, repository.warnings)
    return 0


def largest_folders(files: Iterable[SourceFile]) -> list[dict[str, Any]]:
    """The folders with the most bytes in and below them, except the root."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in files:
        folder = file.path.rpartition("/")[0]
        while folder:
            counts[folder] += 1
            sizes[folder] += file.size
            folder = folder.rpartition("/")[0]
    around = {
        folder.rpartition("/")[0]
        for folder, size in sizes.items()
        if size >= _MERELY_AROUND * sizes.get(folder.rpartition("/")[0], 0)
    }
    shown = sorted(sizes.keys() - around, key=lambda folder: (-sizes[folder], folder))
    return [{"path": f, "files": counts[f], "bytes": sizes[f]} for f in shown[:LARGEST]]


def _show(content: Mapping[str, Any], warnings: Iterable[str]) -> None:
    console.print(Text.assemble(("dry run", "bold"), "  ", (content["root"], "dim")))
    console.print(f"{content['files']:,} files, {_size(content['bytes'])}")
    for name in ("languages", "kinds", "files_skipped"):
        if content[name]:
            words = f"{name.removeprefix('files_')}: {_counts(content[name])}"
            console.print(words, style="dim")
    for name in ("largest_folders", "largest_files"):
        if content[name]:
            table = Table(
                Column(name.replace("_", " "), overflow="fold"),
                Column("size", justify="right"),
                box=None,
            )
            for share in content[name]:
                table.add_row(Text(share["path"]), _size(share["bytes"]))
            console.print(table)
    for warning in warnings:
        console.print(warning, style="yellow")
    for failure in content["errors"][:MAX_ERRORS_SHOWN]:
        console.print(printable_line(failure), style="yellow")
    if (rest := len(content["errors"]) - MAX_ERRORS_SHOWN) > 0:
        console.print(f"… and {rest} more (--json lists all)")
    console.print("Nothing was written. Exclude more files with .mcpignore.", style="dim")


def _counts(counts: Mapping[str, int], most: int = 8) -> str:
    listed = [f"{count:,} {name}" for name, count in list(counts.items())[:most]]
    rest = sum(list(counts.values())[most:])
    return ", ".join([*listed, f"{rest:,} others"] if rest else listed)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
