"""Helpers for the tests of secondary models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.embedding_server import EmbeddingServer
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.background.backfill import Backfill
from codebase_mcp.database.projects import Project, find_project
from codebase_mcp.index.secondary_model import SecondaryModelState, load_state
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.settings.loading import Settings

OLLAMA = "ollama/nomic-embed-text"
OPENAI = "openai/text-embedding-3-small"

# A word that nothing but the service's model knows: to it this means "authenticate".
UNHEARD_OF = "frobnication"


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[App]:
    async with await App.open(settings) as app:
        yield app


async def state_of(app: App, project_id: str) -> SecondaryModelState:
    """The state of a project's secondary model, as this process sees it."""
    configured = app.models.embedder.name if app.models.has_secondary else None
    async with app.enter(project_id) as here:
        state = await load_state(here.tx, configured)
    assert state is not None
    return state


def backfill_of(app: App) -> Backfill:
    return Backfill(app.database, app.models)


async def until_complete(app: App, project_id: str) -> SecondaryModelState:
    """Wait until every chunk of a project has a vector of the secondary model."""

    async def complete() -> SecondaryModelState | None:
        state = await state_of(app, project_id)
        return state if state.state == "complete" else None

    state = await until(complete)
    assert state is not None
    return state


async def project_of(app: App, project_id: str) -> Project:
    return await find_project(app.database, project_id)


async def nearness(app: App, project_id: str, query: str, path: str) -> float:
    """How near a file is to a question in meaning; 0 where it is not among the nearest."""
    ranked = (await app.rank(query, project_id, FileFilters())).files
    of_path = (file.candidate for file in ranked if file.candidate.path == path)
    return max((candidate.evidence.best_meaning for candidate in of_path), default=0.0)


async def secondary_model_role(
    app: App, project_id: str, query: str = "authenticate"
) -> str | None:
    """How the secondary model took part in an answer: "used", "away", "missing", or not at all."""
    return (await app.search(query, project_id)).answer.secondary_model


def code_texts(server: EmbeddingServer, word: str = "def number_") -> list[str]:
    """What was embedded of a repository, as the service got it."""
    return [text for text in server.texts if word in text]


def numbered(count: int) -> dict[str, str]:
    """Files of some chunks each, no two of them alike."""
    return {
        f"m{n}.py": "".join(f"def number_{n}_{i}():\n    return {n} * {i}\n" for i in range(60))
        for n in range(count)
    }
