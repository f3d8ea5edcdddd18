"""Records of the files that ``setup`` changed, for undoing the change.

The data folder has a receipt for each changed file. With it, a file that was not changed since is
restored byte for byte, a created file is deleted, and sections created for our entry are removed.
Without it, only our entry is removed. It comes with a backup of the file before the last change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from codebase_mcp.cli.setup.edit import KeyPath


@dataclass(frozen=True, slots=True)
class Receipt:
    """The state of a file before it was changed.

    ``clients`` are those that use the file. ``was_there`` says that it existed, ``folders`` and
    ``created`` are the folders and sections that were created. ``written`` is the hash of the
    content that we wrote. ``is_exact`` says that the original content is stored.
    """

    path: str
    clients: tuple[str, ...]
    was_there: bool
    folders: tuple[str, ...] = ()
    created: tuple[KeyPath, ...] = ()
    written: str = ""
    is_exact: bool = True


class Receipts:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, path: Path) -> Receipt | None:
        """The receipt for a file; None if it was not changed."""
        try:
            kept = json.loads((self._folder_of(path) / "receipt.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        created = tuple(tuple(names) for names in kept.pop("created"))
        clients, folders = tuple(kept.pop("clients")), tuple(kept.pop("folders"))
        return Receipt(**kept, clients=clients, folders=folders, created=created)

    def original(self, receipt: Receipt, now: bytes) -> tuple[bytes | None] | None:
        """The original content (None if there was no file), if the file is as we left it."""
        if not receipt.is_exact or receipt.written != fingerprint(now):
            return None
        if not receipt.was_there:
            return (None,)
        return ((self._folder_of(Path(receipt.path)) / "original").read_bytes(),)

    def keep(self, receipt: Receipt, before: bytes | None) -> Path | None:
        """Store the receipt of a change before it is made; returns the path of the backup."""
        folder = self._folder_of(Path(receipt.path))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if receipt.is_exact and before is not None and not (folder / "original").exists():
            write_file(folder / "original", before)
        if not receipt.is_exact:
            (folder / "original").unlink(missing_ok=True)
        write_file(folder / "receipt.json", json.dumps(asdict(receipt), indent=1).encode())
        if before is None:
            return None
        write_file(folder / "before", before)
        return folder / "before"

    def put_back(self, path: Path, receipt: Receipt | None) -> None:
        """Restore the receipt of a file after a change that failed."""
        if receipt is None:
            self.forget(path)
        else:
            self.keep(receipt, None)

    def forget(self, path: Path) -> None:
        shutil.rmtree(self._folder_of(path), ignore_errors=True)

    def _folder_of(self, path: Path) -> Path:
        return self._folder / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def next_receipt(
    earlier: Receipt | None,
    path: Path,
    client: str,
    before: bytes | None,
    created: tuple[KeyPath, ...],
    *,
    had_ours: bool,
) -> Receipt:
    """The receipt for a change to a file, based on the receipt of earlier changes.

    ``had_ours`` says that the file already contained our part, so this content is no original to
    restore.
    """
    if earlier is None:
        was_there = before is not None
        return Receipt(str(path), (client,), was_there, created=created, is_exact=not had_ours)
    as_we_left_it = before is not None and earlier.written == fingerprint(before)
    return replace(
        earlier,
        clients=tuple(dict.fromkeys((*earlier.clients, client))),
        created=tuple(dict.fromkeys((*earlier.created, *created))),
        is_exact=earlier.is_exact and as_we_left_it,
    )


def fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: readers see either the old or the new content.

    An existing file keeps its owner and permissions; ``mode`` is for a new file.
    """
    owner = None
    if path.exists():
        entry = path.stat()
        mode, owner = entry.st_mode & 0o7777, (entry.st_uid, entry.st_gid)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        if owner is not None and hasattr(os, "chown") and owner != (os.geteuid(), os.getegid()):
            os.chown(name, *owner)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
