"""Hints for agents, who call tools, as somebody at a shell can follow them."""

from __future__ import annotations

import json

import pytest

from codebase_mcp.cli.main import show_error
from codebase_mcp.cli.tool_commands import in_commands
from codebase_mcp.errors import NotFound
from codebase_mcp.tools.text import counted


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "Make it first: index_repository with this project_id, or create_project.",
            "Make it first: codebase-mcp index with this --project, or codebase-mcp "
            "create_project.",
        ),
        (
            'Call index_repository(repo_path="/srv/a, b", project_id="shop") first.',
            'Call codebase-mcp index "/srv/a, b" --project "shop" first.',
        ),
        (
            'Start it first: session(operation="start").',
            'Start it first: codebase-mcp session --operation "start".',
        ),
        (
            "Rebuild it: index_repository with force_reindex=true.",
            "Rebuild it: codebase-mcp index with --force.",
        ),
        (
            "Pass allow_breaking=true; with validate_existing=false it is made.",
            "Pass --allow-breaking; with --validate-existing false it is made.",
        ),
        (
            'Name it once: switch_project with project_id="shop".',
            'Name it once: codebase-mcp switch_project with --project "shop".',
        ),
        ("Take task_id from list_tasks.", "Take --task-id from codebase-mcp list_tasks."),
        # What only looks like one stays: words, paths, keys of files, parts of names.
        ("A session has limits; codebase-mcp jobs lists them.", None),
        ("Look into /srv/task_id/index_repository first.", None),
        ("Write project_id = 'shop' into .mcp-context.toml.", None),
        ("Pass filter.file_extensions.", None),
        ("Set memory_limit=5.", None),
    ],
)
def test_tools_and_parameters_become_commands_and_flags(hint: str, said: str | None) -> None:
    assert in_commands(hint) == (said or hint)


@pytest.mark.parametrize("as_json", [True, False])
def test_every_error_of_a_command_hints_at_commands(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    show_error(NotFound("Task not found", hint="Take task_id from list_tasks."), as_json=as_json)
    shown = capsys.readouterr()
    hint = "Take --task-id from codebase-mcp list_tasks."
    if as_json:
        assert json.loads(shown.out)["error"]["hint"] == hint
    else:
        assert shown.err == f"Error: Task not found\nHint:  {hint}\n"


def test_counts_of_one_are_singular() -> None:
    assert [counted(n, "project") for n in (0, 1, 2)] == ["0 projects", "1 project", "2 projects"]
