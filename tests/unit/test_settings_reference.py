"""``docs/settings.md`` is what the table of settings says.

``python -m tests.unit.test_settings_reference`` from the root writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from codebase_mcp.settings import SETTINGS, Setting, text_of

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

Made from the table in `src/codebase_mcp/settings_table.py` by `python -m
tests.unit.test_settings_reference`; a test holds it true.

Each setting is an environment variable and a flag of every command, `codebase-mcp serve --port
8080` or `codebase-mcp --log-level debug index .`; those of a repository are keys of its
`.mcp-context.toml` as well. The first of these that says something counts: flag, our variable,
another program's variable (in brackets), `.mcp-context.toml`, default. An empty variable says
nothing; an empty flag (`--database-url ""`) asks for the default.

- `codebase-mcp settings [PATH] [--json]` shows every value and where it comes from, without
  secrets.
- A value that does not fit stops the program before it starts anything; all of them are named at
  once, each with its source. A variable `CODEBASE_MCP_…` that is none of these is a warning.
- Lists are separated by commas, or one a line.
- Secrets: `…_FILE` names a file that holds the value, as container secrets do. The flags of
  databases are visible in the list of processes; the variables are better.
"""

REPOSITORY = """\
### .mcp-context.toml

```toml
project = "my-app"

[git]
ignore_patterns = ["*.generated.ts", "fixtures/", "/docs/api"]
include_submodules = true
depth = 100
branches = ["main", "release/*"]
```

The nearest file counts, from the repository's root upward, with all its keys. (Which project is
meant is another question: [projects.md](projects.md).) It holds from the next index run on: what
is ignored from then on leaves the index, and `index_repository` answers with
`repository_settings`.

- `ignore_patterns` are lines of `.gitignore`, relative to the file. They add to `.gitignore`,
  `.mcpignore` and the operator's own patterns: what one of them leaves out is out, and `!` takes
  back only what the same list left out. Written in a variable they are relative to each
  repository's root.
- `max_file_bytes` counts where it is lower than the operator's.
- `include_submodules`, `depth` and `branches` count where the operator says nothing.

Such a file comes with a stranger's clone, so it says what of the repository is read and nothing
else: it cannot name databases, models, addresses, keys or other paths. A value that does not fit
makes `index_repository` fail, before anything is stored, with all that is wrong. Keys of others
are left alone; one that looks like ours is a warning. Files above the root count only if they
belong to the current user or to root.
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


def test_the_reference_is_what_the_table_says() -> None:
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
