"""The toolset ``code``: index a repository, search it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from codebase_mcp.guidance import ABSENT, ASK, GREP, INDEXED, STOP
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import ArgumentPart, Arguments
from codebase_mcp.tools.reply import Reply
from codebase_mcp.tools.rules import DIRECTORY, FILE_TYPE, NAME, QUERY, REF, REPO_PATH
from codebase_mcp.tools.search_reply import SearchReply, brief_reply, fit, full_reply
from codebase_mcp.tools.text import INDENT, lines_of
from codebase_mcp.tools.toolset import READS, REPEATS, Caller, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.reports import IndexReport

INSTRUCTIONS = f"""\
Search over code, by meaning and by words.

1. search_code before grep and before reading files. {ASK}
2. {STOP} {ABSENT} No results: reword it or drop filters.
3. {INDEXED} index.state says how far. {GREP}
"""
TOOLSET = Toolset("code", INSTRUCTIONS)

# The interval of progress notifications: clients show them, and some drop silent calls.
PROGRESS_INTERVAL_S = 0.5


class IndexRepository(Arguments):
    repo_path: Annotated[str, REPO_PATH, Field(description="Absolute path.")]
    project_id: fields.ProjectId = None
    force_reindex: Annotated[bool, Field(description="Rebuild all of it; rarely needed.")] = False
    name: Annotated[str | None, NAME, Field(description="Display name.")] = None


class RepositorySettingsReply(BaseModel):
    """What the repository's .mcp-context.toml decided for this run and those after it."""

    file: str
    ignore_patterns: list[str] = Field(default=[], description="Left out of the index.")
    include_submodules: bool = False
    max_file_bytes: int = 0
    git_depth: int = 0
    git_branches: list[fields.ShownName] = []
    warnings: list[str] = Field(default=[], description="Keys in it that have no effect.")


class IndexReply(Reply):
    repository_id: UUID = Field(default=..., description="The same for this path, for ever.")
    files_indexed: int = Field(default=..., description="Files whose content this run indexed.")
    chunks_created: int = Field(default=..., description="Chunks that were new.")
    duration_seconds: float = 0.0
    project_id: str | None = None
    schema_name: str = ""
    status: Literal["success", "partial", "failed"] = "success"
    errors: list[str] = Field(default=[], description="Present when partial or failed.")
    files_unchanged: int = 0
    files_removed: int = 0
    files_skipped: dict[str, int] = Field(default={}, description="Files left out, by reason.")
    encodings: dict[str, int] = Field(default={}, description="Of files read, if not UTF-8.")
    secrets_masked: int = Field(default=0, description="Keys and passwords in the files read.")
    project_source: str = Field(default="", description="Where the project came from.")
    repository_settings: RepositorySettingsReply | None = Field(
        default=None, description="Present when a .mcp-context.toml sets anything about it."
    )
    notice: str = Field(
        default="",
        description="Present when the index has another model than is configured, no vectors of "
        "that yet, submodules are not fetched, or the history could not be read.",
    )

    def text_lines(self) -> Iterator[str]:
        """The run in a line; then errors, and the repository's settings."""
        counts = [f"{self.files_indexed} files indexed"]
        others = {"unchanged": self.files_unchanged, "removed": self.files_removed}
        others["secrets masked"] = self.secrets_masked
        others |= {f"skipped ({why})": count for why, count in self.files_skipped.items()}
        counts += [f"{count} {what}" for what, count in others.items() if count]
        counts.append(f"{self.chunks_created} new chunks in {self.duration_seconds:.1f} s")
        yield f"{self.status}: {', '.join(counts)}"
        yield from (f"{INDENT}{error}" for error in self.errors)
        if self.notice:
            yield f"notice: {self.notice}"
        if self.repository_settings is not None:
            yield from lines_of({"settings": self.repository_settings.model_dump()})
        where = (
            "" if self.project_source == "explicit" else f", project {self.project_id or 'default'}"
        )
        yield f"repository_id: {self.repository_id}{where}"


async def index_with_progress(
    caller: Caller, repo_path: str, project_id: str | None, **options: Any
) -> IndexReport:
    """Index a repository (``options`` are those of `App.index`), and report progress."""
    latest: dict[str, Any] = {}
    options |= {"identity": caller.identity, "progress": lambda now: latest.update(now=now)}
    task = asyncio.ensure_future(caller.app.index(repo_path, project_id, **options))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=PROGRESS_INTERVAL_S)
            now = latest.get("now")
            if now is not None and not task.done():
                await caller.report_index_run(now)
    finally:
        task.cancel()
        await asyncio.wait({task})
    return task.result()


