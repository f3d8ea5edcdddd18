"""Which other names do a tool's parameters have?"""

from __future__ import annotations

import pytest

from codebase_mcp.tools.arguments import aliases_in


@pytest.mark.parametrize(
    ("properties", "aliases"),
    [
        (
            ["repo_path", "project_id"],
            {"path": "repo_path", "repository_path": "repo_path", "collection": "project_id"},
        ),
        (
            ["repository_path", "collection"],
            {
                "path": "repository_path",
                "repo_path": "repository_path",
                "project_id": "collection",
            },
        ),
        (["query"], {}),
        (["operation"], {"action": "operation"}),
    ],
)
def test_each_tool_takes_the_other_names_of_its_parameters(
    properties: list[str], aliases: dict[str, str]
) -> None:
    assert aliases_in(properties) == aliases
