"""``docs/settings.md`` matches the table of settings.

``python -m tests.unit.test_settings_reference`` from the root updates it.
"""

from __future__ import annotations

import re
from pathlib import Path

from codebase_mcp.settings.loading import SETTINGS, Setting, text_of

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

Generated from the table in `src/codebase_mcp/settings/table.py` by `python -m
tests.unit.test_settings_reference`; a test keeps it up to date.

Each setting is an environment variable and a flag of every command, `codebase-mcp serve --port
8080` or `codebase-mcp --log-level debug index .`; those of a repository are keys of its
`.mcp-context.toml` as well. The order of precedence is: flag, our variable, another program's
variable (in brackets), `.mcp-context.toml`, default. An empty variable counts as unset; an empty
flag (`--database-url ""`) selects the default.

- `codebase-mcp settings [PATH] [--json]` shows every value and its source, without secrets.
- An invalid value stops the program before it starts anything; all invalid values are reported at
  once, each with its source. An unknown variable `CODEBASE_MCP_…` is a warning.
- Lists are separated by commas or newlines; their flags may be repeated.
- Secrets: `…_FILE` names a file that holds the value, as with container secrets. Database flags are
  visible in the process list, so prefer the variables.
"""

REPOSITORY = """\
### .mcp-context.toml

```toml
project = "my-app"

[git]
ignore_patterns = ["*.generated.ts", "fixtures/", "/docs/api"]
include_submodules = false
depth = 100
branches = ["main", "release/*"]
```

The nearest file applies, from the repository's root upward, with all its keys. (How the project is
chosen: [projects.md](projects.md).) It takes effect with the next index run: files ignored from
then on leave the index, and `index_repository` answers with `repository_settings`.

- `ignore_patterns` are lines of `.gitignore`, relative to the file. They add to `.gitignore`,
  `.mcpignore` and the operator's own patterns: a file excluded by any of them is excluded, and `!`
  only reverses patterns of the same list. In a variable they are relative to each repository's
  root.
- `max_file_bytes` applies if it is lower than the operator's.
- `include_submodules`, `depth` and `branches` apply if the operator does not set them.

Such a file may come with an untrusted clone, so it only selects what is read of the repository: it
cannot set databases, models, addresses, keys or other paths. With an invalid value
`index_repository` fails before anything is stored, and reports all errors. Keys of other programs
are ignored; one that looks like ours is a warning. Files above the root apply only if they belong
to the current user or to root.
"""


def page() -> str:
    """docs/settings.md."""
    parts = [INTRODUCTION]
    for section in dict.fromkeys(setting.section for setting in SETTINGS):
        rows = [setting for setting in SETTINGS if setting.section == section]
        has_keys = any(setting.keys for setting in rows)
        key = ["key"] if has_keys else []
        heads = ["variable", "flag", *key, "default", "value", "what it is"]
        parts += [f"## {section}\n", line(heads), line(["---"] * len(heads))]
        parts += [line(cells(setting, has_keys=has_keys)) for setting in rows]
        parts.append("")
    return "\n".join([*parts, REPOSITORY])


def line(cells: list[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def cells(setting: Setting, *, has_keys: bool) -> list[str]:
    """What the table says of a setting."""
    others = [name for name in (setting.also, setting.file_variable) if name]
    variable = f"`{setting.variable}`" + "".join(f" (`{name}`)" for name in others)
    flag = f"`{setting.flag}`" if setting.has_flag else "none"
    default = setting.default_words or text_of(setting, setting.default())
    if default and not setting.default_words:
        default = f"`{default}`"
    keys = [", ".join(f"`{key}`" for key in setting.keys)] if has_keys else []
    return [variable, flag, *keys, default or "none", setting.rule.words, setting.help]


def test_the_reference_matches_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_reference_does_not_depend_on_the_machine() -> None:
    assert str(Path.home()) not in page()


def test_every_variable_that_is_named_anywhere_for_users_exists() -> None:
    root = PAGE.parents[1]
    known = {name for s in SETTINGS for name in (s.variable, s.also, s.file_variable)}
    read = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("*.yaml"), root / "Dockerfile"]
    for file in read:
        named = set(re.findall(r"\bCODEBASE_MCP_[A-Z_]*[A-Z]\b", file.read_text(encoding="utf-8")))
        assert named <= known, file
    assert len(read) > 10


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
