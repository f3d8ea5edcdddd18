"""Plans the changes to each file, and applies them: all of them, or none.

The data folder has a receipt for each changed file. With it, a file that was not changed since is
restored byte for byte, a created file is deleted, and sections created for our entry are removed.
Without it, only our entry is removed. It comes with a backup of the file before the last change.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from codebase_mcp.cli.setup.clients import (
    RULE_FILE,
    SKILL,
    SKILL_HEADER,
    Client,
    Launch,
    Machine,
    Scope,
    instructions_for,
)
from codebase_mcp.cli.setup.edit import Block, KeyPath, Refused, SkillFile, TomlEntry
from codebase_mcp.cli.setup.json_edit import JsonEntry

Edit = JsonEntry | TomlEntry | Block


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
    """The receipts in the data folder."""

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


@dataclass(frozen=True, slots=True)
class SetupTarget:
    """The requested setup; ``launch`` or ``url`` is how the server is started or reached.

    ``key_env`` is the environment variable with the key for the URL.
    """

    scope: Scope
    root: Path
    name: str
    launch: Launch
    url: str | None
    toolsets: tuple[str, ...]
    with_rules: bool = True
    force: bool = False
    key_env: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The change to a file; a content is None if the file does not exist.

    ``receipt`` is the file's receipt after the change, None if it needs none.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    receipt: Receipt | None
    note: str = ""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        """The change as a diff with a line of context, as more lines could contain secrets."""
        old, new = (
            (content or b"").decode("utf-8-sig").splitlines()
            for content in (self.before, self.after)
        )
        return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]


class Unfit(Exception):
    """A file cannot be changed; the message says why."""


class Planner:
    """Collects the changes; several clients may share a file."""

    def __init__(self, target: SetupTarget, machine: Machine, receipts: Receipts) -> None:
        self._target = target
        self._machine = machine
        self._receipts = receipts
        self._changes: dict[Path, Change] = {}

    @property
    def changes(self) -> list[Change]:
        """A change per file, including files that are up to date."""
        return list(self._changes.values())

    def add(self, client: Client) -> None:
        """Plan to add the server to a client.

        Raises:
            Unfit: a file of the client cannot be changed.
        """
        for path, edit in self.edits(client):
            real, before, receipt = self._read(path)
            text = _decoded(path, before)
            try:
                there = edit.find(text)
                self._check_owner(there, receipt, "replace it with --force or use another --name")
                added = edit.add(text)
            except Refused as refusal:
                raise Unfit(f"{path}: {refusal}") from None
            after = before if added.text == text else added.text.encode()
            if after != before:
                receipt = next_receipt(
                    receipt, real, client.name, before, added.created, had_ours=there is not None
                )
            elif receipt is not None:
                receipt = replace(
                    receipt, clients=tuple(dict.fromkeys((*receipt.clients, client.name)))
                )
            self._note(real, before, after, receipt)

    def remove(self, client: Client) -> None:
        """Plan to remove the server from a client.

        Raises:
            Unfit: a file of the client cannot be changed.
        """
        for path, edit in self.edits(client):
            real, before, receipt = self._read(path)
            others = tuple(n for n in receipt.clients if n != client.name) if receipt else ()
            if receipt is not None and others and before is not None:
                note = f"kept, as {', '.join(others)} still uses it"
                self._note(real, before, before, replace(receipt, clients=others), note)
            elif before is not None:
                self._note(real, before, self._without(path, before, edit, receipt), None)

    def edits(self, client: Client) -> Iterator[tuple[Path, Edit]]:
        """The files of a client, its configuration first, with the edit for each."""
        target = self._target
        config = client.config_file(target.scope, self._machine, target.root)
        if config is None:
            raise Unfit(f"{client.title} has no project configuration; use --scope user")
        yield config, entry_edit(client, target)
        rules = client.rules_file(target.scope, self._machine, target.root)
        if rules is not None and target.with_rules:
            header = client.rules_header if RULE_FILE in rules.name else ""
            yield rules, Block(instructions_for(target.toolsets), header)
        skill = client.skill_file(target.scope, self._machine, target.root)
        if skill is not None and target.with_rules:
            yield skill, SkillFile(SKILL, SKILL_HEADER)

    def _without(
        self, path: Path, before: bytes, edit: Edit, receipt: Receipt | None
    ) -> bytes | None:
        """A file's content without our part; None if the file is to be deleted."""
        text = _decoded(path, before)
        try:
            there = edit.find(text)
            if there is None:
                return before
            self._check_owner(there, receipt, "remove it with --force")
            original = self._receipts.original(receipt, before) if receipt else None
            if original is not None:
                return original[0]
            after = edit.remove(text, receipt.created if receipt else ())
            is_bare = edit.is_bare(after)
        except Refused as refusal:
            raise Unfit(f"{path}: {refusal}") from None
        # Without a receipt the creator is unknown, but a file with only our block was ours.
        was_made_for_us = not receipt.was_there if receipt else isinstance(edit, Block)
        return None if is_bare and was_made_for_us else after.encode()

    def _check_owner(self, there: Any, receipt: Receipt | None, way: str) -> None:
        is_entry = isinstance(there, Mapping)
        if is_entry and receipt is None and not self._target.force and not is_ours(there):
            raise Refused(f"another server is named {self._target.name}; {way}")

    def _read(self, path: Path) -> tuple[Path, bytes | None, Receipt | None]:
        """A file's resolved path, its content (None if it does not exist) and its receipt."""
        real = _resolved(path, self._target)
        planned = self._changes.get(real)
        if planned is not None:
            return real, planned.after, planned.receipt
        return real, _read(path, real), self._receipts.of(real)

    def _note(
        self,
        path: Path,
        before: bytes | None,
        after: bytes | None,
        receipt: Receipt | None,
        note: str = "",
    ) -> None:
        if path in self._changes:
            before = self._changes[path].before
        if receipt is not None and after is not None and after != before:
            receipt = replace(receipt, written=fingerprint(after))
        self._changes[path] = Change(path, before, after, receipt, note)


