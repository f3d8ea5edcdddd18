"""``codebase-mcp model``: the models of a project, and the backfill in the foreground."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedding_server import EmbeddingServer

from codebase_mcp.cli.main import build_parser
from codebase_mcp.errors import EmbeddingUnavailable, InvalidInput, NotFound
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Shell = Callable[..., Awaitable[str]]


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer(dimension=768) as server:
        yield server


@pytest.fixture
def shell(settings: Settings, server: EmbeddingServer, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run one command, with a service as the secondary model; returns its output."""

    async def run(*arguments: str, alone: bool = False, code: int = 0) -> str:
        options = build_parser().parse_args(arguments)
        chosen = settings if alone else replace(settings, ollama_url=server.url)
        assert await options.command(options, chosen) == code
        return " ".join(capsys.readouterr().out.split())

    return run


async def test_the_secondary_model_is_backfilled_shown_and_dropped(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    root, of = str(make_repo()), ("--project", project_id)
    assert "chunks have vectors of ollama/nomic-embed-text" in await shell("index", root, *of)
    assert "has no vectors here yet" in await shell("search", "authenticate", *of)
    shown = json.loads(await shell("model", *of, "--json"))
    assert (shown["first_tier"], shown["repositories"][0]["is_first_tier"]) == ("builtin", True)
    waiting = shown["second_tier"]
    assert (waiting["model"], waiting["state"]) == ("ollama/nomic-embed-text", "waiting")
    assert (waiting["chunks_done"], waiting["chunks_total"] > 0) == (0, True)
    assert json.loads(await shell("model", *of, "--json", alone=True))["second_tier"] is None

    grown = json.loads(await shell("model", "grow", root, *of, "--json"))
    assert (grown["state"], grown["chunks_done"]) == ("complete", waiting["chunks_total"])
    assert "chunks, complete" in await shell("model", "grow", *of)
    assert "secondary model: ollama/nomic-embed-text" in await shell("model", *of)
    assert "secondary model: ollama/nomic-embed-text" in await shell("status", *of, alone=True)

    assert "Deleted" in await shell("model", "drop", *of, alone=True)
    assert json.loads(await shell("model", *of, "--json", alone=True))["second_tier"] is None
    with pytest.raises(NotFound, match="no vectors of a secondary model"):
        await shell("model", "drop", *of)


async def test_growing_fails_with_a_way_out(
    shell: Shell, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    root, of = str(make_repo()), ("--project", project_id)
    await shell("index", root, *of)
    with pytest.raises(InvalidInput, match="No secondary embedding model") as caught:
        await shell("model", "grow", *of, alone=True)
    assert "OLLAMA_BASE_URL" in (caught.value.hint or "")
    with pytest.raises(NotFound) as unknown:
        await shell("model", "grow", "nowhere", *of)
    assert f"Indexed repositories: {root}" in (unknown.value.hint or "")
    await server.stop()
    with pytest.raises(EmbeddingUnavailable):
        await shell("model", "grow", *of)
    state = json.loads(await shell("model", *of, "--json"))["second_tier"]
    assert (state["state"], "ollama serve" in state["error"]) == ("waiting", True)


async def test_the_dry_run_names_the_model_that_embeds_later(
    shell: Shell, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    found = await shell("index", str(make_repo()), "--project", project_id, "--dry-run", "--json")
    assert json.loads(found)["second_tier"] == "ollama/nomic-embed-text"
    assert server.requests == []
