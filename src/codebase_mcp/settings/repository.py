"""The settings of a repository, from ours and its ``.mcp-context.toml``, and who may read it.

Such a file comes with a clone and is not trusted. It only selects files of the repository: no
address, model, key or path elsewhere, and never more than the operator allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codebase_mcp.access.context_file import (
    FILE_NAME,
    MAX_BYTES,
    ContextText,
    context_of,
    path_text,
    project_in,
    read_toml,
)
from codebase_mcp.access.identity import Identity
from codebase_mcp.chunking import grammars
from codebase_mcp.database.placement import SYSTEM_FOLDER
from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.secrets.masking import keep_rules_in
from codebase_mcp.settings.loading import (
    DEFAULT,
    SETTINGS,
    Problem,
    Setting,
    Settings,
    invalid_settings,
    nearest,
    problem,
)
from codebase_mcp.source.git_directory import GitRepository, confine_git, is_bare_repository
from codebase_mcp.source.open_file import KERNEL_FOLDERS
from codebase_mcp.source.root import Reach, resolve_root
from codebase_mcp.source.selection import Patterns, Selection, joined_choice

# Settings that a context file may hold. `projects/` reads the project.
ROWS = tuple(s for s in SETTINGS if s.keys and s.name != "project")

_MISSING = object()
_KEYS = {key for s in SETTINGS for key in s.keys} | {"project.name", "project.description"}
_TABLES = {key.rpartition(".")[0] for key in _KEYS}
_ELSEWHERE = {
    word.replace("-", "_")
    for s in SETTINGS
    if not s.keys
    for word in (s.name, s.variable.lower(), s.flag[2:])
}


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """The effective settings of a repository.

    ``selection`` selects its files. ``sources`` names the source of each value; ``context`` is its
    context file, ``applied`` the values from that file.
    """

    ignore_patterns: tuple[str, ...]
    include_submodules: bool
    max_file_bytes: int
    git_depth: int
    git_branches: tuple[str, ...]
    selection: Selection
    sources: Mapping[str, str]
    context: str | None = None
    applied: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def history_depth(self) -> int | None:
        """The commits that a run keeps by default; None if not set."""
        return self.git_depth or None

    def described(self) -> dict[str, Any]:
        """The values from the context file, as a reply shows them; empty without values."""
        if not self.applied and not self.warnings:
            return {}
        applied = {n: list(v) if isinstance(v, tuple) else v for n, v in self.applied.items()}
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {"file": self.context, **applied, **warnings}


@dataclass(slots=True)
class ContextValues:
    """The values in a context file, by the names of the settings, and its problems."""

    file: str
    values: dict[str, tuple[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_context(context: ContextText) -> ContextValues:
    reading = ContextValues(path_text(context.path))
    try:
        content = read_toml(context)
    except InvalidInput as error:
        reading.problems.append(_as_problem(context, error) | {"field": reading.file})
        return reading
    for setting in ROWS:
        _read_row(setting, content, reading)
    reading.warnings += _misnamed(content, reading.file)
    return reading


def problems_in(directory: Path, *, names_project: bool = True) -> list[Problem]:
    """The problems of the context file of a repository, if it has such a file.

    ``names_project`` includes problems of the project that it names.
    """
    context = context_of(directory.expanduser())
    if context is None:
        return []
    problems = read_context(context).problems
    if names_project and not problems:
        try:
            project_in(context)
        except InvalidInput as error:
            problems.append(_as_problem(context, error))
    return problems


def repository_at(settings: Settings, root: Path) -> RepositorySettings:
    """The effective settings of the repository at ``root``.

    Raises:
        InvalidInput: its context file cannot be read, or holds invalid values.
    """
    return settle(settings, root, _committed_context(root) or context_of(root))


def _committed_context(root: Path) -> ContextText | None:
    """The context file in a bare repository's commit."""
    if not is_bare_repository(root):
        return None
    from codebase_mcp.source.source_tree import read_at_head  # noqa: PLC0415 - seldom needed

    try:
        text = read_at_head(GitRepository(root, None), FILE_NAME, MAX_BYTES)
    except IndexingFailed:  # the run will say so
        return None
    return None if text is None else ContextText(root / FILE_NAME, text)


def settle(settings: Settings, root: Path, context: ContextText | None) -> RepositorySettings:
    """The effective settings of the repository at ``root``, from ours and its file's.

    Raises:
        InvalidInput: values in the file are invalid; it lists all of them.
    """
    reading = ContextValues("") if context is None else read_context(context)
    if reading.problems:
        raise invalid_settings(reading.problems, then="call it again")
    values = {s.name: getattr(settings, s.name) for s in ROWS}
    sources = {s.name: settings.sources.get(s.name, DEFAULT) for s in ROWS}
    applied = {}
    for setting in ROWS:
        if setting.name not in reading.values:
            continue
        key, theirs = reading.values[setting.name]
        ours, source = values[setting.name], f"{reading.file}: {key}"
        if setting.joined is not None:
            values[setting.name] = setting.joined(ours, theirs)
        elif sources[setting.name] == DEFAULT:
            values[setting.name] = theirs
        if values[setting.name] == ours != theirs:
            reading.warnings.append(
                f"{source} = {theirs!r} has no effect: the server sets {ours!r}"
            )
            continue
        both = ours and values[setting.name] not in (ours, theirs)
        sources[setting.name] = f"{sources[setting.name]}, {source}" if both else source
        applied[setting.name] = theirs
    patterns = [full_reach(settings).patterns_at(root), Patterns(root, settings.ignore_patterns)]
    if context is not None:
        patterns.append(Patterns(context.path.parent, applied.get("ignore_patterns", ())))
    return RepositorySettings(
        **values,
        selection=Selection(
            values["max_file_bytes"],
            tuple(part for part in patterns if part.lines),
            values["include_submodules"],
            choice_of(settings),
            _shown_secrets(settings, root),
        ),
        sources=sources,
        context=reading.file or None,
        applied=applied,
        warnings=tuple(reading.warnings),
    )


