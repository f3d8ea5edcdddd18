"""Settings: what the user asked for, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings import SETTINGS, TOOLSETS, Settings
from codebase_mcp.tools.catalog import TOOLSETS as CATALOG


def test_without_an_environment_every_default_holds() -> None:
    settings = Settings.load({})
    assert settings.toolsets == ("code",)
    assert settings.database_url is None
    assert settings.max_file_bytes == 1 << 20


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"CODEBASE_MCP_WORKERS": "3", "CODEBASE_MCP_DATA_DIR": "/data"}
    settings = Settings.load(environment, workers="5")
    assert (settings.workers, settings.data_dir) == (5, Path("/data"))


def test_all_wrong_values_are_named_at_once_with_their_source() -> None:
    environment = {"DATABASE_URL": "mysql://x", "DB_POOL_SIZE": "0", "CODEBASE_MCP_WORKERS": "two"}
    with pytest.raises(InvalidInput) as caught:
        Settings.load(environment, toolsets="code,nonsense")
    fields = [problem["field"] for problem in caught.value.details["fields"]]
    assert fields == ["DATABASE_URL", "DB_POOL_SIZE", "--toolsets", "CODEBASE_MCP_WORKERS"]


@pytest.mark.parametrize(
    ("text", "toolsets"),
    [("all", TOOLSETS), (",".join(TOOLSETS), TOOLSETS), (" tasks, code ", ("tasks", "code"))],
)
def test_toolsets_are_named_or_all(text: str, toolsets: tuple[str, ...]) -> None:
    assert Settings.load({"CODEBASE_MCP_TOOLSETS": text}).toolsets == toolsets


def test_another_programs_variable_counts_where_ours_is_not_set() -> None:
    theirs = {"CLAUDE_PROJECT_DIR": "/theirs"}
    assert Settings.load(theirs).project_dir == Path("/theirs")
    ours = theirs | {"CODEBASE_MCP_PROJECT_DIR": "/ours"}
    assert Settings.load(ours).project_dir == Path("/ours")


def test_the_toolsets_of_the_settings_are_those_of_the_catalogue() -> None:
    assert tuple(toolset.name for toolset in CATALOG) == TOOLSETS


def test_every_setting_is_documented() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert [s.variable for s in SETTINGS if f"`{s.variable}`" not in readme] == []
