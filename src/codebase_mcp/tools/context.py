"""The tool ``find_context`` of the toolset ``find``: the files that a task needs."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from pydantic import AfterValidator, Field

from codebase_mcp.context.answer import Role
from codebase_mcp.model import WORKTREE
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import (
    ProjectId,
    ProjectReply,
    ReplyBudget,
    RepositoryChoice,
    ScopeReply,
    named_repository,
)
from codebase_mcp.tools.reply import ReplyPart, TextReply, as_text, rounded
from codebase_mcp.tools.rules import GIVEN, MAX_GIVEN, REF, TASK
from codebase_mcp.tools.search_reply import IndexState, index_state
from codebase_mcp.tools.toolset import READS, Caller, ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.app.context import ContextReport


class FindContext(Arguments):
    task: Annotated[str, TASK, Field(description="As it is.")]
    given: Annotated[
        list[Annotated[str, GIVEN]] | None,
        Field(
            max_length=MAX_GIVEN,
            description="Files you have: a.py, b.py:3-9; else what is uncommitted.",
        ),
    ] = None
    want: Annotated[list[Role] | None, Field(max_length=3, description="Only these.")] = None
    ref: Annotated[str | None, REF, Field(description="Branch, tag or commit.")] = None
    repository_id: RepositoryChoice = None
    project_id: ProjectId = None
    limit: Annotated[int, Field(ge=1, le=100, description="Files at most.")] = 20
    max_chars: ReplyBudget = None


class NeededDefinitionReply(ReplyPart):
    """A definition that the task is about; lines are 1-based and inclusive."""

    name: str | None = Field(description="null: lines outside of all definitions.")
    start_line: int
    end_line: int
    content: str | None = None


class NeededFileReply(ReplyPart):
    """A file that the task needs, and what for."""

    file_path: str = Field(validation_alias="path")
    repository_id: UUID
    role: Role = Field(description="Change it, read it, or run it as a test.")
    probability: Annotated[float, rounded(4)] = Field(
        ge=0, le=1, description="That the task needs it."
    )
    reasons: list[str] = Field(description="The strongest first.")
    language: str
    file_kind: str = Field(validation_alias="kind")
    definitions: list[NeededDefinitionReply] = Field(default=[], description="The nearest first.")
    commit: Annotated[
        str | None,
        AfterValidator(lambda view: None if view == WORKTREE else view),
        Field(validation_alias="view", description="With ref: the commit that has it."),
    ] = None


class OutsideReply(ReplyPart):
    """Whether the cause lies outside of the repository."""

    probability: Annotated[float, rounded(4)]
    reason: str


class FindContextReply(TextReply, ProjectReply):
    files: list[NeededFileReply] = Field(
        default=[], description="In the order in which the task needs them."
    )
    outside: OutsideReply | None = Field(
        default=None, description="Present where the cause may lie outside of the repository."
    )
    given: list[str] = Field(default=[], description="What the caller has; not among the files.")
    given_unknown: list[str] = Field(default=[], description="Of given: not in the index.")
    total_count: int = Field(default=0, description="Files with some evidence, whatever the limit.")
    truncated: bool = Field(default=False, description="Cut to max_chars.")
    index: IndexState | None = None
    refs: dict[str, str] = Field(default={}, description="With ref: what each commit is.")
    scope: ScopeReply | None = Field(default=None, description="What was searched.")
    latency_ms: float = 0.0


_FIND_CONTEXT = """\
What a task needs: give an issue, stack trace, test output, review comment or diff; get the files \
to change and to read and the tests to run, with reasons. Ask it first."""


async def find_context(caller: Caller, arguments: FindContext) -> FindContextReply:
    """The files that a task needs; the reply has the form that the caller gets."""
    from codebase_mcp.tools import answers  # noqa: PLC0415 - not for the handshake

    report = await answers.find_context(
        caller.app,
        arguments.task,
        arguments.project_id,
        caller.identity,
        given=arguments.given,
        want=arguments.want or (),
        repository=named_repository(arguments.repository_id),
        ref=arguments.ref,
        limit=arguments.limit,
        report=caller.report_index_run,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.context import SIZE, context_text  # noqa: PLC0415

        budget = caller.reply_budget(arguments.max_chars or SIZE * caller.reply_chars)
        return FindContextReply.of_text(context_text(report, budget))
    return find_context_reply(report, arguments.max_chars)


FIND_CONTEXT = ToolSpec.of(find_context, "Find what a task needs", READS, text=_FIND_CONTEXT)


def find_context_reply(report: ContextReport, max_chars: int | None) -> FindContextReply:
    """The reply for programs, of at most ``max_chars`` characters.

    The content of definitions is left out first, that of the last files before that of the first;
    then files from the end.
    """
    from codebase_mcp.tools.replies.context import unknown_given  # noqa: PLC0415

    context = report.context
    reply = FindContextReply(
        files=[
            NeededFileReply.made_from(
                file, definitions=[*map(NeededDefinitionReply.made_from, file.definitions)]
            )
            for file in context.files
        ],
        total_count=context.candidates,
        index=index_state(report.index),
        scope=ScopeReply.model_validate(report.scope),
        project_id=report.project.project_id,
        project_source=report.project_source,
        latency_ms=round(report.latency_ms, 2),
    )
    if context.outside is not None:
        reply.outside = OutsideReply.model_validate(context.outside)
    if context.given:
        reply.given = [*context.given]
    if unknown := unknown_given(report):
        reply.given_unknown = unknown
    if report.refs:
        reply.refs = dict(report.refs)
    return reply if max_chars is None else _fit(reply, max_chars)


def _fit(reply: FindContextReply, max_chars: int) -> FindContextReply:
    """The reply, cut to a number of characters."""
    if len(as_text(reply.as_json())) <= max_chars:
        return reply
    files = reply.files
    bare = [_without_content(file) for file in files]
    reply.truncated = True

    def fits(cuts: int) -> bool:
        """Whether it fits after some cuts: of the content of a file, then of a file."""
        whole = max(len(files) - cuts, 0)
        reply.files = [*files[:whole], *bare[whole : 2 * len(files) - cuts]]
        return len(as_text(reply.as_json())) <= max_chars

    fits(bisect_left(range(2 * len(files)), True, key=fits))
    return reply


def _without_content(file: NeededFileReply) -> NeededFileReply:
    bare = file.model_copy(deep=True)
    for definition in bare.definitions:
        definition.model_fields_set.discard("content")
    return bare
