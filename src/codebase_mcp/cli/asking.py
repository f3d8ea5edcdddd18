"""Questions about code from the shell: the agents' text, coloured on a terminal, or JSON."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.commands import SYMBOL_OPERATIONS
from codebase_mcp.cli.output import local_time, picked, print_json, reply_budget, say
from codebase_mcp.cli.shell import later_progress_bar, open_shell
from codebase_mcp.errors import InvalidInput
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.git_changes import ahead_behind_of_refs
from codebase_mcp.source.git_directory import GitRepository, git_repository_at, work_tree_of
from codebase_mcp.source.git_refs import Ref, list_refs
from codebase_mcp.tools import answers
from codebase_mcp.tools.replies import changes as texts
from codebase_mcp.tools.replies.exact import exact_text
from codebase_mcp.tools.replies.search import search_text
from codebase_mcp.tools.replies.symbols import BODY_TIMES, symbol_text
from codebase_mcp.tools.rules import check_query, check_ref
from codebase_mcp.tools.text import scope_note

if TYPE_CHECKING:
    from codebase_mcp.app.reports import HistoryReport, SymbolHistoryReport
    from codebase_mcp.app.text_scan import Form
    from codebase_mcp.search.history import FoundCommit

# The first of these that exists is the branch that all branches are compared with.
_DEFAULT_BRANCHES = ("main", "master", "trunk")
_REF_PREFIXES = {"branch": "refs/heads/", "remote": "refs/remotes/", "tag": "refs/tags/"}


def show(text: str, latency_ms: float | None = None) -> int:
    """Print the text of a reply, in colour on a terminal; the exit status."""
    if not sys.stdout.isatty():
        say(text)
        return 0
    from codebase_mcp.cli.terminal import console  # noqa: PLC0415 - not into a pipe

    console.print_reply(text)
    if latency_ms is not None:
        console.print(f"{latency_ms:.0f} ms", style="dim")
    return 0


async def search(options: argparse.Namespace, settings: Settings) -> int:
    """Search code; the exit status is 0 also without results."""
    async with open_shell(settings) as shell:
        app, project, repository = await shell.scope(options)
        with later_progress_bar(hidden=options.json) as report:
            answer = await app.search(
                check_query(" ".join(options.query)),
                project,
                Request(
                    answers.file_filters(file_type=options.file_type, directory=options.directory),
                    limit=options.limit,
                    context_lines=options.context_lines,
                    explain=options.explain,
                    by_definition=not options.json,
                ),
                repository=repository,
                ref=check_ref(" ".join(options.ref)) if options.ref else None,
                identity=shell.identity,
                with_help=True,
                with_history=options.with_history,
                report=report,
            )
    if options.json:
        from codebase_mcp.tools.search_reply import full_reply  # noqa: PLC0415 - for JSON alone

        return print_json(full_reply(answer).as_json())
    text = search_text(answer, settings.reply_chars, options.context_lines)
    return show(text, answer.latency_ms)


async def grep(options: argparse.Namespace, settings: Settings) -> int:
    """List every line that matches; the exit status is 1 without any, as grep's."""
    from codebase_mcp.app.text_scan import TextQuestion  # noqa: PLC0415 - not for the help
    from codebase_mcp.search.text_pattern import TextQuery  # noqa: PLC0415

    form: Form = "files" if options.files_with_matches else "lines"
    form = "count" if options.count else form
    async with open_shell(settings) as shell:
        app, project, repository = await shell.scope(options)
        with later_progress_bar(hidden=options.json) as progress:
            question = TextQuestion(
                TextQuery(
                    options.pattern,
                    regex=options.regex,
                    ignore_case=False if options.case_sensitive else options.ignore_case or None,
                    whole_word=options.whole_word,
                    multiline=options.multiline,
                ),
                answers.file_filters(
                    file_type=options.file_type,
                    directory=_below(options.paths) if options.paths else options.directory,
                    kinds=options.kind or (),
                ),
                ref=check_ref(options.ref or None),
                context_lines=options.context,
                limit=options.limit if form == "lines" else 0,
                form=form,
            )
            answer = await app.exact.find(
                question, project, shell.identity, repository=repository, report=progress
            )
    if options.json:
        from codebase_mcp.tools.find import find_text_reply  # noqa: PLC0415 - for JSON alone

        print_json(find_text_reply(answer, None).as_json())
    else:
        show(exact_text(answer, reply_budget(settings)), answer.latency_ms)
    return 0 if answer.files else 1