def entry_edit(client: Client, target: SetupTarget) -> Edit:
    value = client.local(target.launch)
    if target.url is not None:
        if client.remote is None:
            raise Unfit(
                f"{client.title} cannot read a URL from its file; add {target.url} in its settings"
            )
        value = client.remote(target.url)
        if target.key_env is not None and client.keyed is not None:
            value |= client.keyed(target.key_env)
    if client.is_toml:
        return TomlEntry(client.sections[0][0], target.name, value)
    return JsonEntry(client.sections, target.name, value)


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry starts this program; an entry with a URL cannot be recognized."""
    command, args = entry.get("command"), entry.get("args")
    words = [*(command if isinstance(command, list) else [command])]
    words += args if isinstance(args, list) else []
    names = [re.split(r"[\\/]", str(word))[-1] for word in words]
    return any(n.startswith("codebase-mcp") or n == "codebase_mcp.cli.main" for n in names)


def _resolved(path: Path, target: SetupTarget) -> Path:
    try:
        real = path.resolve()
        root = target.root.resolve()
    except (OSError, RuntimeError) as error:
        raise Unfit(f"{path} cannot be resolved ({error})") from None
    # A repository is untrusted: its links must not redirect writes out of it.
    if target.scope == "project" and not real.is_relative_to(root):
        raise Unfit(f"{path} links to {real}, outside the project")
    return real


def _read(path: Path, real: Path) -> bytes | None:
    try:
        entry = real.stat()
        if not stat.S_ISREG(entry.st_mode):
            raise Unfit(f"{path} is not a file")
        if not entry.st_mode & stat.S_IWUSR:
            raise Unfit(f"{path} is read-only")
        return real.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unfit(f"{path} cannot be read ({error.strerror})") from None


def _decoded(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        line = (content or b"").count(b"\n", 0, error.start) + 1
        raise Unfit(f"{path}: line {line}: the file is not UTF-8") from None


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
