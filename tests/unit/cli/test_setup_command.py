"""``codebase-mcp setup`` on a home directory with the files that each client leaves there."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import files_below, machine, setup

from codebase_mcp.cli.setup.clients import CLIENTS, Client, Machine
from codebase_mcp.cli.setup.command import own_command
from codebase_mcp.cli.setup.edit import BEGIN
from codebase_mcp.cli.setup.json_edit import load
from codebase_mcp.cli.setup.plan import Change, Receipt, Receipts, Unfit, apply

BY_NAME = {client.name: client for client in CLIENTS}
DESKTOP = "Claude/claude_desktop_config.json"
COMMENTED = ("vscode", "zed", "opencode")
WITH_PROJECT = [client.name for client in CLIENTS if client.project]


def config_of(client: Client, home: Path) -> Path:
    return client.user(machine(home))


def skill_of(client: Client, home: Path) -> Path | None:
    return client.skill_file("user", machine(home), home)


def sample(client: Client) -> bytes:
    """A configuration as the client's users have it: another server, comments where they may be."""
    if client.is_toml:
        return b'model = "x" # mine\r\n\r\n[mcp_servers.other]\r\ncommand = "y"\r\n# the end'
    section = client.sections[-1][0]
    comment = "  // what I like\n" if client.name in COMMENTED else ""
    return (
        f'{{\n{comment}  "theme": "dark",\n  "{section}": {{\n'
        '    "other": {"command": "y"}\n  }\n}\n'
    ).encode()


def entry_in(client: Client, path: Path) -> Any:
    text = path.read_text("utf-8")
    content = tomllib.loads(text) if client.is_toml else load(text)
    return content[client.sections[-1][0]]["codebase"]


@pytest.mark.parametrize("name", BY_NAME)
def test_setting_up_and_removing_a_client_restores_its_files(name: str, home: Path) -> None:
    client, path = BY_NAME[name], config_of(BY_NAME[name], home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sample(client))
    before = files_below(home)
    assert setup(name, "--yes", "--command", "/usr/local/bin/codebase-mcp", "--env", "A=b=c") == 0
    entry = entry_in(client, path)
    assert "/usr/local/bin/codebase-mcp" in (entry["command"], entry["command"][0])
    assert {"A": "b=c"} in (entry.get("env"), entry.get("environment"))
    assert b"other" in path.read_bytes()
    once = files_below(home)
    ours = [client.rules_file("user", machine(home), home), skill_of(client, home)]
    written = [path.read_text("utf-8") for path in ours if path is not None]
    assert len(once) == len(before) + len(written)
    assert all(BEGIN in text for text in written)
    assert setup(name, "--yes", "--command", "/usr/local/bin/codebase-mcp", "--env", "A=b=c") == 0
    assert files_below(home) == once
    assert setup(name, "--remove", "--yes") == 0
    assert files_below(home) == before


@pytest.mark.parametrize("name", BY_NAME)
def test_created_folders_and_files_are_deleted_again(name: str, home: Path) -> None:
    assert setup(name, "--yes") == 0
    assert config_of(BY_NAME[name], home).exists()
    assert setup(name, "--remove", "--yes") == 0
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", WITH_PROJECT)
def test_setting_up_and_removing_a_project_restores_its_files(name: str, project: Path) -> None:
    (project / "AGENTS.md").write_text("# Rules\n")
    assert setup(name, "--scope", "project", "--yes") == 0
    written = files_below(project)
    assert any("codebase" in content.decode() for content in written.values())
    assert len(written) > 1
    assert setup(name, "--scope", "project", "--remove", "--yes") == 0
    assert files_below(project) == {"AGENTS.md": b"# Rules\n"}
    assert [p.name for p in project.iterdir()] == ["AGENTS.md"]


