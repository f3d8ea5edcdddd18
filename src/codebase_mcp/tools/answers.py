"""Questions from the parameters that tools, commands and pages have in common, checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import KINDS, FileKind
from codebase_mcp.search.history import HistoryFilters
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.tools import rules

if TYPE_CHECKING:
    from uuid import UUID

    from codebase_mcp.access.identity import Identity
    from codebase_mcp.app.app import App
    from codebase_mcp.app.context import ContextReport
    from codebase_mcp.app.scopes import NamedRepository, ReportProgress
    from codebase_mcp.context.answer import Role
    from codebase_mcp.symbols.answer import Operation, SymbolQuestion

_LEFT_OUT = "\n[…]\n"


def file_filters(
    *,
    file_type: str | None = None,
    extensions: Iterable[str] = (),
    languages: Iterable[str] = (),
    kinds: Iterable[str] = (),
    directory: str | None = None,
    repository_id: UUID | None = None,
) -> FileFilters:
    """The files to search; ``file_type`` is an extension, ``extensions`` may begin with a dot.

    Raises:
        InvalidInput: a value is invalid, or ``file_type`` is not among the extensions.
    """
    endings = [extension.lstrip(".").lower() for extension in extensions]
    if file_type := rules.check_file_type(file_type):
        if endings and file_type.lower() not in endings:
            message = "file_type and filter.file_extensions exclude each other's files"
            hint = "Pass one of the two."
            rule = "file_type among filter.file_extensions"
            raise InvalidInput.of("file_type", file_type, message, rule=rule, hint=hint)
        endings = [file_type.lower()]
    return FileFilters(
        repository_id=repository_id,
        extensions=tuple(endings) or None,
        languages=tuple(language.lower() for language in languages) or None,
        kinds=tuple(kinds) or None,
        directory=rules.check_directory(directory) or None,
    )


async def find_context(
    app: App,
    task: str,
    project_id: str | None,
    identity: Identity,
    *,
    given: Sequence[str] | None = None,
    want: Iterable[Role] = (),
    repository: NamedRepository = None,
    ref: str | None = None,
    limit: int = 20,
    report: ReportProgress | None = None,
) -> ContextReport:
    """What a task needs; without ``given`` its caller has the files of the uncommitted change.

    Raises:
        InvalidInput: the task, a given path or the ref is invalid.
        ProjectNotFound, DatabaseUnavailable, IndexingFailed: as `ContextSearch.find`.
    """
    from codebase_mcp.app.context import ContextQuestion  # noqa: PLC0415 - seldom needed

    return await app.context.find(
        ContextQuestion(
            rules.check_task(task),
            given=None if given is None else tuple(map(rules.check_given, given)),
            want=tuple(dict.fromkeys(want)),
            ref=rules.check_ref(ref or None),
            limit=limit,
        ),
        project_id,
        identity,
        repository=repository,
        report=report,
    )


def shortened(task: str) -> str:
    """A text of at most as many characters as a task may have: a longer one without its middle, as
    a log begins with what was run and ends with what went wrong."""
    task = task.strip()
    if len(task) <= MAX_TASK_CHARS:
        return task
    half = MAX_TASK_CHARS // 2
    return task[:half] + _LEFT_OUT + task[len(_LEFT_OUT) - half :]


def history_filters(
    *, path: str | None, author: str | None, since: str | None, until: str | None
) -> HistoryFilters:
    """The commits to search; ``since`` and ``until`` are ISO dates or times."""
    return HistoryFilters(
        path=(path or "").removeprefix("./").strip("/") or None,
        author=author or None,
        since=rules.check_moment(since, "since"),
        until=rules.check_moment(until, "until", is_end=True),
    )


def symbol_question(
    operation: Operation,
    target: str,
    *,
    ref: str | None = None,
    depth: int = 1,
    limit: int = 50,
    body: bool = False,
    to: str | None = None,
    directory: str | None = None,
    kinds: Collection[str] | None = None,
    tests: bool = True,
) -> SymbolQuestion:
    """A question about a name or a ``path:line``; an outline is of a path, a path leads ``to``."""
    from codebase_mcp.symbols.answer import SymbolQuestion  # noqa: PLC0415 - parses code
    from codebase_mcp.symbols.lookup import clean_path, parse_place  # noqa: PLC0415

    chosen = kinds or ()
    if not tests:
        chosen = [kind for kind in kinds or KINDS if kind != FileKind.TEST]
        if not chosen:
            message = "kinds names tests only, and tests leaves them out"
            raise InvalidInput.of("tests", False, message, rule="true, or other kinds")
    is_outline, place = operation == "outline", parse_place(target)
    to_place = parse_place(to) if to else None
    return SymbolQuestion(
        operation,
        name=None if place or is_outline else target,
        place=None if is_outline else place,
        path=clean_path(place.path if place else target) if is_outline else None,
        to=None if to_place else to,
        to_place=to_place,
        ref=rules.check_ref(ref or None),
        depth=depth,
        limit=limit,
        body=body,
        filters=file_filters(kinds=chosen, directory=directory),
    )
