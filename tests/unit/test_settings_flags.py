"""Every setting is a flag of every command."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.cli import tool_commands
from codebase_mcp.cli.command import command_first, flags_in
from codebase_mcp.cli.main import build_parser, run
from codebase_mcp.settings.loading import SETTINGS, Setting, Settings
from codebase_mcp.tools.arguments import ALIASES
from codebase_mcp.tools.catalog import all_tools

FLAGGED = [setting for setting in SETTINGS if setting.has_flag]


def as_flag(setting: Setting) -> list[str]:
    """The setting on a command line."""
    return [setting.flag] if setting.rule.toml is bool else [setting.flag, "x"]


def commands_of(parser: argparse.ArgumentParser, lead: tuple[str, ...] = ()) -> list[Any]:
    """All commands below a parser, with their parsers."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                found += [((*lead, name), inner), *commands_of(inner, (*lead, name))]
    return found


@pytest.mark.parametrize("setting", FLAGGED, ids=lambda setting: setting.name)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_flag_stands_before_the_command_or_behind_it(setting: Setting, before: bool) -> None:
    flag = as_flag(setting)
    line = [*flag, "serve"] if before else ["serve", *flag]
    value = "true" if setting.rule.toml is bool else "x"
    for arguments in (line, flag):  # without a command it serves
        assert flags_in(build_parser().parse_args(arguments)) == {setting.name: value}


def test_the_last_flag_of_several_counts() -> None:
    options = build_parser().parse_args(["--port", "1", "serve", "--port=2", "--sse", "--no-sse"])
    assert flags_in(options) == {"port": "2", "sse": "false"}


def test_a_flag_of_a_list_may_be_repeated() -> None:
    line = command_first(["--root", "/c", "serve", "--root=/a,/b"])
    assert flags_in(build_parser().parse_args(line)) == {"roots": "/a,/b,/c"}
    line = ["serve", "--include-secrets", "a,b\nc", "--include-secrets", "d,e"]
    assert flags_in(build_parser().parse_args(line)) == {"include_secrets": "a,b\nc\nd\ne"}


def test_every_command_takes_settings() -> None:
    commands = commands_of(build_parser())
    assert len(commands) > 20
    for name, inner in commands:
        options = inner.parse_args([*required_by(inner), "--log-level", "debug"])
        assert flags_in(options)["log_level"] == "debug", name


@pytest.mark.parametrize("name", ["search", "tasks", "model", "jobs", "purge", "setup", "settings"])
def test_one_commands_parser_is_the_same_without_the_others(name: str) -> None:
    alone, every = build_parser(only=name), build_parser()
    [commands] = [a for a in alone._actions if isinstance(a, argparse._SubParsersAction)]
    assert list(commands.choices) == [name]
    assert alone.format_usage() == every.format_usage()
    helps = {
        found: parser.format_help() for found, parser in commands_of(every) if found[0] == name
    }
    assert {found: parser.format_help() for found, parser in commands_of(alone)} == helps


def test_of_an_unknown_command_all_that_there_are_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run(["serch"])
    assert "'search', 'grep', 'context'" in capsys.readouterr().err


def required_by(parser: argparse.ArgumentParser) -> list[str]:
    """Arguments without which a command is not content."""
    found = []
    for action in parser._actions:
        value = str(next(iter(action.choices))) if action.choices else "x"
        if action.option_strings and action.required:
            found += [action.option_strings[0], value]
        elif not action.option_strings and action.nargs in (None, "+"):
            found.append(value)
    return found


def test_api_keys_are_no_flags() -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["serve", "--openai-api-key", "x"])


def test_an_abbreviated_flag_is_refused() -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["serve", "--log-lev", "debug"])


def test_a_commands_own_option_comes_first() -> None:
    options = build_parser().parse_args(["index", ".", "--project", "mine"])
    assert options.project == "mine"
    assert flags_in(options) == {}


