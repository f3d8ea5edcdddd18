"""Show every setting with its value and source; let a context file select its project."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from codebase_mcp.access.context_file import FILE_NAME, ContextFiles, path_text
from codebase_mcp.app.app import App
from codebase_mcp.cli.output import print_json, tell
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.settings.loading import DEFAULT, SETTINGS, Setting, Settings, text_of
from codebase_mcp.settings.repository import RepositorySettings, repository_at

# Wide enough for a path per line where there is no terminal window.
_FILE_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class _Row:
    setting: Setting
    value: Any
    source: str

    @property
    def text(self) -> str:
        """The value for people; for a default that depends on the machine, its description."""
        return text_of(self.setting, self.value) or self.setting.default_words or "-"


async def settings_command(options: argparse.Namespace, settings: Settings) -> int:
    root = Path(options.path).expanduser().absolute()
    repository = repository_at(settings, root.resolve())
    rows = _rows(settings, repository, _project_in(root, settings))
    if options.json:
        print_json(_as_json(rows, settings, repository))
    else:
        _print(rows, repository)
    return 0


def _rows(
    settings: Settings, repository: RepositorySettings, project: tuple[str | None, str]
) -> list[_Row]:
    rows = []
    for setting in SETTINGS:
        name = setting.name
        value, source = getattr(settings, name), settings.sources[name]
        if name in repository.sources:
            value, source = getattr(repository, name), repository.sources[name]
        elif name == "project" and source == DEFAULT:
            value, source = project
        rows.append(_Row(setting, value, source))
    return rows


def _project_in(root: Path, settings: Settings) -> tuple[str | None, str]:
    """The project that a context file names here, and which file."""
    named = None if settings.project else ContextFiles().nearest(root)
    if named is None:
        return None, DEFAULT
    return named.project_id or "default", f"{path_text(named.path)}: project"


def _as_json(
    rows: list[_Row], settings: Settings, repository: RepositorySettings
) -> Mapping[str, Any]:
    return {
        "settings": {
            row.setting.name: {
                "value": _plain(row),
                "source": row.source,
                "flag": row.setting.flag if row.setting.has_flag else None,
                "variable": row.setting.variable,
                "keys": list(row.setting.keys),
            }
            for row in rows
        },
        "context": repository.context,
        "warnings": [*settings.warnings, *repository.warnings],
    }


def _plain(row: _Row) -> Any:
    """A value as JSON has it, without anything secret."""
    if isinstance(row.value, (bool, int, float)) or row.value is None:
        return row.value
    if isinstance(row.value, tuple):
        return list(row.value)
    return text_of(row.setting, row.value)


def _print(rows: list[_Row], repository: RepositorySettings) -> None:
    console = Terminal()
    if not console.is_terminal:
        console.width = _FILE_COLUMNS
    for section in dict.fromkeys(row.setting.section for row in rows):
        table = Table(title=section, title_justify="left", box=None, padding=(0, 2, 0, 0))
        table.add_column("variable", no_wrap=True)
        table.add_column("value", overflow="fold")
        table.add_column("source", overflow="fold")
        for row in rows:
            if row.setting.section == section:
                style = "dim" if row.source == DEFAULT else ""
                cells = (row.setting.variable, row.text, row.source)
                table.add_row(*cells, style=style)
        console.print(table)
        console.print()
    for warning in repository.warnings:
        console.print(warning, style="yellow")
    if repository.context is None:
        console.print(f"No {FILE_NAME} here or above.", style="dim")


async def trust(options: argparse.Namespace, settings: Settings) -> int:
    """Let the nearest ``.mcp-context.toml`` upward name a project that existed before it."""
    directory = Path(options.directory).expanduser().absolute()
    async with await App.open(settings) as app:
        context, project = await app.resolver.confirm(directory)
    file, named = path_text(context.path), context.project_id
    text = f"{file} may name {named or 'the default workspace'} from now on"
    if project is None:
        text = f"{file} names {named}, which does not exist yet; codebase-mcp index makes it"
    content = {"file": file, "project_id": named, "trusted": project is not None}
    return tell(options, content, text)
