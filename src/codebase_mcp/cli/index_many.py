"""Index many repositories: named ones, those of a list, those of organisations on a code host.

The next ones are fetched while one is indexed. A repository that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from codebase_mcp.app.app import App
from codebase_mcp.cli.indexing import (
    Source,
    check_flags,
    contradiction,
    find_source,
    job_json,
    queue,
    report_json,
    run,
)
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.shell import progress_bar
from codebase_mcp.cli.terminal import console
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, InvalidInput
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.queue import NO_WORKER
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.clone import GITHUB, EmptyRepository
from codebase_mcp.source.code_host import parse_organisation, repositories_of
from codebase_mcp.source.remote import is_remote, masked, parse_remote
from codebase_mcp.tools.text import counted
from codebase_mcp.values import matches

# Git waits for the network most of the time.
_FETCHES_AT_ONCE = 3
# Of more repositories the failures are shown again at the end.
_ONE_SCREEN = 20

Status = Literal["indexed", "unchanged", "queued", "empty", "failed"]
_STATUSES = get_args(Status)
_STYLES = {"indexed": "green", "queued": "green", "failed": "red"}


@dataclass(frozen=True, slots=True)
class Named:
    """A directory or URL to index; ``token`` is the kind of code host whose token may read it."""

    path: str
    token: str | None = None

    @property
    def shown(self) -> str:
        """The path, without a password."""
        return masked(self.path) if "@" in self.path and is_remote(self.path) else self.path

    @property
    def key(self) -> str:
        """The same for all spellings."""
        if not is_remote(self.path):
            return str(Path(self.path).expanduser().resolve())
        try:
            return parse_remote(self.path).identity
        except InvalidInput:  # it will fail by itself
            return self.path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a repository: in words for a person, and ``content`` for programs."""

    status: Status
    words: str
    content: dict[str, Any] = field(default_factory=dict)
    has_worker: bool = True


async def index_many(options: argparse.Namespace, settings: Settings) -> int:
    """Index each repository, or queue a job for it; the exit status is 1 if one failed."""
    named = await asyncio.to_thread(_named, options, settings)
    if options.dry_run:
        return _print_names(named, as_json=options.json)
    outcomes = []
    async with await App.open(settings) as app:
        slots = asyncio.Semaphore(_FETCHES_AT_ONCE)
        tasks = [asyncio.create_task(_fetched(one, options, settings, slots)) for one in named]
        try:
            for number, (one, task) in enumerate(zip(named, tasks, strict=True), 1):
                with _progress(options, f"{number}/{len(named)} {one.shown}") as report:
                    outcome = await _outcome(app, task, options, report)
                outcomes.append(outcome)
                if not options.json:
                    _print_line(one, outcome)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    return _print_end(named, outcomes, as_json=options.json)


def _named(options: argparse.Namespace, settings: Settings) -> list[Named]:
    """The repositories that the options name, each once.

    Raises:
        InvalidInput: the options contradict each other, or name nothing.
        IndexingFailed: a code host does not answer.
    """
    if options.name is not None:
        raise contradiction("name", "is for a single repository")
    organisations = options.organisation or []
    listed = _read_list(options.list_file) if options.list_file else []
    check_flags(options, [*options.paths, *listed, *organisations])
    named = [Named(path) for path in (*options.paths, *listed)]
    for url in organisations:
        named += _of_organisation(url, options, settings)
    if not named:
        rule = "at least one directory or URL"
        raise InvalidInput.of("paths", None, "No repository is named", rule=rule)
    return list({one.key: one for one in named}.values())


