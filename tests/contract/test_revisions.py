"""Every test of this folder talks to a server in the revision of the protocol that it is given."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

pytestmark = pytest.mark.anyio

REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


async def test_a_client_speaks_the_revision_of_its_mode(client: Client[Any], mode: str) -> None:
    assert client.protocol_version == REVISIONS[mode]
    assert await client.list_tools()


def test_no_client_is_made_for_one_revision_alone() -> None:
    calls = [
        (file.name, call)
        for file in Path(__file__).parent.glob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]
    clients = [(name, call) for name, call in calls if ast.unparse(call.func) == "Client"]
    assert len(clients) > 5
    for name, call in clients:
        modes = [ast.unparse(given.value) for given in call.keywords if given.arg == "mode"]
        assert modes == ["mode"], f"{name}, line {call.lineno}: take the fixture mode"
