"""The toolset ``find``: every occurrence of a text, and what a task needs."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from pydantic import Field

from codebase_mcp.model import WORKTREE
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.code import CodeFilter
from codebase_mcp.tools.context import FIND_CONTEXT
from codebase_mcp.tools.reply import ReplyPart, TextReply, as_text
from codebase_mcp.tools.rules import DIRECTORY, FILE_TYPE, REF
from codebase_mcp.tools.search_reply import IndexState, index_state
from codebase_mcp.tools.text import folders_of
from codebase_mcp.tools.toolset import READS, Caller, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.exact import TextReport
    from codebase_mcp.app.text_scan import Form
    from codebase_mcp.search.exact import FileMatches, Line

INSTRUCTIONS = """\
find_context first, with the task as it is: what to change, to read and to test.
find_text instead of grep: every line that holds a text, with the definition around it.
"""
TOOLSET = Toolset("find", INSTRUCTIONS)

_MOST_FOLDERS = 50


class FindText(Arguments):
    pattern: Annotated[str, Field(min_length=1, max_length=1_000, description="As it stands.")]
    regex: Annotated[bool, Field(description="RE2 syntax.")] = False
    ignore_case: Annotated[bool | None, Field(description="Default: if all is lower-case.")] = None
    whole_word: Annotated[bool, Field(description="Not within words.")] = False
    multiline: Annotated[bool, Field(description="A match may span lines.")] = False
    directory: Annotated[
        str | None, DIRECTORY, Field(description="Below src/auth, {a,b}/*/lib.")
    ] = None
    file_type: Annotated[str | None, FILE_TYPE, Field(description="Extension: py.")] = None
    filter: Annotated[CodeFilter | None, Field(description="Names of languages, extensions.")] = (
        None
    )
    kinds: fields.FileKinds = None
    ref: Annotated[
        str | None, REF, Field(description="Branch, tag or commit; A...B: changed lines.")
    ] = None
    repository_id: fields.RepositoryChoice = None
    project_id: fields.ProjectId = None
    context_lines: Annotated[int, Field(ge=0, le=20, description="Lines around each.")] = 0
    count_only: Annotated[bool, Field(description="Only how many, by folder.")] = False
    files_only: Annotated[bool, Field(description="Only files, each with its count.")] = False
    limit: Annotated[int, Field(ge=1, le=500, description="Lines shown at most.")] = 50
    max_chars: fields.ReplyBudget = None


class TextMatch(ReplyPart):
    """A line that matches; of a match that spans lines the first."""

    line: int
    text: str
    end_line: int | None = Field(default=None, description="Where it is another line.")
    symbol: str | None = Field(default=None, description="The innermost definition around it.")
    symbol_lines: tuple[int, int] | None = Field(default=None, description="Its lines.")
    is_definition: bool = Field(default=False, description="The name is defined here.")
    is_removed: bool = Field(default=False, description="With A...B: it was before the change.")


class FileWithMatches(ReplyPart):
    """A file; ``matches`` are its first ones, as many as ``limit`` and ``max_chars`` allow."""

    file_path: str
    count: int
    file_kind: str
    language: str
    repository_id: UUID
    matches: list[TextMatch] = Field(default=[])
    context: dict[int, str] = Field(default={}, description="With context_lines: by line.")
    commit: str | None = Field(default=None, description="With ref: the commit that has it.")


class FindTextReply(TextReply, fields.ProjectReply):
    total_count: int = Field(default=0, description="Lines that match, whatever the limit.")
    files_count: int = Field(default=0, description="Files with such lines.")
    results: list[FileWithMatches] = Field(
        default=[], description="Code first, then tests, documents, vendored files."
    )
    by_folder: dict[str, int] = Field(default={}, description="With count_only.")
    is_complete: bool = Field(default=True, description="False: the time was not enough.")
    not_searched: dict[str, int] = Field(default={}, description="Files left out, by reason.")
    truncated: bool = Field(default=False, description="Cut to limit or max_chars.")
    index: IndexState | None = None
    refs: dict[str, str] = Field(default={}, description="With ref: what each commit is.")
    scope: fields.ScopeReply | None = Field(default=None, description="What was searched.")
    latency_ms: float = 0.0


_FIND_TEXT = """\
Every line that holds a text or matches a regular expression, in the files as they are now, by \
file and definition, with exact counts: instead of grep. For a question in words use search_code."""


@TOOLSET.tool("Find text", READS, text=_FIND_TEXT)
async def find_text(caller: Caller, arguments: FindText) -> FindTextReply:
    """Every line that matches; the reply has the form that the caller gets."""
    from codebase_mcp.app.text_scan import TextQuestion  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.search.text_pattern import TextQuery  # noqa: PLC0415
    from codebase_mcp.tools.answers import file_filters  # noqa: PLC0415

    chosen = arguments.filter or CodeFilter()
    form: Form = "files" if arguments.files_only else "lines"
    form = "count" if arguments.count_only else form
    report = await caller.app.exact.find(
        TextQuestion(
            TextQuery(
                arguments.pattern,
                regex=arguments.regex,
                ignore_case=arguments.ignore_case,
                whole_word=arguments.whole_word,
                multiline=arguments.multiline,
            ),
            file_filters(
                file_type=arguments.file_type,
                extensions=chosen.file_extensions or (),
                languages=chosen.languages or (),
                kinds=arguments.kinds or (),
                directory=arguments.directory,
            ),
            ref=arguments.ref,
            context_lines=arguments.context_lines,
            limit=arguments.limit if form == "lines" else 0,
            form=form,
        ),
        arguments.project_id,
        caller.identity,
        repository=fields.named_repository(arguments.repository_id),
        report=caller.report_index_run,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.exact import exact_text  # noqa: PLC0415

        return FindTextReply.of_text(exact_text(report, caller.reply_budget(arguments.max_chars)))
    reply = find_text_reply(report, arguments.max_chars)
    reply.project_id, reply.project_source = report.project.project_id, report.project_source
    return reply


TOOLSET.tools.append(FIND_CONTEXT)


def find_text_reply(report: TextReport, max_chars: int | None) -> FindTextReply:
    """The reply for programs; files are left out from the end until it fits."""
    form = report.question.form
    reply = FindTextReply(
        total_count=report.total,
        files_count=len(report.files),
        results=[_file(m) for m in report.files if m.lines or form == "files"],
        is_complete=report.is_complete,
        not_searched=dict(report.not_searched),
        index=index_state(report.index),
        scope=fields.ScopeReply.model_validate(report.scope),
        latency_ms=round(report.latency_ms, 2),
    )
    if form == "count":
        folders = folders_of(((m.file.path, m.count) for m in report.files), _MOST_FOLDERS)
        reply.by_folder = {folder: count for folder, (count, _) in folders.items()}
    if report.refs:
        reply.refs = dict(report.refs)
    shown = sum(len(result.matches) for result in reply.results)
    if form == "lines" and shown < report.total:
        reply.truncated = True
    if max_chars is not None and reply.results and len(as_text(reply.as_json())) > max_chars:
        results, reply.truncated = reply.results, True

        def is_too_long(count: int) -> bool:
            reply.results = results[:count]
            return len(as_text(reply.as_json())) > max_chars

        count = bisect_left(range(1, len(results)), True, key=is_too_long)
        reply.results = results[:count]
    return reply


def _file(matches: FileMatches) -> FileWithMatches:
    file, snapshot = matches.file, matches.file.snapshot
    return FileWithMatches.made_from(
        matches,
        file_path=file.path,
        file_kind=file.kind,
        language=file.language,
        repository_id=snapshot.repository_id,
        matches=[_match(line) for line in matches.lines],
        context=dict(matches.around),
        commit=snapshot.view if snapshot.view != WORKTREE else None,
    )


def _match(line: Line) -> TextMatch:
    around = line.definition
    return TextMatch.made_from(
        line,
        line=line.number,
        end_line=line.end_line if line.end_line != line.number else None,
        symbol=None if around is None else around.qualified,
        symbol_lines=None if around is None else (around.start_line, around.end_line),
    )
