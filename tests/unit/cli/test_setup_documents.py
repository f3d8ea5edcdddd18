"""docs/clients.md says, client by client, what ``codebase-mcp setup`` writes.

After a change on purpose: ``PYTHONPATH=. python -m tests.unit.cli.test_setup_documents``.
"""

from __future__ import annotations

from pathlib import Path

import codebase_mcp
from codebase_mcp.cli.setup.clients import CLIENTS, Client, Launch, Machine, Scope
from codebase_mcp.cli.setup.plan import SetupTarget, entry_edit

PAGE = Path(codebase_mcp.__file__).parents[2] / "docs" / "clients.md"
MARK = "<!-- From here on generated; see tests/unit/cli/test_setup_documents.py -->"
LAUNCH = Launch("/path/to/codebase-mcp", (), ())
URL = "https://code.example/mcp"
KEY = "CODE_KEY"


def blocks() -> str:
    """All clients, as the page has them."""
    return "\n".join(_block(client) for client in CLIENTS)


def _block(client: Client) -> str:
    files = ", ".join(_places(client, "user"))
    in_project = ", ".join(_places(client, "project")) or "none"
    lines = [
        f"### {client.title}",
        f"`codebase-mcp setup {client.name}`",
        "",
        "| | files |",
        "|---|---|",
        f"| `--scope user` | {files} |",
        f"| `--scope project` | {in_project} |",
        "",
        _fenced(client, None),
    ]
    if client.remote is not None:
        key = "" if client.keyed is None else f" --key-env {KEY}"
        lines += ["", f"With `--http {URL}{key}`:", "", _fenced(client, URL)]
    return "\n".join([*lines, ""])


def _places(client: Client, scope: Scope) -> list[str]:
    root = Path("/p")
    if scope == "project":
        found = [client.config_file(scope, _machine("linux"), root)] if client.project else []
        if found:
            found += [
                client.rules_file(scope, _machine("linux"), root),
                client.skill_file(scope, _machine("linux"), root),
            ]
        return [f"`{path.relative_to(root)}`" for path in found if path is not None]
    shown = []
    for platform, title in (("linux", ""), ("darwin", "macOS"), ("win32", "Windows")):
        machine = _machine(platform)
        paths = [
            client.user(machine),
            client.rules_file("user", machine, root),
            client.skill_file("user", machine, root),
        ]
        text = ", ".join(f"`~/{p.relative_to('/h')}`" for p in paths if p is not None)
        if not shown or text != shown[0]:
            shown.append(f"{title}: {text}" if title else text)
    return ["; ".join(shown)]


def _machine(platform: str) -> Machine:
    return Machine(Path("/h"), platform, {})


def _fenced(client: Client, url: str | None) -> str:
    chosen = SetupTarget("user", Path("/p"), "codebase", LAUNCH, url, ("code",), key_env=KEY)
    text = entry_edit(client, chosen).add("").text.rstrip("\n")
    return f"```{'toml' if client.is_toml else 'json'}\n{text}\n```"


def generated() -> str:
    """The whole page; what people wrote stands before the mark."""
    return PAGE.read_text("utf-8").split(MARK)[0] + f"{MARK}\n\n{blocks()}"


def test_the_docs_show_what_is_written_for_each_client() -> None:
    assert PAGE.read_text("utf-8") == generated()


if __name__ == "__main__":
    PAGE.write_text(generated(), "utf-8")