def _below(paths: Sequence[str]) -> str | None:
    """Paths as the filter has them: below the top of the work tree around the working directory."""
    top = work_tree_of(Path.cwd()) or Path.cwd()
    directories = [os.path.relpath(path, top) for path in paths]
    for path, directory in zip(paths, directories, strict=True):
        if Path(directory).parts[:1] == ("..",):
            message = f"path is outside of {top}"
            hint = "Ask from within the repository that has it."
            raise InvalidInput.of("path", path, message, rule="within the repository", hint=hint)
        if len(paths) > 1 and not {*"{,}"}.isdisjoint(path):
            message = "a path with a comma or a brace cannot be one of several"
            hint = "Ask for it alone."
            raise InvalidInput.of("path", path, message, rule="no comma or brace", hint=hint)
    if "." in directories:
        return None
    return directories[0] if len(directories) == 1 else f"{{{','.join(directories)}}}"


async def log_search(options: argparse.Namespace, settings: Settings) -> int:
    """Search commits, or show the history of a symbol."""
    query = " ".join(options.query)
    filters = picked(options, "path author since until")
    has_question = bool(query.strip() or any(filters.values()))
    name = (options.symbol or "").strip().replace("::", ".").strip(".")
    if options.symbol is not None and (not name or has_question):
        message = "--symbol takes a name, and neither a question nor a filter"
        raise InvalidInput.of("symbol", options.symbol[:50], message, rule="a name alone")
    if not name and not has_question:
        raise InvalidInput.of(
            "query", "", "Give a question, or one of --path, --author, --since, --until",
            rule="a question or a filter",
        )  # fmt: skip
    async with open_shell(settings) as shell:
        app, project, repository = await shell.scope(options)
        if name:
            events = await app.history.of_symbol(
                name, project, identity=shell.identity, repository=repository
            )
            if options.json:
                return print_json(symbol_history_json(events, options.limit))
            return show(texts.symbol_history_text(events, options.limit, reply_budget(settings)))
        commits = await app.history.search(
            check_query(query) if query.strip() else "",
            project,
            answers.history_filters(**filters),
            limit=options.limit,
            identity=shell.identity,
            repository=repository,
        )
    if options.json:
        return print_json(history_json(commits))
    return show(texts.history_text(commits, reply_budget(settings)), commits.latency_ms)


def symbol_history_json(report: SymbolHistoryReport, limit: int) -> dict[str, Any]:
    """The history of a symbol for programs, with at most ``limit`` events a repository."""
    return {
        "symbol": report.name,
        "repositories": [
            {
                "repository_id": repository_id,
                "root": report.repositories[repository_id].root,
                "commits": history.commits,
                "is_complete": history.is_complete,
                "events_total": len(history.events),
                "events": [asdict(event) for event in history.events[:limit]],
            }
            for repository_id, history in report.histories.items()
        ],
        "notices": report.notices,
    }


def history_json(report: HistoryReport) -> dict[str, Any]:
    return {
        "commits": [_commit_json(commit) for commit in report.commits],
        "count": len(report.commits),
        "project_id": report.project.project_id,
        "repositories": {
            str(repository_id): {"name": facts.name, "root": facts.root}
            for repository_id, facts in report.repositories.items()
        },
        "commits_read": {str(key): count for key, count in report.read.items()},
        "notices": report.notices,
        "latency_ms": round(report.latency_ms, 2),
    }


def _commit_json(commit: FoundCommit) -> dict[str, Any]:
    return {
        "commit": commit.hash,
        "author": commit.author_name,
        "email": commit.author_email,
        "date": commit.authored_at,
        **picked(commit, "subject excerpt message score is_merge"),
        "branches": commit.branches,
        "lines_added": commit.added,
        "lines_removed": commit.removed,
        "paths": [
            {
                "path": change.path,
                "lines_added": change.added,
                "lines_removed": change.removed,
                **({"former_path": change.former} if change.former else {}),
            }
            for change in commit.changes[:20]
        ],
        "paths_total": commit.paths_total,
        "repository_id": commit.repository_id,
    }


async def symbol(options: argparse.Namespace, settings: Settings) -> int:
    """Answer a question about a name, a place or a path."""
    operation, target = options.operation, options.target
    if target is None:
        operation, target = "definition", operation
    elif operation not in SYMBOL_OPERATIONS:
        message = f"No operation of symbol: {operation}"
        hint = f"The operations are {', '.join(SYMBOL_OPERATIONS)}."
        rule = ", ".join(SYMBOL_OPERATIONS)
        raise InvalidInput.of("operation", operation, message, rule=rule, hint=hint)
    if options.body and operation != "definition":
        message = "--body is for definitions"
        raise InvalidInput.of("body", True, message, rule="with definition")
    if (operation == "path") != (options.to is not None):
        message = "A path of calls leads to a name: symbol path NAME --to NAME"
        raise InvalidInput.of("to", options.to, message, rule="with path")
    question = answers.symbol_question(
        operation,
        target,
        ref=options.ref,
        depth=options.depth,
        limit=options.limit,
        body=options.body,
        to=options.to,
        directory=options.directory,
        kinds=options.kind,
        tests=not options.no_tests,
    )
    async with open_shell(settings) as shell:
        app, project, repository = await shell.scope(options)
        with later_progress_bar(hidden=options.json) as progress:
            answer = await app.symbols.ask(
                question, project, shell.identity, repository=repository, report=progress
            )
    if options.json:
        from codebase_mcp.tools.symbols import symbol_reply  # noqa: PLC0415 - for JSON alone

        return print_json(symbol_reply(answer, None).as_json())
    times = BODY_TIMES if options.body else 1
    return show(symbol_text(answer, reply_budget(settings, times)))


