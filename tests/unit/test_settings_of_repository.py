"""What a repository's own file may say, what of that counts, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.access.context_file import FILE_NAME, ContextText
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import SETTINGS, Settings
from codebase_mcp.settings.repository import (
    ROWS,
    RepositorySettings,
    choice_of,
    problems_in,
    read_context,
    settle,
)
from codebase_mcp.source.selection import Patterns, Selection

ROOT = Path("/repo")
FILE = f"{ROOT}/{FILE_NAME}"
EVERYTHING = """
max_file_bytes = 500
[git]
depth = 50
branches = ["main", "release/*"]
include_submodules = true
ignore_patterns = ["*,cover", "target/"]
"""


def holds(text: str, environment: dict[str, str] | None = None, **flags: str) -> RepositorySettings:
    """What holds at ROOT with such a file."""
    settings = Settings.load(environment or {}, **flags)
    return settle(settings, ROOT, ContextText(Path(FILE), text.encode()))


def wrong(text: str) -> list[tuple[str, str, str]]:
    """What is wrong with such a file: where, the value, the rule."""
    with pytest.raises(InvalidInput) as caught:
        holds(text)
    return [
        (problem["field"], problem["value"], problem["constraint"])
        for problem in caught.value.details["fields"]
    ]


def test_a_file_decides_what_the_operator_left_open() -> None:
    found = holds(EVERYTHING)
    assert (found.git_depth, found.git_branches) == (50, ("main", "release/*"))
    chosen_by = choice_of(Settings.load({}))
    assert found.selection == Selection(
        500, (Patterns(ROOT, ("*,cover", "target/")),), include_submodules=True, chosen_by=chosen_by
    )
    assert found.sources["git_depth"] == f"{FILE}: git.depth"
    assert found.applied.keys() == {row.name for row in ROWS}
    assert found.context == FILE
    assert found.warnings == ()


def test_without_a_file_the_operators_settings_hold() -> None:
    environment = {"CODEBASE_MCP_IGNORE": "*.log", "CODEBASE_MCP_GIT_DEPTH": "7"}
    settings = Settings.load(environment)
    found = settle(settings, ROOT, None)
    assert found.selection == Selection(
        patterns=(Patterns(ROOT, ("*.log",)),),
        include_submodules=True,
        chosen_by=choice_of(settings),
    )
    assert choice_of(settings) != choice_of(Settings.load({}))
    assert (found.git_depth, found.sources["git_depth"]) == (7, "CODEBASE_MCP_GIT_DEPTH")
    assert (found.context, found.applied, found.described()) == (None, {}, {})


@pytest.mark.parametrize("spoken", ["variable", "flag"])
def test_flags_and_variables_come_before_the_file(spoken: str) -> None:
    said = {"git_depth": "9", "git_branches": "mine", "include_submodules": "false"}
    rows = {s.name: s for s in SETTINGS}
    if spoken == "flag":
        found = holds(EVERYTHING, **said)
    else:
        found = holds(EVERYTHING, {rows[name].variable: text for name, text in said.items()})
    assert (found.git_depth, found.git_branches) == (9, ("mine",))
    assert not found.selection.include_submodules
    for name in said:
        assert found.sources[name] == getattr(rows[name], spoken)
        assert name not in found.applied
    assert [w.partition(" has no effect")[0] for w in found.warnings] == [
        f"{FILE}: git.include_submodules = True",
        f"{FILE}: git.depth = 50",
        f"{FILE}: git.branches = ('main', 'release/*')",
    ]


def test_a_file_can_only_lower_the_limit_of_a_files_size() -> None:
    lowered = holds("max_file_bytes = 100", {"CODEBASE_MCP_MAX_FILE_BYTES": "1000"})
    assert lowered.selection.max_file_bytes == 100
    raised = holds("max_file_bytes = 1_000_000_000", {"CODEBASE_MCP_MAX_FILE_BYTES": "1000"})
    assert raised.selection.max_file_bytes == 1000
    assert "max_file_bytes" not in raised.applied
    assert "has no effect" in raised.warnings[0]
    assert holds("max_file_bytes = 1_000_000_000").selection.max_file_bytes == 1 << 20


def test_patterns_of_the_operator_and_of_the_file_both_count() -> None:
    above = ContextText(ROOT.parent / FILE_NAME, b'ignore_patterns = ["!*.log", "x"]')
    settings = Settings.load({}, ignore_patterns="*.log")
    found = settle(settings, ROOT, above)
    assert found.selection.patterns == (
        Patterns(ROOT, ("*.log",)),
        Patterns(ROOT.parent, ("!*.log", "x")),
    )
    assert found.ignore_patterns == ("!*.log", "x", "*.log")
    assert found.sources["ignore_patterns"] == (
        f"--ignore, {ROOT.parent / FILE_NAME}: ignore_patterns"
    )


def test_an_answer_can_say_what_the_file_decided() -> None:
    described = holds('[git]\nignore_patterns = ["x"]\ndepht = 3\n').described()
    assert json.loads(json.dumps(described)) == {
        "file": FILE,
        "ignore_patterns": ["x"],
        "warnings": [f"{FILE}: git.depht is not a setting; did you mean git.depth?"],
    }
    assert holds('project = "my-app"').described() == {}


@pytest.mark.parametrize(
    ("text", "key", "value", "rule"),
    [
        ("[git]\ndepth = 0", "git.depth", "0", "must be a whole number from 1 to 10000"),
        ('[git]\ndepth = "5"', "git.depth", "5", "must be a whole number from 1 to 10000"),
        ("[git]\ndepth = true", "git.depth", "True", "must be a whole number from 1 to 10000"),
        ('[git]\nbranches = "main"', "git.branches", "main", "must be a list of strings"),
        ("[git]\nbranches = [1]", "git.branches", "[1]", "must be a list of strings"),
        (
            '[git]\nbranches = ["--exec=x"]',
            "git.branches",
            "['--exec=x']",
            "must be a list of branch names, which may contain *",
        ),
        (
            'include_submodules = "yes"',
            "include_submodules",
            "yes",
            "must be true or false",
        ),
        (
            'ignore_patterns = ["a\\nb"]',
            "ignore_patterns",
            "['a\\nb']",
            "must be a list of strings, without line breaks",
        ),
        (
            "max_file_bytes = 1.5",
            "max_file_bytes",
            "1.5",
            "must be a whole number from 1 to 1073741824",
        ),
    ],
)
def test_a_wrong_value_is_named_with_file_key_and_rule(
    text: str, key: str, value: str, rule: str
) -> None:
    assert wrong(text) == [(f"{FILE}: {key}", value, rule)]


def test_all_wrong_values_of_a_file_are_named_at_once() -> None:
    found = wrong('max_file_bytes = 0\n[git]\ndepth = -1\ninclude_submodules = "no"')
    assert [field.removeprefix(f"{FILE}: ") for field, _, _ in found] == [
        "git.include_submodules",
        "max_file_bytes",
        "git.depth",
    ]


def test_two_spellings_of_a_setting_must_agree() -> None:
    same = 'ignore_patterns = ["x"]\n[git]\nignore_patterns = ["x"]'
    assert holds(same).ignore_patterns == ("x",)
    [(field, _, rule)] = wrong('ignore_patterns = ["y"]\n[git]\nignore_patterns = ["x"]')
    assert field == f"{FILE}: ignore_patterns"
    assert rule == f"must not differ from {FILE}: git.ignore_patterns".replace(f"{FILE}: ", "")


def test_a_file_that_is_no_toml_is_named_with_its_line() -> None:
    [(field, _, rule)] = wrong("a = 1\nb =\n")
    assert field == FILE
    assert "the file is not valid TOML" in rule
    assert "line 2" in rule


# A repository is a stranger's: it must not reach beyond itself.


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if not s.keys], ids=lambda setting: setting.name
)
@pytest.mark.parametrize("table", ["", "[git]\n", "[project]\n"], ids=["top", "git", "project"])
def test_a_file_cannot_set_what_does_not_concern_its_repository(setting: Any, table: str) -> None:
    alone = holds("")
    for key in {setting.name, setting.variable, setting.variable.lower(), setting.flag[2:]}:
        found = holds(f'{table}"{key}" = "http://127.0.0.1:1/elsewhere"')
        assert (found.selection, found.applied) == (alone.selection, {})
        assert len(found.warnings) == 1
        assert "cannot set it" in found.warnings[0]


def test_a_file_only_ever_sets_what_of_the_repository_is_read() -> None:
    assert {row.name for row in ROWS} == {
        "ignore_patterns",
        "include_submodules",
        "max_file_bytes",
        "git_depth",
        "git_branches",
    }
    assert not any(row.is_secret for row in ROWS)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("[git]\ninclude_submodule = true", ["git.include_submodule"]),
        ("ignore_paterns = []\nmax_file_byte = 1", ["ignore_paterns", "max_file_byte"]),
        ('[project]\nid = "a"\nname = "A"\ndescription = "B"', []),
        ('[embedding]\nmodel = "x"\n[memory]\nenabled = true\n[tool.x]\ndepth = 3', []),
        ("git = 3", ["git must be a table"]),
    ],
)
def test_keys_that_look_like_ours_are_warnings_and_those_of_others_are_not(
    text: str, warnings: list[str]
) -> None:
    found = [w.removeprefix(f"{FILE}: ") for w in holds(text).warnings]
    assert len(found) == len(warnings)
    assert all(f.startswith(w) for f, w in zip(found, warnings, strict=True))


def test_the_project_that_a_file_names_is_checked_where_it_is_wanted(tmp_path: Path) -> None:
    assert problems_in(tmp_path) == []
    (tmp_path / FILE_NAME).write_text('project = "My App"')
    [problem] = problems_in(tmp_path)
    assert problem["field"] == f"{tmp_path / FILE_NAME}: project"
    assert problem["value"] == "My App"
    assert problems_in(tmp_path, names_project=False) == []


def test_what_a_file_says_by_an_unusual_path_can_be_shown() -> None:
    context = ContextText(Path("/caf\udce9") / FILE_NAME, b"max_file_bytes = 0")
    [problem] = read_context(context).problems
    assert problem["field"].startswith("/caf\\xe9/")
