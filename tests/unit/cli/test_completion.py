"""The completion scripts, asked in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.cli.commands import all_commands
from codebase_mcp.cli.main import script

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
complete -p codebase-mcp >/dev/null || exit 3
_shtab_codebase_mcp "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASK_FISH = "source $argv[1]; complete -C (string join ' ' -- $argv[2..])"
Ask = Callable[..., set[str]]


@pytest.fixture(params=["bash", "fish"])
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Ask:
    """What a shell offers for the last of these words."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    file = tmp_path / "completion"
    file.write_text(script(request.param), "utf-8")
    (tmp_path / "sources").mkdir()
    (tmp_path / "songs.txt").touch()

    def asked(*words: str) -> set[str]:
        command = (
            ["bash", "-c", ASK_BASH, "bash", file]
            if request.param == "bash"
            else ["fish", "--no-config", "-c", ASK_FISH, file]
        )
        done = subprocess.run(
            [*command, "codebase-mcp", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines()}

    return asked


def test_a_shell_completes_commands_actions_options_and_paths(ask: Ask) -> None:
    assert {command.name for command in all_commands()} <= ask("")
    assert ask("log-s") == {"log-search"}
    assert {"list", "add", "update"} <= ask("tasks", "")
    assert {"start", "show"} == ask("tasks", "s") - {"sources", "songs.txt"}
    assert ask("index", "--fo") == {"--force", "--forks"}
    assert ask("symbol", "call") == {"callers", "callees"}
    assert ask("index", "so") == {"sources"}  # a directory is meant
    assert ask("import", "son") == {"songs.txt"}
    assert ask("serve", "--allowed-h") == {"--allowed-hosts"}


def test_zsh_takes_its_script(tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    file = tmp_path / "_codebase-mcp"
    file.write_text(script("zsh"), "utf-8")
    load = "fpath=($1 $fpath); autoload -U compinit; compinit -u -D; print $_comps[codebase-mcp]"
    done = subprocess.run(
        [zsh, "-f", "-c", f"{load}; autoload -U +X _codebase-mcp", "zsh", tmp_path],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("_codebase-mcp\n", "")
    assert subprocess.run([zsh, "-n", file], check=True, capture_output=True).stderr == b""