async def impact(options: argparse.Namespace, settings: Settings) -> int:
    """Show the impact of a commit, of ``A...B``, or of the uncommitted changes."""
    from codebase_mcp.changes.impact import change_named  # noqa: PLC0415 - parses code

    async with open_shell(settings) as shell:
        app, project, _ = await shell.scope(options)
        repository = await app.changes.repository(project, identity=shell.identity)
        answer = await app.changes.impact(repository, change_named(options.change))
    if options.json:
        from codebase_mcp.tools.vcs_reply import impact_reply  # noqa: PLC0415 - for JSON alone

        return print_json(impact_reply(answer, None).as_json())
    note = scope_note(repository.scope)
    return show(texts.impact_text(answer, reply_budget(settings), note=note))


async def compare(options: argparse.Namespace, settings: Settings) -> int:
    """Compare two branches, tags or commits, or the files on disk with a commit: by git alone."""
    from codebase_mcp.changes.compare import compare  # noqa: PLC0415 - parses code

    answer = await asyncio.to_thread(
        compare,
        _repository(options.path),
        options.a,
        options.b,
        direct=options.direct,
        symbols=options.symbols,
    )
    if options.json:
        from codebase_mcp.tools.vcs_reply import comparison_reply  # noqa: PLC0415 - for JSON alone

        return print_json(comparison_reply(answer, answer.differences.total).as_json())
    return show(texts.comparison_text(answer, sys.maxsize))


async def branches(options: argparse.Namespace, settings: Settings) -> int:
    """List the branches and tags of a repository, the newest first: by git alone."""
    repository = _repository(options.path)
    refs, base, distances = await asyncio.to_thread(_refs, repository)
    if options.json:
        return print_json([_ref_json(ref, distances.get(ref)) for ref in refs])
    rows = [
        [
            ref.name + (" *" if ref.is_head else ""),
            ref.kind,
            ref.commit[:12],
            local_time(datetime.fromtimestamp(ref.committed_at, UTC)),
            *map(str, distances.get(ref, ())),
        ]
        for ref in refs
    ]
    if not sys.stdout.isatty():
        for row in rows:
            say("\t".join(row))
        return 0
    from rich.table import Column, Table  # noqa: PLC0415 - on a terminal alone

    from codebase_mcp.cli.terminal import console  # noqa: PLC0415

    distance = [f"ahead of {base}", "behind"] if distances else []
    table = Table(Column("name", overflow="fold"), "kind", "commit", "date", *distance, box=None)
    for ref, row in zip(refs, rows, strict=True):
        table.add_row(*row, style="bold" if ref.is_head else None)
    console.print(table)
    return 0


def _repository(path: str) -> GitRepository:
    repository = git_repository_at(Path(path).expanduser().resolve())
    if repository is None:
        raise InvalidInput.of(
            "path", path, f"{path} is not in a git repository", rule="a git repository"
        )
    return repository


def _refs(repository: GitRepository) -> tuple[list[Ref], str | None, dict[Ref, tuple[int, int]]]:
    """The refs, the newest first, the default branch, and how many commits each is ahead of it
    and behind."""
    refs = sorted(list_refs(repository), key=lambda ref: (-ref.committed_at, ref.kind, ref.name))
    own = {ref.name: ref for ref in refs if ref.kind == "branch"}
    head = next((ref.name for ref in refs if ref.is_head), None)
    base = next((name for name in (*_DEFAULT_BRANCHES, head) if name in own), None)
    by_name = {} if base is None else ahead_behind_of_refs(repository, own[base].commit)
    distances = {
        ref: by_name[name]
        for ref in refs
        if (name := _REF_PREFIXES[ref.kind] + ref.name) in by_name
    }
    return refs, base, distances


def _ref_json(ref: Ref, distance: tuple[int, int] | None) -> dict[str, Any]:
    content = asdict(ref) | {"committed_at": datetime.fromtimestamp(ref.committed_at, UTC)}
    return content if distance is None else content | {"ahead": distance[0], "behind": distance[1]}