@TOOLSET.tool(
    "Index a repository",
    REPEATS,
    scope="index",
    is_index_run=True,
    failures={
        "DATABASE_ERROR": "Failed to index repository: Database connection failed",
        "EMBEDDING_ERROR": "Failed to index repository: Embedding generation failed",
    },
)
async def index_repository(caller: Caller, arguments: IndexRepository) -> IndexReply:
    """Seldom needed: the first question in a repository indexes it, and changes are followed. Call
    it for another directory, or another project_id. "failed": call again, it goes on from there.
    """
    report = await index_with_progress(
        caller,
        arguments.repo_path,
        arguments.project_id,
        name=arguments.name,
        force_reindex=arguments.force_reindex,
    )
    return index_reply(report)


def index_reply(report: IndexReport) -> IndexReply:
    run = report.run
    reply = IndexReply(
        repository_id=run.repository_id,
        files_indexed=run.files_indexed,
        chunks_created=run.chunks_created,
        duration_seconds=round(run.duration_s, 3),
        project_id=report.project.project_id,
        schema_name=report.project.schema_name,
        status=run.status,
        files_unchanged=run.files_unchanged,
        files_removed=run.files_removed,
        files_skipped=run.files_skipped,
        encodings=dict(run.encodings),
        secrets_masked=run.secrets_masked,
        project_source=report.project_source,
    )
    if run.status != "success":
        reply.errors = run.errors
    if run.notice:
        reply.notice = run.notice
    described = report.repository.described()
    if described:
        reply.repository_settings = RepositorySettingsReply.model_validate(described)
    return reply


class CodeFilter(ArgumentPart):
    """Which files to search."""

    languages: fields.Names | None = Field(
        default=None, description="Language names, such as python."
    )
    file_extensions: fields.Names | None = Field(
        default=None, description="File extensions, with or without the leading dot."
    )


class SearchCode(Arguments):
    query: Annotated[str, QUERY, Field(description="A sentence, then names you expect.")]
    project_id: fields.ProjectId = None
    repository_id: fields.RepositoryChoice = None
    file_type: Annotated[str | None, FILE_TYPE, Field(description="Extension: py.")] = None
    directory: Annotated[
        str | None, DIRECTORY, Field(description="Below src/auth, {a,b}/*/lib.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=50, description="Results at most.")] = 10
    filter: Annotated[CodeFilter | None, Field(description="Names of languages, extensions.")] = (
        None
    )
    ref: Annotated[str | None, REF, Field(description="Branch, tag or commit.")] = None
    max_chars: fields.ReplyBudget = None
    context_lines: Annotated[int, Field(ge=0, le=50, description="Lines around each result.")] = 10
    explain: Annotated[bool, Field(description="Say what made the rank.")] = False
    with_notes: Annotated[bool, Field(description="With records on each place.")] = False
    with_history: Annotated[bool, Field(description="Add its last commit.")] = False


class SearchCollection(SearchCode):
    limit: Annotated[int, Field(ge=1, le=100, description="Results at most.")] = 10


_SEARCH_CODE = f"""\
Search code by meaning and by words, before grep and before reading files. {ASK} {STOP} {ABSENT}"""


@TOOLSET.tool(
    "Search code",
    READS,
    text=_SEARCH_CODE,
    collection_arguments=SearchCollection,
    failures={"EMBEDDING_ERROR": "Cannot generate query embedding for semantic search"},
)
async def search_code(caller: Caller, arguments: SearchCode) -> SearchReply:
    """Search code by meaning and by words; the reply has the form that the caller gets."""
    from codebase_mcp.search.search import Request  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.tools.answers import file_filters  # noqa: PLC0415

    chosen = arguments.filter or CodeFilter()
    report = await caller.app.search(
        arguments.query,
        arguments.project_id,
        Request(
            file_filters(
                file_type=arguments.file_type,
                extensions=chosen.file_extensions or (),
                languages=chosen.languages or (),
                directory=arguments.directory,
            ),
            limit=arguments.limit,
            context_lines=arguments.context_lines,
            explain=arguments.explain,
            by_definition=caller.replies == "text",
        ),
        repository=fields.named_repository(arguments.repository_id),
        ref=arguments.ref,
        identity=caller.identity,
        with_notes=arguments.with_notes,
        with_help=True,
        with_history=arguments.with_history,
        report=caller.report_index_run,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.search import search_text  # noqa: PLC0415

        budget = caller.reply_budget(arguments.max_chars)
        # The default is that of the documents' JSON; a text is short unless lines are asked for.
        around = arguments.context_lines if "context_lines" in caller.given else 0
        return SearchReply.of_text(search_text(report, budget, around)).keeping(report)
    reply = brief_reply(report) if "collection" in caller.given else full_reply(report)
    if arguments.max_chars is not None:
        reply = fit(reply, arguments.max_chars)
    return reply.keeping(report)