def choice_of(settings: Settings) -> str:
    """Our settings that select files of a tree, as text to compare."""
    # Earlier versions left submodules out by default, and wrote down False: they are added to the
    # indexes that such a version made, which are followed as before.
    without = not settings.include_submodules
    ours = (settings.max_file_bytes, without, *sorted(settings.ignore_patterns))
    return joined_choice(repr(ours), settings.include_secrets)


def _shown_secrets(settings: Settings, root: Path) -> Patterns | None:
    return Patterns(root, settings.include_secrets) if settings.include_secrets else None


def _as_problem(context: ContextText, error: InvalidInput) -> Problem:
    file = path_text(context.path)
    field, value = error.details["field"], error.details["value"]
    message = error.message.removeprefix(f"{file}: ")
    return {"field": f"{file}: {field}", "value": str(value or ""), "constraint": message}


def _read_row(setting: Setting, content: Mapping[str, Any], reading: ContextValues) -> None:
    for key in setting.keys:
        value = _at(content, key)
        if value is _MISSING:
            continue
        source = f"{reading.file}: {key}"
        try:
            parsed = setting.rule.parse_toml(value)
        except ValueError as error:
            reading.problems.append(problem(setting, source, value, str(error)))
            continue
        first_key, value_there = reading.values.setdefault(setting.name, (key, parsed))
        if value_there != parsed:
            rule = f"must not differ from {first_key}"
            reading.problems.append(problem(setting, source, value, rule))


def _at(content: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key."""
    table, _, name = key.rpartition(".")
    inner = content.get(table, {}) if table else content
    return inner.get(name, _MISSING) if isinstance(inner, Mapping) else _MISSING


def _misnamed(content: Mapping[str, Any], file: str) -> Iterator[str]:
    """Warnings about keys that look like ours and have no effect. Foreign keys are ignored."""
    if "git" in content and not isinstance(content["git"], Mapping):
        yield f"{file}: git must be a table, [git]"
    for table in sorted(_TABLES):
        inner = content if not table else content.get(table)
        lead = f"{table}." if table else ""
        for name in inner if isinstance(inner, Mapping) else ():
            key = f"{lead}{name}"
            if key in _KEYS or key in _TABLES:
                continue
            if name.lower().replace("-", "_") in _ELSEWHERE:
                yield f"{file}: {key} has no effect: a repository cannot set it"
            elif question := nearest(key, _KEYS):
                yield f"{file}: {key} is not a setting{question}"


def resolve_for(identity: Identity, settings: Settings, repo_path: str | Path) -> Path:
    """The real directory that a caller names: every path that a caller gives passes here.

    Raises:
        InvalidInput: it is not a directory that can be indexed.
        PermissionDenied: the caller, or this program, may not read it.
    """
    return resolve_root(str(repo_path), reach_of(identity, settings))


def reach_of(identity: Identity, settings: Settings) -> Reach:
    """The directories that a caller may read."""
    if identity.access.reads_as_server:
        return full_reach(settings)
    roots = allowed_roots(settings)
    if identity.access.roots is not None:
        roots = _common(roots, _real(identity.access.roots))
    return Reach(roots, closed_folders(settings))


def full_reach(settings: Settings) -> Reach:
    """The directories that the user of the server may read, our clones included."""
    return Reach(None, closed_folders(settings), clones_in(settings))


def apply_to_process(settings: Settings) -> None:
    """Set what libraries and git read from global state: folders, and the allowed roots.

    From then on, git records of a tree below an allowed root are accepted only below such a root.
    """
    grammars.choose(settings.data_dir / "grammars")
    keep_rules_in(settings.data_dir / "secret-rules")
    confine_git(allowed_roots(settings))


def allowed_roots(settings: Settings) -> tuple[Path, ...]:
    """The allowed roots as real paths."""
    return _real(settings.roots)


def closed_folders(settings: Settings) -> tuple[Path, ...]:
    """Folders that nobody may read: the kernel's, and ours with the database's files."""
    return (*KERNEL_FOLDERS, Path(os.path.realpath(settings.data_dir)), SYSTEM_FOLDER)


def clones_in(settings: Settings) -> Path:
    return Path(os.path.realpath(settings.data_dir.expanduser()), "repositories")


def _real(roots: Iterable[str]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(root)) for root in roots)


def _common(roots: tuple[Path, ...], further: tuple[Path, ...]) -> tuple[Path, ...]:
    """The roots of the directories below both; of two nested roots the inner."""
    inner = [a for a in roots for b in further if a.is_relative_to(b)]
    inner += [b for b in further for a in roots if b.is_relative_to(a)]
    return tuple(dict.fromkeys(inner))
