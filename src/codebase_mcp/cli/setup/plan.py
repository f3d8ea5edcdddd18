"""What would change in which file? Nothing is written here."""

from __future__ import annotations

import difflib
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codebase_mcp.cli.setup.block import Block, SkillFile
from codebase_mcp.cli.setup.clients import RULE_FILE, Client, Launch, Scope
from codebase_mcp.cli.setup.edit import Edit, Refused
from codebase_mcp.cli.setup.instructions import SKILL, SKILL_HEADER, instructions_for
from codebase_mcp.cli.setup.json_edit import JsonEntry
from codebase_mcp.cli.setup.machine import Machine
from codebase_mcp.cli.setup.receipts import Receipt, Receipts, fingerprint, next_receipt
from codebase_mcp.cli.setup.toml_edit import TomlEntry


@dataclass(frozen=True, slots=True)
class SetupTarget:
    """What the user asked for; ``launch`` or ``url`` say how the server is reached."""

    scope: Scope
    root: Path
    name: str
    launch: Launch
    url: str | None
    toolsets: tuple[str, ...]
    with_rules: bool = True
    force: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One file; contents are None where there is none.

    ``receipt`` is what will be known about it afterwards, None where nothing has to be.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    receipt: Receipt | None
    note: str = ""

    @property
    def is_needed(self) -> bool:
        """Whether anything has to be written."""
        return self.before != self.after

    def diff(self) -> list[str]:
        """The change as lines, with one line around: what stands further off may be secret."""
        old, new = (
            (content or b"").decode("utf-8-sig").splitlines()
            for content in (self.before, self.after)
        )
        return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]


class Unfit(Exception):
    """A file that cannot be changed, and why."""


class Planner:
    """Collects what has to change, also where several clients read one file."""

    def __init__(self, target: SetupTarget, machine: Machine, receipts: Receipts) -> None:
        self._target = target
        self._machine = machine
        self._receipts = receipts
        self._changes: dict[Path, Change] = {}

    @property
    def changes(self) -> list[Change]:
        """A change for each file, needed or not."""
        return list(self._changes.values())

    def add(self, client: Client) -> None:
        """Let a client know the server.

        Raises:
            Unfit: one of its files cannot be changed.
        """
        for path, edit in self.edits(client):
            real, before, known = self._read(path)
            text = _decoded(path, before)
            try:
                there = edit.find(text)
                self._check_owner(there, known, "replace it with --force or use another --name")
                added = edit.add(text)
            except Refused as refusal:
                raise Unfit(f"{path}: {refusal}") from None
            after = before if added.text == text else added.text.encode()
            receipt = known
            if after != before:
                receipt = next_receipt(
                    known, real, client.name, before, added.created, had_ours=there is not None
                )
            elif known is not None:
                receipt = replace(
                    known, clients=tuple(dict.fromkeys((*known.clients, client.name)))
                )
            self._note(real, before, after, receipt)

    def remove(self, client: Client) -> None:
        """Let a client forget the server.

        Raises:
            Unfit: one of its files cannot be changed.
        """
        for path, edit in self.edits(client):
            real, before, known = self._read(path)
            others = tuple(n for n in known.clients if n != client.name) if known else ()
            if known is not None and others and before is not None:
                note = f"stays as it is for {', '.join(others)}"
                self._note(real, before, before, replace(known, clients=others), note)
            elif before is not None:
                self._note(real, before, self._without(path, before, edit, known), None)

    def edits(self, client: Client) -> Iterator[tuple[Path, Edit]]:
        """The files of a client, its configuration first, and how each is changed."""
        target = self._target
        config = client.config_file(target.scope, self._machine, target.root)
        if config is None:
            raise Unfit(f"{client.title} has no configuration for a project; use --scope user")
        yield config, entry_edit(client, target)
        rules = client.rules_file(target.scope, self._machine, target.root)
        if rules is not None and target.with_rules:
            header = client.rules_header if RULE_FILE in rules.name else ""
            yield rules, Block(instructions_for(target.toolsets), header)
        skill = client.skill_file(target.scope, self._machine, target.root)
        if skill is not None and target.with_rules:
            yield skill, SkillFile(SKILL, SKILL_HEADER)

    def _without(
        self, path: Path, before: bytes, edit: Edit, known: Receipt | None
    ) -> bytes | None:
        """A file's content without our part; None where the file goes."""
        text = _decoded(path, before)
        try:
            there = edit.find(text)
            if there is None:
                return before
            self._check_owner(there, known, "remove it with --force")
            original = self._receipts.original(known, before) if known else None
            if original is not None:
                return original[0]
            after = edit.remove(text, known.created if known else ())
            is_bare = edit.is_bare(after)
        except Refused as refusal:
            raise Unfit(f"{path}: {refusal}") from None
        # Without a receipt nobody knows who made the file; with our block alone it was for us.
        was_made_for_us = not known.was_there if known else isinstance(edit, Block)
        return None if is_bare and was_made_for_us else after.encode()

    def _check_owner(self, there: Any, known: Receipt | None, way: str) -> None:
        is_entry = isinstance(there, Mapping)
        if is_entry and known is None and not self._target.force and not is_ours(there):
            raise Refused(f"{self._target.name} is the name of another server there; {way}")

    def _read(self, path: Path) -> tuple[Path, bytes | None, Receipt | None]:
        """Where a file really lies, what it holds (None: it is not there), what we know of it."""
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
    """How a client's configuration is changed."""
    value = client.local(target.launch)
    if target.url is not None:
        if client.remote is None:
            raise Unfit(
                f"{client.title} takes no address from its file; add {target.url} there itself"
            )
        value = client.remote(target.url)
    if client.is_toml:
        return TomlEntry(client.sections[0][0], target.name, value)
    return JsonEntry(client.sections, target.name, value)


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry starts this program; one with an address cannot be told from others."""
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
        raise Unfit(f"{path} leads nowhere ({error})") from None
    # A repository is somebody else's: its links must not let it write elsewhere.
    if target.scope == "project" and not real.is_relative_to(root):
        raise Unfit(f"{path} leads out of the project, to {real}")
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
        raise Unfit(f"{path}: line {line}: it is not UTF-8") from None
