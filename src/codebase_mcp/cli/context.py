"""What a task needs, from the shell: the task is given in words, in a file, in a pipe, or is a
commit."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, get_args

from codebase_mcp.cli.asking import show
from codebase_mcp.cli.output import print_json, reply_budget, warn
from codebase_mcp.cli.shell import later_progress_bar, open_shell
from codebase_mcp.context.answer import MAX_TASK_CHARS, Role
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.git import read_git
from codebase_mcp.source.git_changes import parents_of, patch_of
from codebase_mcp.source.git_directory import git_repository_at, work_tree_of
from codebase_mcp.source.git_refs import resolve_commit
from codebase_mcp.tools import answers
from codebase_mcp.tools.replies.context import SIZE, context_text

# More is not read into memory.
_MAX_BYTES = 64 << 20


async def context(options: argparse.Namespace, settings: Settings) -> int:
    want = _roles(options.want)
    task, ref = await asyncio.to_thread(_task, options)
    if len(task.strip()) > MAX_TASK_CHARS:
        warn(
            f"The task has {len(task):,} characters: the first and the last "
            f"{MAX_TASK_CHARS // 2:,} of them count."
        )
    given = options.given
    if given is None and (options.no_given or options.commit is not None):
        given = []
    async with open_shell(settings) as shell:
        app, project, repository = await shell.scope(options)
        with later_progress_bar(hidden=options.json) as progress:
            answer = await answers.find_context(
                app,
                answers.shortened(task),
                project,
                shell.identity,
                given=given,
                want=want,
                repository=repository,
                ref=ref,
                limit=options.limit,
                report=progress,
            )
    if options.json:
        from codebase_mcp.tools.context import find_context_reply  # noqa: PLC0415 - for JSON alone

        return print_json(find_context_reply(answer, None).as_json())
    return show(context_text(answer, reply_budget(settings, SIZE)), answer.latency_ms)


def _roles(texts: Collection[str] | None) -> list[Role]:
    """The roles that are named, separated by commas or in several options."""
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    for name in names:
        if name not in get_args(Role):
            rule = ", ".join(get_args(Role))
            raise InvalidInput.of("want", name, f"No such role: {name}", rule=rule)
    return [role for role in get_args(Role) if role in names]


def _task(options: argparse.Namespace) -> tuple[str, str | None]:
    """The text of the task, and the ref of the state that it is asked of."""
    words = " ".join(options.task)
    ways = [bool(words.strip()), options.file is not None, options.commit is not None]
    if sum(ways) > 1:
        message = "Give the task in one way: in words, with --file or with --commit"
        raise InvalidInput.of("task", words[:50], message, rule="one of the three")
    if options.commit is not None:
        if options.ref is not None:
            message = "--commit asks of the state before the commit"
            raise InvalidInput.of("ref", options.ref, message, rule="without --commit")
        return commit_task(options.commit)
    if words.strip():
        return words, options.ref
    if options.file not in (None, "-"):
        return _file_text(Path(options.file).expanduser()), options.ref
    if options.file is None and sys.stdin.isatty():
        message = "Give a task: in words, with --file or --commit, or in a pipe"
        raise InvalidInput.of("task", "", message, rule="1..50000 characters")
    return _text_of(sys.stdin.buffer), options.ref


def _file_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text_of(file)
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}"
        raise InvalidInput.of("file", str(path), message, rule="a readable file") from error


def _text_of(file: BinaryIO) -> str:
    return file.read(_MAX_BYTES).decode("utf-8", "replace")


def commit_task(name: str) -> tuple[str, str]:
    """The message and the diff of a commit of this repository, and its first parent."""
    top = work_tree_of(Path.cwd()) or Path.cwd()
    repository = git_repository_at(top)
    if repository is None:
        message = f"{top} is not in a git repository"
        raise InvalidInput.of("commit", name, message, rule="within a git repository")
    commit = resolve_commit(repository, name, field="commit")
    parents = parents_of(repository, commit)
    if not parents:
        message = f"There is no state before {name}: it has no parent here"
        raise InvalidInput.of("commit", name, message, rule="a commit whose parent is there")
    _, _, words = read_git(repository, "cat-file", "commit", commit).partition(b"\n\n")
    text = b"\n".join([words, patch_of(repository, parents[0], commit)])
    return text.decode("utf-8", "replace"), parents[0]
