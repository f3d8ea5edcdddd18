"""Health checks for load balancers, orchestrators and people; they answer within two seconds.

Problems are reported with fixed texts: error messages contain folders and addresses, and requests
here are not authenticated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from codebase_mcp.embedding.providers import PROVIDERS, Provider
from codebase_mcp.errors import DatabaseUnavailable, EmbeddingUnavailable
from codebase_mcp.tools.reply import unexpected
from codebase_mcp.tools.server import NAME, AppHolder
from codebase_mcp.web.answers import UNAVAILABLE, Json

if TYPE_CHECKING:
    from codebase_mcp.app.app import App

_log = logging.getLogger(__name__)

LIMIT_S = 2.0
CONNECTED = "connected"
NO_DATABASE = "the database does not answer"
NO_EMBEDDER = "the embedder does not answer, or does not have the model"
NOT_OPEN = "the server could not be opened; see its log"
ENDING = "the server is shutting down"


class HealthEndpoints:
    """Health of the process."""

    def __init__(self, holder: AppHolder, provider: Provider) -> None:
        self._holder = holder
        self._provider = provider
        self._started = time.monotonic()
        self._database = _Probe(holder, lambda app: app.database.check(), NO_DATABASE)
        self._embedder = _Probe(holder, _reach_embedder, NO_EMBEDDER)
        self._last: list[str] = []

    async def health(self, _: Request) -> Json:
        """The state of everything; 503 if nothing works."""
        database, embedder = (
            CONNECTED if problem is None else "disconnected" for problem in await self._look()
        )
        # Without the embedder records still work; without the database nothing does.
        status = "healthy" if embedder == CONNECTED else "degraded"
        if database != CONNECTED:
            status = "unhealthy"
        content: dict[str, Any] = {
            "status": status,
            "database": database,
            "embedder": {"provider": self._provider, "status": embedder},
            "version": version(NAME),
            "uptime_seconds": int(time.monotonic() - self._started),
        }
        if field := PROVIDERS[self._provider].health_field:
            content[field] = embedder
        return Json(content, UNAVAILABLE if status == "unhealthy" else 200)

    async def live(self, _: Request) -> Json:
        """The process answers, so a restart would not help."""
        return Json({"status": "alive"})

    async def ready(self, _: Request) -> Json:
        """Whether requests can be sent here; 503 with the reasons if not."""
        reasons = [ENDING] if self._holder.calls.is_draining else _reasons(await self._look())
        status = "not ready" if reasons else "ready"
        return Json({"status": status, "reasons": reasons}, UNAVAILABLE if reasons else 200)

    async def close(self) -> None:
        await self._database.close()
        await self._embedder.close()

    async def _look(self) -> tuple[str | None, str | None]:
        """The problems of database and embedder, None without; changes are logged."""
        problems = await asyncio.gather(self._database.ask(), self._embedder.ask())
        reasons = _reasons(problems)
        if reasons != self._last:
            self._last = reasons
            _log.warning("health: %s", ", ".join(reasons) or "everything works again")
        return problems


class _Probe:
    """A health check, shared by concurrent requests.

    If it hangs, only one task waits for it.
    """

    def __init__(
        self, holder: AppHolder, question: Callable[[App], Awaitable[object]], failure: str
    ) -> None:
        self._holder = holder
        self._question = question
        self._failure = failure
        self._asking: asyncio.Task[str | None] | None = None

    async def ask(self) -> str | None:
        """The problem as text, or None."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait([self._asking], timeout=LIMIT_S)
        return self._asking.result() if done else f"{self._failure} within {LIMIT_S:.0f} s"

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> str | None:
        try:
            await self._question(await self._holder.get())
        except DatabaseUnavailable as error:
            reason, cause = NO_DATABASE, error.message
        except EmbeddingUnavailable as error:
            reason, cause = NO_EMBEDDER, error.message
        except Exception as error:  # the edge: logged with its traceback
            reason, cause = NOT_OPEN, unexpected(error).message
        else:
            return None
        _log.info("health: %s", cause)
        return reason


async def _reach_embedder(app: App) -> None:
    from codebase_mcp.embedding.remote import RemoteEmbedder  # noqa: PLC0415 - open by now

    embedder = app.models.embedder
    await (embedder.check() if isinstance(embedder, RemoteEmbedder) else embedder.identify())


def _reasons(problems: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(filter(None, problems)))
