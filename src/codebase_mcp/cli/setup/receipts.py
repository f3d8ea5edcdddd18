"""What did ``setup`` change, and what was there before?

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
    """The state of one file before it was changed.

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
            kept = json.loads((self._place(path) / "receipt.json").read_text("utf-8"))
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
        return ((self._place(Path(receipt.path)) / "original").read_bytes(),)

    def keep(self, receipt: Receipt, before: bytes | None) -> Path | None:
        """Store the receipt of a change before it is made; returns the path of the backup."""
        place = self._place(Path(receipt.path))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if receipt.is_exact and before is not None and not (place / "original").exists():
            write_file(place / "original", before)
        if not receipt.is_exact:
            (place / "original").unlink(missing_ok=True)
        write_file(place / "receipt.json", json.dumps(asdict(receipt), indent=1).encode())
        if before is None:
            return None
        write_file(place / "before", before)
        return place / "before"

    def put_back(self, path: Path, known: Receipt | None) -> None:
        """Restore the receipt of a file after a change that failed."""
        if known is None:
            self.forget(path)
        else:
            self.keep(known, None)

    def forget(self, path: Path) -> None:
        shutil.rmtree(self._place(path), ignore_errors=True)

    def _place(self, path: Path) -> Path:
        return self._folder / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def next_receipt(
    known: Receipt | None,
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
    if known is None:
        was_there = before is not None
        return Receipt(str(path), (client,), was_there, created=created, is_exact=not had_ours)
    as_we_left_it = before is not None and known.written == fingerprint(before)
    return replace(
        known,
        clients=tuple(dict.fromkeys((*known.clients, client))),
        created=tuple(dict.fromkeys((*known.created, *created))),
        is_exact=known.is_exact and as_we_left_it,
    )


def fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: readers see the old content or the new one.

    An existing file keeps its owner and permissions; ``mode`` is for a new one.
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
