"""Which form of replies a client gets, by the name that it gives."""

from __future__ import annotations

import pytest

from codebase_mcp.tools.callers import CODING_AGENTS, replies_for


@pytest.mark.parametrize(
    "name",
    [
        *CODING_AGENTS,
        "Cline",
        "Visual Studio Code",
        "Q DEV CLI",
        "claude-code (via mcp-remote 0.1.37)",
        "gemini-cli-mcp-client-codebase",
    ],
)
def test_a_coding_agent_gets_text(name: str) -> None:
    assert replies_for(name) == "text"


@pytest.mark.parametrize(
    "name", [None, "", "mcp", "claude-ai", "ChatGPT", "my claude-code", "zed-tester", "cursor"]
)
def test_everybody_else_gets_json(name: str | None) -> None:
    assert replies_for(name) == "json"


def test_each_name_is_written_as_names_are_compared_and_says_where_it_was_seen() -> None:
    for name, seen in CODING_AGENTS.items():
        assert name == name.lower().replace(" ", "-")
        assert "/" in seen
