"""The toolset ``index``: index in the background, see how far that is, clear it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from codebase_mcp.database.naming import DEFAULT_ID, Project
from codebase_mcp.index.progress import Phase
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import RepositoryId, SecondTierEntry
from codebase_mcp.tools.reply import ErrorShape, Reply, ReplyPart
from codebase_mcp.tools.rules import PROJECT_ID, REPO_PATH
from codebase_mcp.tools.text import INDENT, lines_of, moment
from codebase_mcp.tools.toolset import READS, REPEATS, Caller, Hints, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.background.indexing import IndexingProgress, Started

TOOLSET = Toolset(
    "index",
    "index_codebase indexes large repositories in the background; get_indexing_status says how "
    "far.",
)

Collection = Annotated[str, PROJECT_ID, Field(description="The project_id of other tools.")]


class IndexCodebase(Arguments):
    collection: Collection
    repository_path: Annotated[str, REPO_PATH, Field(description="Absolute path.")]
    depth: Annotated[int, Field(ge=0, le=10_000, description="Commits of history to read.")] = 1000


class IndexCodebaseReply(Reply):
    status: Literal["started", "completed", "failed"] = Field(
        default="started", description="started: it waits or goes on; ask get_indexing_status."
    )
    collection: str = ""
    files_processed: int = Field(default=0, description="Of this run, so far.")
    chunks_created: int = Field(default=0, description="Of this run, so far.")
    operation_id: UUID | None = Field(
        default=None, description="This request; the same while it waits."
    )
    repository_id: UUID | None = Field(
        default=None, description="The same for this path, for ever."
    )
    errors: list[str] = Field(default=[], description="Files that could not be indexed, and why.")
    notice: str = Field(default="", description="Present when nobody is there to do it.")

    def text_lines(self) -> Iterator[str]:
        yield f"{self.status}: {self.files_processed} files, {self.chunks_created} new chunks"
        yield from (f"{INDENT}{error}" for error in self.errors)
        if self.notice:
            yield f"notice: {self.notice}"
        yield f"operation_id: {self.operation_id}, repository_id: {self.repository_id}"


@TOOLSET.tool("Index in the background", REPEATS, scope="index")
async def index_codebase(caller: Caller, arguments: IndexCodebase) -> IndexCodebaseReply:
    """Index a repository in the background; it answers at once.

    Searches find what is stored so far. If the process ends, another goes on from there. Call again
    after changes: only those are read. Next: get_indexing_status until is_indexing is false. To
    wait for the end use index_repository.
    """
    from codebase_mcp.app.background.indexing import start_indexing  # noqa: PLC0415 - not for the handshake

    started = await start_indexing(
        caller.app,
        arguments.repository_path,
        arguments.collection,
        depth=arguments.depth,
        identity=caller.identity,
    )
    return _started_reply(started)


def _started_reply(started: Started) -> IndexCodebaseReply:
    job, run = started.job, started.run
    reply = IndexCodebaseReply(
        status="started" if job.is_pending else "completed" if job.status == "done" else "failed",
        collection=_collection(started.project),
        files_processed=run.files_done if run else 0,
        chunks_created=run.chunks_created if run else 0,
        operation_id=job.operation_id,
        repository_id=job.repository_id,
    )
    if run is not None and run.errors:
        reply.errors = list(run.errors)
    if job.status == "failed" and job.error is not None:
        reply.error = ErrorShape.model_validate(job.error)
    elif job.status == "cancelled":
        reply.error = ErrorShape(
            code="INDEXING_ERROR", type="InternalError", message="The job was cancelled"
        )
    if not started.has_worker:
        reply.notice = _unattended()
    return reply


class GetIndexingStatus(Arguments):
    collection: Collection
    repository_id: RepositoryId = None


class LastRunEntry(ReplyPart):
    """How a run ended. ``interrupted``: its process was killed, and no job goes on with it."""

    operation_id: UUID
    status: Literal["success", "partial", "failed", "cancelled", "interrupted"]
    ended_at: datetime | None
    files_indexed: int
    chunks_created: int
    errors: list[str]

    def text_lines(self) -> Iterator[str]:
        at = "" if self.ended_at is None else f" {moment(self.ended_at)}"
        files, chunks = f"{self.files_indexed} files indexed", f"{self.chunks_created} new chunks"
        yield f"last run: {self.status}{at}, {files}, {chunks}"
        yield from (f"{INDENT}{error}" for error in self.errors)


class RepositoryStatus(BaseModel):
    """How far the indexing of a repository is."""

    repository_id: UUID
    root: str
    is_indexing: bool
    queued: bool
    progress_percent: float
    files_processed: int
    files_total: int
    current_file: str
    current_phase: Phase
    estimated_time_remaining: int | None
    last_run: LastRunEntry | None

    def text_lines(self) -> Iterator[str]:
        yield f"{self.root} {self.repository_id}: {_progress_text(self)}"
        if self.last_run is not None:
            yield from (INDENT + line for line in self.last_run.text_lines())


class IndexingStatusReply(Reply):
    collection: str = ""
    is_indexing: bool = Field(default=False, description="A run goes on, or a request waits.")
    queued: bool = Field(default=False, description="A request waits for a worker.")
    notice: str = Field(default="", description="Present when nobody is there to do it.")
    progress_percent: float = Field(default=0.0, ge=0, le=100)
    files_processed: int = 0
    files_total: int = Field(default=0, description="0 until the files are listed.")
    current_file: str = Field(default="", description="Stored last; empty when no run goes on.")
    current_phase: Phase = Field(
        default="idle",
        description="waiting for a worker; listing files; indexing them; finishing: they can be "
        "searched, but statistics, branches or history remain; idle.",
    )
    estimated_time_remaining: int | None = Field(
        default=0,
        description="Seconds, 1 or more while indexing; null in the phases waiting and listing.",
    )
    last_run: LastRunEntry | None = Field(default=None, description="The run that ended last.")
    repositories: list[RepositoryStatus] = Field(default=[], description="Each by itself.")
    second_tier: SecondTierEntry | None = Field(
        default=None,
        description="How far the vectors of a stronger embedding model are; searches do not wait.",
    )

    def text_lines(self) -> Iterator[str]:
        yield f"{self.collection}: {_progress_text(self)}"
        if self.notice:
            yield f"notice: {self.notice}"
        for repository in self.repositories:
            yield from repository.text_lines()
        if not self.repositories and self.last_run is not None:
            yield from self.last_run.text_lines()
        if self.second_tier is not None:
            yield from lines_of({"second_tier": self.second_tier.model_dump()})


def _progress_text(now: RepositoryStatus | IndexingStatusReply) -> str:
    if not now.is_indexing:
        return f"not indexing, {now.files_processed} of {now.files_total} files"
    left = now.estimated_time_remaining
    done = f"{now.progress_percent:g} %, {now.files_processed} of {now.files_total} files"
    state = {"waiting": "waits for a worker", "listing": "listing files"}.get(
        now.current_phase, now.current_phase
    )
    return f"{state}, {done}" + ("" if left is None else f", {left} s left")


@TOOLSET.tool("See how far indexing is", READS)
async def get_indexing_status(caller: Caller, arguments: GetIndexingStatus) -> IndexingStatusReply:
    """How far the indexing of a collection is, whichever process does it, and how the last run
    ended.

    `last_run` "partial": the files in its `errors` could not be indexed; "interrupted" or "failed":
    call index_codebase again, it goes on from there.
    """
    from codebase_mcp.app.background.indexing import indexing_state  # noqa: PLC0415 - not for the handshake

    state = await indexing_state(
        caller.app, arguments.collection, arguments.repository_id, caller.identity
    )
    reply = IndexingStatusReply(
        collection=_collection(state.project),
        **_progress(state.progress),
        repositories=[
            RepositoryStatus(
                repository_id=repository.repository_id,
                root=repository.root,
                **_progress(repository.progress),
            )
            for repository in state.repositories
        ],
    )
    if state.secondary_model is not None:
        reply.second_tier = SecondTierEntry.model_validate(state.secondary_model)
    if not state.has_worker:
        reply.notice = _unattended()
    return reply


def _unattended() -> str:
    from codebase_mcp.index.queue import NO_WORKER  # noqa: PLC0415 - not for the handshake

    return f"{NO_WORKER}."


def _progress(progress: IndexingProgress) -> dict[str, Any]:
    """How far indexing is, by the names that clients know."""
    return {
        "is_indexing": progress.is_indexing,
        "queued": progress.queued,
        "progress_percent": progress.percent,
        "files_processed": progress.files_done,
        "files_total": progress.files_total,
        "current_file": progress.current_file or "",
        "current_phase": progress.phase,
        "estimated_time_remaining": progress.seconds_left,
        "last_run": progress.last_run,
    }


class ClearIndex(Arguments):
    collection: Collection
    repository_id: RepositoryId = None


class ClearIndexReply(Reply):
    status: Literal["cleared", "failed"] = "cleared"
    collection: str = ""
    items_deleted: int = Field(default=0, description="Files, chunks and vectors, in all.")

    def text_lines(self) -> Iterator[str]:
        yield f"{self.status} {self.collection}: {self.items_deleted} files, chunks and vectors"


# The scope is admin, as it takes the index from everyone.
@TOOLSET.tool("Clear the index", Hints(destroys=True, repeats=True), scope="admin")
async def clear_index(caller: Caller, arguments: ClearIndex) -> ClearIndexReply:
    """Remove every file, chunk and vector of a collection, or of one of its repositories; running
    indexing is given up.

    Records and files on disk stay. Rarely needed: index_codebase brings an index up to date. Only
    indexing again brings it back.
    """
    from codebase_mcp.app.background.indexing import clear_index as clear  # noqa: PLC0415

    project, items = await clear(
        caller.app, arguments.collection, arguments.repository_id, caller.identity
    )
    return ClearIndexReply(status="cleared", collection=_collection(project), items_deleted=items)


def _collection(project: Project) -> str:
    return project.project_id or DEFAULT_ID
