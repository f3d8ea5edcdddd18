"""The skill that ``codebase-mcp setup`` writes: it is ours alone, and true."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.unit.cli.conftest import files_below, machine, setup

from codebase_mcp.cli.main import build_parser
from codebase_mcp.cli.setup.clients import CLIENTS, SKILL, SKILL_HEADER, SKILL_NAME
from codebase_mcp.cli.setup.edit import BEGIN, SkillFile

BARE = ("--index", "--json")  # flags of `search` without a value


def test_a_skill_of_the_users_own_is_left_alone(home: Path) -> None:
    own = home / ".claude" / "skills" / "codebase-mcp" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: codebase-mcp\ndescription: mine\n---\nMine.\n")
    before = files_below(home)
    assert setup("claude-code", "--yes") == 0
    assert files_below(home)[str(own.relative_to(home))] == own.read_bytes()
    assert "Mine." in own.read_text()
    assert BEGIN not in own.read_text()
    assert setup("claude-code", "--remove", "--yes") == 0
    assert files_below(home) == before


def test_a_skill_that_several_read_stays_until_the_last_has_gone(home: Path) -> None:
    skill = home / ".copilot" / "skills" / "codebase-mcp" / "SKILL.md"
    assert setup("vscode", "copilot-cli", "--yes") == 0
    assert setup("vscode", "--remove", "--yes") == 0
    assert BEGIN in skill.read_text()
    assert setup("copilot-cli", "--remove", "--yes") == 0
    assert not skill.exists()


def test_a_skill_is_brought_up_to_date_and_goes_without_a_receipt(
    home: Path, tmp_path: Path
) -> None:
    skill = home / ".claude" / "skills" / "codebase-mcp" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SkillFile("Older.", "---\nname: older\n---\n").add("").text)
    assert setup("claude-code", "--yes") == 0
    assert skill.read_text() == SkillFile(SKILL, SKILL_HEADER).add("").text
    shutil.rmtree(tmp_path / "data")
    assert setup("claude-code", "--remove", "--yes") == 0
    assert not skill.exists()


def test_the_skill_is_what_the_standard_asks_for_and_names_flags_that_are_there() -> None:
    codex = next(client for client in CLIENTS if client.name == "codex")
    assert codex.skill_file("project", machine(Path("/h")), Path("/p")) == Path(
        "/p/.agents/skills", SKILL_NAME, "SKILL.md"
    )
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", SKILL_NAME)
    name, description = SKILL_HEADER.splitlines()[1:3]
    assert name == f"name: {SKILL_NAME}"
    assert len(description) < 1024
    assert ": " not in description.removeprefix("description: ")
    assert len(f"{SKILL_HEADER}{SKILL}".splitlines()) < 40
    flags = sorted(set(re.findall(r"--[a-z-]+", SKILL)))
    given = [part for flag in flags for part in (flag, *(() if flag in BARE else ("3",)))]
    options = build_parser().parse_args(["search", "x", *given])
    assert options.limit == "3"
