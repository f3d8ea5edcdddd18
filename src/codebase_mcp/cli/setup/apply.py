"""Applies the planned changes: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codebase_mcp.cli.setup.plan import Change, Unfit
from codebase_mcp.cli.setup.receipts import Receipt, Receipts, write_file


def apply(changes: list[Change], receipts: Receipts, *, mode: int) -> dict[Path, Path | None]:
    """Write every change; returns the backups of the files.

    Raises:
        Unfit: a file has changed since it was read, or cannot be written. Nothing is changed.
    """
    done: list[tuple[Change, Receipt | None]] = []
    copies: dict[Path, Path | None] = {}
    try:
        for change in changes:
            if not change.is_needed:
                if change.receipt is not None:
                    receipts.keep(change.receipt, None)
                continue
            if _content(change.path) != change.before:
                raise Unfit(f"{change.path} has changed in the meantime; run setup again")
            done.append((change, receipts.of(change.path)))
            copies[change.path] = _write(change, receipts, mode)
    except (OSError, Unfit) as error:
        for undone, receipt in reversed(done):
            _put(undone.path, undone.before, mode)
            _remove_folders([receipts.of(undone.path)] if undone.before is None else [])
            receipts.put_back(undone.path, receipt)
        reason = error if isinstance(error, Unfit) else f"{change.path} cannot be written ({error})"
        raise Unfit(f"{reason}. Nothing was changed") from error
    _remove_folders(receipt for change, receipt in done if change.after is None)
    return copies


def _write(change: Change, receipts: Receipts, mode: int) -> Path | None:
    receipt = change.receipt
    if receipt is None:
        _put(change.path, change.after, mode)
        receipts.forget(change.path)
        return None
    folders = _make_folders(change.path.parent)
    copy = receipts.keep(replace(receipt, folders=(*receipt.folders, *folders)), change.before)
    _put(change.path, change.after, mode)
    return copy


def _put(path: Path, content: bytes | None, mode: int) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_file(path, content, mode)


def _make_folders(folder: Path) -> tuple[str, ...]:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(str(path) for path in missing)


def _remove_folders(receipts: Iterable[Receipt | None]) -> None:
    """Delete the folders that were created for files, if they are empty now."""
    made = {Path(folder) for receipt in receipts if receipt for folder in receipt.folders}
    for folder in sorted(made, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