@pytest.mark.parametrize("name", [c.name for c in CLIENTS if c.remote])
def test_a_remote_server_is_written_with_its_url(name: str, home: Path) -> None:
    assert setup(name, "--yes", "--http", "https://code.example/mcp") == 0
    entry = entry_in(BY_NAME[name], config_of(BY_NAME[name], home))
    assert "https://code.example/mcp" in entry.values()
    assert "command" not in entry
    assert setup(name, "--remove", "--yes") == 0
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", [c.name for c in CLIENTS if c.remote])
def test_a_key_is_written_as_a_reference_to_a_variable_where_the_client_documents_that(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, remote = BY_NAME[name], ("--yes", "--http", "https://code.example/mcp")
    assert setup(name, *remote) == 0
    assert "--key-env NAME" in capsys.readouterr().err
    plain = entry_in(client, config_of(client, home))
    assert setup(name, *remote, "--key-env", "TEAM_KEY") == 0
    told = capsys.readouterr().err
    entry = entry_in(client, config_of(client, home))
    added = [(field, value) for field, value in entry.items() if field not in plain]
    if client.keyed is None:
        assert not added
        assert '"headers": {"Authorization": "Bearer KEY"}' in told
        return
    assert "Set TEAM_KEY to the key" in told
    [(field, value)] = added
    if client.is_toml:
        assert (field, value) == ("bearer_token_env_var", "TEAM_KEY")
    else:
        reference = value["Authorization"].removeprefix("Bearer ")
        assert (field, list(value)) == ("headers", ["Authorization"])
        assert reference in ("${TEAM_KEY}", "${env:TEAM_KEY}", "{env:TEAM_KEY}")


def test_a_client_without_support_for_urls_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup("claude-desktop", "--yes", "--http", "https://code.example/mcp") == 1
    assert "Claude Desktop cannot read a URL from its file" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_only_our_part_is_removed_from_a_changed_file(home: Path) -> None:
    path = config_of(BY_NAME["claude-code"], home)
    path.write_bytes(sample(BY_NAME["claude-code"]))
    setup("claude-code", "--yes")
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    rules = home / ".claude" / "CLAUDE.md"
    rules.write_text(rules.read_text() + "More.\n")
    assert setup("claude-code", "--remove", "--yes") == 0
    assert path.read_bytes() == sample(BY_NAME["claude-code"]).replace(b"dark", b"light")
    assert rules.read_text() == "More.\n"


def test_our_part_is_removed_without_a_receipt_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("codex", "zed"):
        path = config_of(BY_NAME[name], home)
        path.parent.mkdir(parents=True)
        path.write_bytes(sample(BY_NAME[name]))
        setup(name, "--yes")
    monkeypatch.setenv("CODEBASE_MCP_DATA_DIR", str(tmp_path / "another"))
    assert setup("codex", "zed", "--remove", "--yes") == 0
    for name in ("codex", "zed"):
        assert config_of(BY_NAME[name], home).read_bytes() == sample(BY_NAME[name])
    assert not (home / ".codex" / "AGENTS.md").exists()


def test_toolsets_and_their_instructions_are_updated(home: Path) -> None:
    setup("claude-code", "--yes")
    rules = home / ".claude" / "CLAUDE.md"
    assert "list_tasks" not in rules.read_text()
    setup("claude-code", "--yes", "--toolsets", "code,tasks", "--command", "codebase-mcp")
    entry = entry_in(BY_NAME["claude-code"], home / ".claude.json")
    assert entry == {
        "type": "stdio",
        "command": "codebase-mcp",
        "args": ["serve", "--toolsets", "code,tasks"],
    }
    assert "list_tasks" in rules.read_text()
    assert setup("claude-code", "--remove", "--yes") == 0
    assert list(home.iterdir()) == []


def test_a_manually_written_entry_is_updated_and_removed(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"mcpServers": {"codebase": {"command": "/old/bin/codebase-mcp"}}}')
    assert setup("claude-code", "--yes", "--command", "/new/codebase-mcp") == 0
    assert setup("claude-code", "--remove", "--yes") == 0
    assert path.read_text() == '{"mcpServers": {}}'


def test_another_server_of_that_name_stays_unless_forced(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".claude.json"
    path.write_text('{"mcpServers": {"codebase": {"command": "other"}}}')
    for arguments in (("--yes",), ("--yes", "--remove")):
        assert setup("claude-code", *arguments) == 1
        assert "another server is named codebase" in capsys.readouterr().err
    assert path.read_text() == '{"mcpServers": {"codebase": {"command": "other"}}}'
    assert setup("claude-code", "--yes", "--name", "code") == 0
    assert set(json.loads(path.read_text())["mcpServers"]) == {"codebase", "code"}
    assert setup("claude-code", "--yes", "--force") == 0
    assert json.loads(path.read_text())["mcpServers"]["codebase"]["command"] != "other"


def test_an_invalid_file_stops_everything_and_its_line_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude.json").write_text('{\n  "mcpServers": {,}\n}')
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("a = 1\nb = \n")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_bytes(b'{\n"a": "\xff"}')
    before = files_below(home)
    assert setup("claude-code", "codex", "cursor", "zed", "--yes") == 1
    err = capsys.readouterr().err
    assert f"{home}/.claude.json: line 2, column 18" in err
    assert f"{home}/.codex/config.toml: the file is not valid TOML" in err
    assert "line 2" in err
    assert f"{home}/.cursor/mcp.json: line 2: the file is not UTF-8" in err
    assert files_below(home) == before


def test_a_link_is_followed_and_stays_a_link(home: Path) -> None:
    (home / "dotfiles").mkdir()
    real = home / "dotfiles" / "claude.json"
    real.write_text("{}\n")
    real.chmod(0o640)
    (home / ".claude.json").symlink_to(real)
    assert setup("claude-code", "--yes") == 0
    assert (home / ".claude.json").is_symlink()
    assert "codebase" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    setup("claude-code", "--remove", "--yes")
    assert (home / ".claude.json").is_symlink()
    assert real.read_text() == "{}\n"


def test_a_link_out_of_the_project_is_refused(
    project: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "secret.json").write_text("{}")
    (project / ".mcp.json").symlink_to(home / "secret.json")
    assert setup("claude-code", "--scope", "project", "--yes") == 1
    assert "outside the project" in capsys.readouterr().err
    assert (home / "secret.json").read_text() == "{}"


@pytest.mark.parametrize("kind", ["read-only", "folder", "loop"])
def test_paths_that_are_not_writable_files_are_refused(
    kind: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".claude.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_text("{}")
        path.chmod(0o444)
    assert setup("claude-code", "--yes") == 1
    said = {"read-only": "is read-only", "folder": "is not a file", "loop": "link"}[kind]
    assert said in capsys.readouterr().err.lower()
    assert not (home / ".claude").exists()


def test_new_user_files_are_private(home: Path) -> None:
    setup("claude-code", "--yes", "--env", "TOKEN=secret")
    assert stat.S_IMODE((home / ".claude.json").stat().st_mode) == 0o600


def test_a_failure_midway_restores_everything(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude.json").write_text("{}")
    (home / ".claude").write_text("a file where a folder has to be")
    assert setup("claude-code", "--yes") == 1
    assert "Nothing was changed" in capsys.readouterr().err
    assert (home / ".claude.json").read_text() == "{}"
    (home / ".claude").unlink()
    assert setup("claude-code", "--yes") == 0
    assert setup("claude-code", "--remove", "--yes") == 0
    assert (home / ".claude.json").read_text() == "{}"


def test_nothing_is_written_by_a_dry_run_or_without_confirmation(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup("claude-code", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert f"{home}/.claude.json  (new file)" in shown
    assert '+    "codebase": {' in shown
    assert setup("claude-code") == 1
    assert (
        "Pass --yes to write the changes, or --dry-run to only show them."
        in capsys.readouterr().err
    )
    assert list(home.iterdir()) == []


def test_the_backup_of_the_file_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".claude.json").write_text('{"a": 1}')
    assert setup("claude-code", "--yes", "--json") == 0
    reply = json.loads(capsys.readouterr().out)
    assert [row["changed"] for row in reply] == [True, True, True]
    assert Path(reply[0]["copy"]).read_text() == '{"a": 1}'


def test_a_shared_file_stays_until_the_last_client_is_removed(project: Path) -> None:
    assert setup("codex", "opencode", "--scope", "project", "--yes") == 0
    assert (project / "AGENTS.md").read_text().count(BEGIN) == 1
    assert setup("codex", "--scope", "project", "--remove", "--yes") == 0
    assert BEGIN in (project / "AGENTS.md").read_text()
    assert setup("opencode", "--scope", "project", "--remove", "--yes") == 0
    assert list(project.iterdir()) == []


def test_zed_gets_its_instructions_where_it_reads_them(project: Path) -> None:
    (project / ".rules").write_text("# Rules\n")
    assert setup("zed", "--scope", "project", "--yes") == 0
    assert BEGIN in (project / ".rules").read_text()
    assert not (project / "AGENTS.md").exists()


def test_instructions_are_left_out_when_they_are_not_wanted(home: Path) -> None:
    assert setup("claude-code", "--yes", "--no-instructions") == 0
    assert [p.name for p in home.iterdir()] == [".claude.json"]


def test_all_selects_the_installed_clients(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".cursor").mkdir()
    (tmp_path / "no-programs").mkdir()
    program = tmp_path / "no-programs" / "codex"
    program.write_text("")
    program.chmod(0o755)
    assert setup("--json") == 0
    rows = {row["client"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name for name, row in rows.items() if row["installed"]} == {"cursor", "codex"}
    assert {row["configured"] for row in rows.values()} == {"no"}
    assert setup("--all", "--yes") == 0
    capsys.readouterr()
    setup("--json")
    rows = {row["client"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name for name, row in rows.items() if row["configured"] == "yes"} == {"cursor", "codex"}
    assert setup("--all", "--remove", "--yes") == 0
    assert files_below(home) == {}


def test_the_list_reports_invalid_files(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".claude.json").write_text("{")
    assert setup() == 0
    assert "line 1, column 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nano"], "nano is not a known client"),
        (["codex", "--name", "a b"], "--name"),
        (["codex", "--env", "A"], "--env A: must be NAME=VALUE"),
        (["codex", "--http", "ftp://x"], "must begin with http"),
        (
            ["codex", "--http", "http://x/mcp", "--env", "A=b"],
            "cannot be combined with --command or --env",
        ),
        (["codex", "--key-env", "KEY"], "--key-env: only with --http"),
        (["codex", "--http", "http://x/mcp", "--key-env", "cbm_aB3_x"], "not the key itself"),
        (["codex", "--toolsets", "cod"], "must be 'all', 'agent' or some of"),
        (["windsurf", "--scope", "project"], "no project configuration"),
        (["codex", "--scope", "project", "--project-dir", "/no/such"], "is not a directory"),
    ],
)
def test_invalid_options_are_refused(
    arguments: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup(*arguments, "--yes") == 1
    assert said in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "environment", "name", "expected"),
    [
        ("darwin", {}, "claude-desktop", f"Library/Application Support/{DESKTOP}"),
        ("win32", {}, "claude-desktop", f"AppData/Roaming/{DESKTOP}"),
        ("linux", {}, "claude-desktop", f".config/{DESKTOP}"),
        ("darwin", {}, "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("darwin", {}, "zed", ".config/zed/settings.json"),
        ("win32", {"APPDATA": "/h/R"}, "zed", "R/Zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "/h/c"}, "zed", "c/zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "/h/c"}, "opencode", "c/opencode/opencode.json"),
        ("linux", {"CODEX_HOME": "/h/cx"}, "codex", "cx/config.toml"),
        ("linux", {"CLAUDE_CONFIG_DIR": "/h/cl"}, "claude-code", "cl/.claude.json"),
        ("linux", {}, "claude-code", ".claude.json"),
    ],
)  # fmt: skip
def test_files_are_in_the_folders_of_the_platform(
    platform: str, environment: dict[str, str], name: str, expected: str
) -> None:
    assert BY_NAME[name].user(Machine(Path("/h"), platform, environment)) == Path("/h", expected)


def test_answering_no_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    master, slave = os.openpty()
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        os.write(master, b"n\n")
        assert setup("claude-code") == 1
        assert list(home.iterdir()) == []
        os.write(master, b"y\n")
        assert setup("claude-code") == 0
    os.close(master)
    assert (home / ".claude.json").exists()
    assert "Nothing was changed." in capsys.readouterr().err


def test_a_file_that_changes_in_the_meantime_is_not_overwritten(tmp_path: Path) -> None:
    first, second = tmp_path / "new" / "a.json", tmp_path / "b.json"
    second.write_text("theirs")
    receipts = Receipts(tmp_path / "receipts")
    changes = [
        Change(path, before, b"ours", Receipt(str(path), ("zed",), before is not None))
        for path, before in ((first, None), (second, b"as it was"))
    ]
    with pytest.raises(Unfit, match="has changed in the meantime"):
        apply(changes, receipts, mode=0o600)
    assert second.read_text() == "theirs"
    assert not first.parent.exists()
    assert receipts.of(first) is None


def test_the_command_is_not_in_a_temporary_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = own_command()
    assert Path(command) == Path(sys.executable).parent / "codebase-mcp"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "uv" / "archive-v0" / "x1"))
    assert own_command() == ["uvx", f"codebase-mcp=={version('codebase-mcp')}"]
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command() == [str(tmp_path / "python"), "-m", "codebase_mcp.cli.main"]


def test_a_shared_file_names_the_command_as_every_shell_finds_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert setup("claude-code", "--scope", "project", "--yes") == 0
    entry = entry_in(BY_NAME["claude-code"], project / ".mcp.json")
    assert entry["command"] == "codebase-mcp"