def test_no_parameter_of_a_tool_is_hidden_by_a_setting() -> None:
    flags = {setting.flag for setting in FLAGGED}
    for tool in all_tools():
        names = {*tool.input_schema()["properties"], *ALIASES}
        assert not flags & {f"--{name.replace('_', '-')}" for name in names}


@pytest.mark.parametrize(
    "line",
    [
        ["search_code", "--query", "x", "--log-level", "debug"],
        ["--log-level", "debug", "search_code", "--query", "x"],
        ["--log-level=debug", "--sse", "search_code", "--query", "x"],
    ],
)
def test_commands_of_tools_take_settings_too(line: list[str]) -> None:
    ordered = command_first(line)
    assert tool_commands.is_tool(ordered)
    options = tool_commands.parse(ordered)
    assert options.values == {"query": "x"}
    assert flags_in(options)["log_level"] == "debug"


def test_the_help_lists_settings_by_section_where_they_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    helps = {}
    for command in ("serve", "settings", "index"):
        with pytest.raises(SystemExit):
            build_parser().parse_args([command, "--help"])
        helps[command] = capsys.readouterr().out
    assert all(f"{s.section.lower()} settings:" in helps["serve"] for s in SETTINGS)
    assert all(s.flag in helps["settings"] for s in FLAGGED)
    assert "list of processes" in " ".join(helps["serve"].split())
    assert "--workers" not in helps["index"]
    assert "codebase-mcp settings --help" in helps["index"]


# codebase-mcp settings


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory, and an environment in which nothing of ours is set."""
    ours = {n for s in SETTINGS for n in (s.variable, s.also, s.file_variable)}
    for name in [n for n in os.environ if n in ours or n.startswith("CODEBASE_MCP_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_settings_shows_values_with_their_sources(
    alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2@h/d")
    monkeypatch.setenv("CODEBASE_MCP_PROT", "1")
    (alone / FILE_NAME).write_text('project = "my-app"\n[git]\ndepth = 3\nbranch = "x"\n')
    assert run(["settings", str(alone), "--json", "--workers", "3"]) == 0
    output = capsys.readouterr()
    assert "hunter2" not in output.out + output.err
    shown = json.loads(output.out)
    said = {n: (s["value"], s["source"]) for n, s in shown["settings"].items()}
    assert list(said) == [setting.name for setting in SETTINGS]
    assert said["database_url"] == ("…", "DATABASE_URL")
    assert said["workers"] == (3, "--workers")
    assert said["git_depth"] == (3, f"{alone / FILE_NAME}: git.depth")
    assert said["project"] == ("my-app", f"{alone / FILE_NAME}: project")
    assert said["port"] == (3000, "default")
    assert shown["context"] == str(alone / FILE_NAME)
    assert [w.rpartition("; ")[2] for w in shown["warnings"]] == [
        "did you mean CODEBASE_MCP_PORT?",
        "did you mean git.branches?",
    ]


def test_settings_can_be_read_by_people(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", str(alone), "--data-dir", "/data"]) == 0
    output = capsys.readouterr().out
    assert all(setting.variable in output for setting in SETTINGS)
    assert "/data" in output
    assert "--data-dir" in output


def test_everything_wrong_is_said_before_anything_starts(
    alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DB_POOL_SIZE", "many")
    (alone / FILE_NAME).write_text("[git]\ndepth = 0\n")
    data = alone / "data"
    assert run(["index", str(alone), "--json", "--data-dir", str(data), "--workers", "0"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert [problem["field"] for problem in error["details"]["fields"]] == [
        "DB_POOL_SIZE",
        "--workers",
        f"{alone / FILE_NAME}: git.depth",
    ]
    assert not data.exists()


def test_a_flag_that_lists_may_be_repeated() -> None:
    options = build_parser().parse_args(
        ["serve", "--allow-ip", "10.0.0.0/8,::1", "--allow-ip", "192.0.2.7"]
    )
    settings = Settings.load({}, **flags_in(options))
    assert settings.allow_ip == ("10.0.0.0/8", "::1/128", "192.0.2.7/32")
