"""``codebase-mcp model``: which model made an index, and the way there and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.cli.main import build_parser
from codebase_mcp.embedding.static import BUILTIN
from codebase_mcp.errors import NotFound
from codebase_mcp.settings import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Shell = Callable[..., Awaitable[str]]


@pytest.fixture
def shell(settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run one command with a model that is not the built-in one; what it printed."""
    folder = tmp_path / "my-model"
    shutil.copytree(BUILTIN, folder)
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")

    async def run(*arguments: str, builtin: bool = False) -> str:
        options = build_parser().parse_args(arguments)
        model = None if builtin else str(folder)
        assert await options.command(options, replace(settings, embedding_model=model)) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


async def test_a_model_is_shown_switched_undone_and_kept(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    root, of = str(make_repo()), ("--project", project_id)
    await shell("index", root, *of, builtin=True)

    again = await shell("index", root, *of, "--json")
    assert "goes on with the model that made it, builtin" in json.loads(again)["notice"]
    shown: dict[str, Any] = json.loads(await shell("model", *of, "--json"))["repositories"][0]
    assert (shown["model"], shown["is_configured"], shown["kept_model"]) == ("builtin", False, None)
    assert "codebase-mcp model switch" in await shell("status", *of)

    assert "is indexed with my-model now" in await shell("model", "switch", *of)
    twice = json.loads(await shell("model", *of, "switch", root, "--json"))
    assert [one["status"] for one in twice] == ["unchanged"]
    assert "codebase-mcp model undo" in await shell("model", *of)

    assert "is indexed with builtin again" in await shell("model", "undo", *of)
    kept = json.loads(await shell("model", "keep", root, *of, "--json"))
    assert [one["status"] for one in kept] == ["dropped"]
    with pytest.raises(NotFound, match="No index of before a switch is kept"):
        await shell("model", "undo", *of)
    with pytest.raises(NotFound) as caught:
        await shell("model", "switch", "nowhere", *of)
    assert f"Indexed repositories: {root}" in (caught.value.hint or "")


async def test_doctor_says_that_an_index_has_another_model(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    await shell("index", str(make_repo()), "--project", project_id, builtin=True)
    checks = {check["name"]: check for check in json.loads(await shell("doctor", "--json"))}
    assert checks["model"]["found"].startswith("my-model, 256 dimensions")
    assert "is indexed with the model builtin" in checks["search"]["found"]