def _read_list(name: str) -> list[str]:
    """The lines of a file or of standard input that are not empty and no comments."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.of(
            "from", name, f"Cannot read the list {name}: {error}", rule="a text file, or -"
        ) from error
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _of_organisation(url: str, options: argparse.Namespace, settings: Settings) -> list[Named]:
    organisation = parse_organisation(url, options.code_host)
    is_github = organisation.kind == GITHUB
    token = settings.github_token if is_github else settings.gitlab_token
    listed = repositories_of(organisation, token)
    chosen = [
        one
        for one in listed
        if (options.archived or not one.is_archived)
        and (options.forks or not one.is_fork)
        and matches((one.name, one.name.rpartition("/")[2]), options.match or ())
    ]
    if not options.json:
        left_out = f", {len(listed) - len(chosen)} of them left out" if chosen != listed else ""
        console.print(
            f"{organisation.url}: {counted(len(listed), 'repository')}{left_out}", style="dim"
        )
    return [Named(one.url, organisation.kind if one.is_on_host else None) for one in chosen]


async def _fetched(
    one: Named, options: argparse.Namespace, settings: Settings, slots: asyncio.Semaphore
) -> Source | CodebaseError:
    """The repository, fetched if it is a URL, or why that failed."""
    try:
        async with slots:
            return await find_source(one.path, options, settings, lambda _: None, one.token)
    except CodebaseError as error:
        return error


async def _outcome(
    app: App,
    fetching: asyncio.Task[Source | CodebaseError],
    options: argparse.Namespace,
    report: Callable[[RunProgress], None],
) -> Outcome:
    """Index a repository once it is fetched, or queue a job.

    Raises:
        DatabaseUnavailable: so no other repository can be indexed either.
    """
    report(RunProgress(0, 0, "Fetching"))
    source = await fetching
    try:
        if isinstance(source, CodebaseError):
            raise source
        if options.background:
            started = await queue(app, source, options)
            words = f"job {started.job.id}"
            return Outcome("queued", words, job_json(started), started.has_worker)
        outcome = await run(app, source, options, report)
    except EmptyRepository as error:
        return Outcome("empty", "it has no commit yet", {"error": error.as_dict()})
    except DatabaseUnavailable:
        raise
    except CodebaseError as error:
        words = " ".join(filter(None, (f"{error.message}.", error.hint)))
        return Outcome("failed", words, {"error": error.as_dict()})
    result, content = outcome.run, report_json(outcome, source)
    if result.status == "failed":
        return Outcome("failed", result.errors[-1], content)
    words = (
        f"{counted(result.files_indexed, 'file')} indexed, {result.files_unchanged} unchanged, "
        f"{result.files_removed} removed, {result.duration_s:.1f} s"
    )
    if result.status == "partial":
        words += f"; {counted(len(result.errors), 'problem')}, first: {result.errors[0]}"
    has_changed = result.files_indexed or result.files_removed or result.status == "partial"
    return Outcome("indexed" if has_changed else "unchanged", words, content)


@contextmanager
def _progress(options: argparse.Namespace, title: str) -> Iterator[Callable[[RunProgress], None]]:
    """A progress bar that says which of the repositories is indexed."""
    with progress_bar(hidden=options.json) as report:
        yield lambda step: report(replace(step, message=f"{title}: {step.message}"))


def _print_line(one: Named, outcome: Outcome) -> None:
    from rich.text import Text  # noqa: PLC0415 - not for programs

    status = (f"{outcome.status:9}", f"bold {_STYLES.get(outcome.status, 'dim')}")
    words = printable_line(outcome.words)
    console.print(Text.assemble(status, f"  {one.shown}  ", (words, "dim")), soft_wrap=True)


def _print_end(named: Sequence[Named], outcomes: Sequence[Outcome], *, as_json: bool) -> int:
    counts = Counter(outcome.status for outcome in outcomes)
    status = 1 if counts["failed"] else 0
    if as_json:
        repositories = [
            {"repository": one.shown, "outcome": outcome.status} | outcome.content
            for one, outcome in zip(named, outcomes, strict=True)
        ]
        print_json({"repositories": repositories, **{name: counts[name] for name in _STATUSES}})
        return status
    sums = ", ".join(f"{counts[name]} {name}" for name in _STATUSES if counts[name])
    console.print(f"{counted(len(outcomes), 'repository')}: {sums}", style="bold")
    for one, outcome in zip(named, outcomes, strict=True):
        if outcome.status == "failed" and len(outcomes) > _ONE_SCREEN:
            _print_line(one, outcome)
    if not all(outcome.has_worker for outcome in outcomes):
        console.print(f"{NO_WORKER}.", style="yellow")
    return status


def _print_names(named: Sequence[Named], *, as_json: bool) -> int:
    if as_json:
        return print_json({"repositories": [one.shown for one in named], "status": "dry_run"})
    for one in named:
        console.print(one.shown, soft_wrap=True)
    console.print(f"{counted(len(named), 'repository')} would be indexed", style="dim")
    return 0
