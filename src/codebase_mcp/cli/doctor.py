"""Does everything work on this machine? Tests database, model, index and search on a small file."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.text import Text

from codebase_mcp.access.health import model_notices
from codebase_mcp.access.keys import list_keys
from codebase_mcp.app.app import App
from codebase_mcp.cli.keys import callers_in_words
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.terminal import console
from codebase_mcp.cli.tool_commands import in_commands
from codebase_mcp.errors import CodebaseError, InternalError
from codebase_mcp.index.identity import PROGRAM_VERSION
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.text import counted

CANARY_PROJECT = "codebase-mcp-doctor"
_CANARY = '''\
def feed_canary(bird, seeds):
    """Give the canary its seeds in the morning."""
    return bird.eat(seeds)
'''


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a step: whether it works, a description, and a hint if it fails."""

    name: str
    ok: bool
    found: str
    duration_s: float
    hint: str | None = None


async def doctor(options: argparse.Namespace, settings: Settings) -> int:
    """Run all checks and show them; 1 after a failure."""
    checks = [_settings_check(settings)]
    try:
        app = await App.open(settings)
    except CodebaseError as error:
        checks.append(
            Check("model", ok=False, found=error.message, duration_s=0, hint=_hint(error))
        )
    else:
        async with app:
            checks += await _steps(app, settings)
    if options.json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            mark = ("ok  ", "green") if check.ok else ("FAIL", "red")
            console.print(Text.assemble(mark, f" {check.name:9}"), end=" ")
            console.print(f"{check.found}  ({check.duration_s:.2f} s)")
            if check.hint:
                console.print(f"               {check.hint}", style="yellow")
    return 0 if all(check.ok for check in checks) else 1


async def _steps(app: App, settings: Settings) -> list[Check]:
    checks = []
    checked: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("database", lambda: _database(app)),
        ("model", lambda: _model(app)),
        ("index", lambda: _index(app)),
        ("search", lambda: _search(app)),
        ("callers", lambda: _callers(app, settings)),
    ]
    for name, step in checked:
        started = time.perf_counter()
        try:
            result, hint, ok = await step(), None, True
        except CodebaseError as error:
            result, hint, ok = error.message, _hint(error), False
        checks.append(Check(name, ok, result, time.perf_counter() - started, hint))
        if not ok:
            break
    return checks


def _hint(error: CodebaseError) -> str | None:
    return error.hint and in_commands(error.hint)


def _settings_check(settings: Settings) -> Check:
    chosen = settings.chosen()
    shown = " ".join(f"{settings.sources[name]}={value}" for name, value in chosen.items())
    result = shown or "all defaults"
    hint = "; ".join(settings.warnings) or None
    return Check("settings", ok=True, found=result, duration_s=0, hint=hint)


async def _database(app: App) -> str:
    facts = await app.database.check()
    kind = f"embedded, in {facts.data_dir}" if facts.embedded else "from DATABASE_URL"
    user = f", runs as {facts.runs_as}" if facts.runs_as else ""
    server = f"PostgreSQL {facts.server_version} with pgvector {facts.vector_version}"
    found = f"{server}, {kind}{user}, {await app.database.describe_roles()}"
    fault = await app.database.describe_standby()
    if fault is None:
        return found
    searches = f"the primary, as {fault}" if fault else "the standby"
    return f"{found}, searches use {searches}"


async def _model(app: App) -> str:
    model = await app.models.configured()
    embed = model.embedder.embed_query
    login, authenticate, matrix = [
        await embed(text) for text in ("user login", "authenticate", "matrix inverse")
    ]
    if not login @ authenticate > login @ matrix:
        raise InternalError(
            "The model is unusable: 'user login' is not closer to 'authenticate' than to"
            " 'matrix inverse'"
        )
    return f"{model.facts.name}, {model.facts.dimension} dimensions"


async def _index(app: App) -> str:
    with tempfile.TemporaryDirectory(prefix="codebase-mcp-doctor-") as folder:
        Path(folder, "canary.py").write_text(_CANARY, encoding="utf-8")
        try:
            report = await app.index(folder, CANARY_PROJECT)
            answer = await app.search("feed the canary its seeds", CANARY_PROJECT)
        finally:
            await app.drop_project(CANARY_PROJECT)
    if report.run.status != "success" or not answer.answer.hits:
        raise InternalError("The canary was indexed, but the search did not find it")
    return f"{report.run.chunks_created} chunk of a canary indexed and found"


async def _search(app: App) -> str:
    projects = await app.projects()
    repositories = [repository for project in projects for repository in project.repositories]
    chunks = sum(repository.chunks for repository in repositories)
    for profile in {r.profile.fingerprint: r.profile for r in repositories}.values():
        if not app.models.is_outdated(profile, PROGRAM_VERSION):
            await app.models.of_index(profile)
    summary = f"{counted(len(projects), 'project')} with {counted(chunks, 'chunk')} ready to search"
    return ". ".join([summary, *map(in_commands, model_notices(repositories, app.models))])


async def _callers(app: App, settings: Settings) -> str:
    valid = [key for key in await list_keys(app.database) if key.state == "valid"]
    return f"{callers_in_words(settings)}. {counted(len(valid), 'valid key')}"
