"""The JSON reply of a search, in the form of the documents, within a budget of characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from codebase_mcp.index.progress import RunPhase
from codebase_mcp.model import WORKTREE
from codebase_mcp.tools.fields import NoteReply, ScopeReply
from codebase_mcp.tools.reply import IsoTime, ReplyPart, TextReply, as_text, rounded

if TYPE_CHECKING:
    from codebase_mcp.app.app import SearchReport
    from codebase_mcp.app.freshness.verified_search import IndexFreshness
    from codebase_mcp.search.hits import Hit
    from codebase_mcp.search.literal import ExactMatches


class OtherPlace(ReplyPart):
    """Another good place in the file of a result."""

    start_line: int
    end_line: int
    symbol: str | None
    score: float


class SameText(ReplyPart):
    """Where else the very same text stands."""

    repository_id: UUID
    file_path: str
    start_line: int
    end_line: int


class LastChange(ReplyPart):
    """The commit that last changed the lines of a result; null where they are uncommitted."""

    commit: str | None
    author: str
    date: IsoTime | None
    subject: str


class UsingPlace(ReplyPart):
    """A line that uses a result, and the definition around it."""

    file_path: str = Field(validation_alias="path")
    line: int
    symbol: str | None


class UsageReply(ReplyPart):
    """The first places that use a result for certain; several uses in a definition are one."""

    how: Annotated[
        Literal["called", "used"],
        BeforeValidator(lambda is_called: "called" if is_called else "used"),
        Field(validation_alias="is_called"),
    ]
    places: list[UsingPlace]
    more: int = Field(description="Further places like these.")
    in_tests: int = Field(description="Places in tests, where those given are in code.")
    is_all: bool = Field(description="False: the name is so common that there may be others.")


class CodeResult(ReplyPart):
    """A chunk of a file, as it was indexed. Lines are 1-based and inclusive."""

    chunk_id: UUID
    file_path: str = Field(description="Relative to the repository's root.")
    content: str
    start_line: int
    end_line: int
    similarity_score: float = Field(
        ge=0, le=1, description="0.9 and above excellent, 0.8 good, 0.7 fair, 0.6 weak, below poor."
    )
    context_before: str
    context_after: str
    repository_id: UUID
    language: str
    symbol: str | None
    kind: str
    file_kind: str
    more_in_file: list[OtherPlace] = Field(default=[])
    also_at: list[SameText] = Field(default=[])
    commit: Annotated[
        str | None,
        AfterValidator(lambda view: None if view == WORKTREE else view),
        Field(validation_alias="view", description="With ref: the commit that has it."),
    ] = None
    change: Literal["added", "changed", "removed"] | None = Field(
        default=None, description="With a range as ref: how it came about."
    )
    signals: dict[str, Annotated[float, rounded(4)]] = Field(
        default={}, description="With explain: what made the rank."
    )
    notes: list[NoteReply] = Field(default=[], description="With with_notes: what is known here.")
    last_change: LastChange | None = Field(default=None, description="With with_history.")
    usage: UsageReply | None = Field(
        default=None, description="Of the first result: where it is used, as far as is certain."
    )


class BriefResult(ReplyPart):
    """A result as callers that name a collection get it."""

    file: str = Field(validation_alias="file_path")
    content: str
    relevance_score: float = Field(validation_alias="similarity_score")
    line_number: int = Field(validation_alias="start_line")
    notes: list[NoteReply] = Field(default=[], description="With with_notes: what is known here.")
    last_change: LastChange | None = Field(default=None, description="With with_history.")


class RepositoryName(ReplyPart):
    name: str
    root: str


class IndexState(ReplyPart):
    """How far the results can be relied upon."""

    state: Literal[
        "ready", "unchecked", "stale", "outdated", "incomplete", "indexing", "absent"
    ] = Field(
        description="ready: equal to the files as they were at checked_at, up to a second ago; "
        "unchecked: could not be compared with them in time, or they are not on this machine; "
        "stale: files have changed that are not indexed yet; outdated: made by an earlier version "
        "of this program, so words and names answer until it is made anew in the background; "
        "incomplete: the last run broke off; indexing: a run is going on; absent: no repository "
        "here has the repository_id."
    )
    files_pending: int = Field(description="Known not to be in the index as they are now.")
    files_failed: int
    files_skipped: int
    indexed_at: IsoTime | None
    checked_at: IsoTime | None = Field(description="When it was last compared with the files.")
    progress_percent: float | None = Field(default=None, description="While indexing: files done.")
    current_phase: RunPhase | None = Field(default=None, description="With progress_percent.")
    estimated_time_remaining: int | None = Field(
        default=None, description="While indexing: seconds, 1 or more; null while listing files."
    )


class BetterFileReply(ReplyPart):
    repository_id: UUID
    file_path: str
    similarity_score: float


class HelpReply(ReplyPart):
    """Why the results are few or poor, and what to ask instead."""

    hint: str = Field(description="What to do next.")
    reasons: list[str]
    words: dict[str, int] = Field(description="In how many chunks each word of the query occurs.")
    nearest_words: dict[str, list[str]] = Field(
        validation_alias="nearest",
        description="For words that this code lacks or hardly uses: its own words that are near.",
    )
    without_filters: BetterFileReply | None = Field(
        default=None,
        validation_alias="better",
        description="The best file where the filters hide a better one.",
    )


class ExactTextReply(ReplyPart):
    """The exact text in the query: what is in double quotes, or a query that is no words."""

    texts: list[str]
    results: int = Field(description="How many of the first results have it.")
    lines: int | None = Field(description="Lines with it, in all files; find_text lists them.")
    files: int | None = Field(description="Null like lines where only candidates were read.")


class SearchReply(TextReply):
    results: list[CodeResult | BriefResult] = Field(default=[])
    total_count: int = Field(default=0, description="Matching chunks in all, whatever the limit.")
    total_is_lower_bound: bool = False
    project_id: str | None = None
    schema_name: str = ""
    latency_ms: float = 0.0
    project_source: str = Field(default="", description="Where the project came from.")
    scope: ScopeReply | None = Field(default=None, description="What was searched.")
    repositories: dict[str, RepositoryName] = Field(default={})
    refs: dict[str, str] = Field(default={}, description="With ref: what each commit is.")
    index: IndexState | None = None
    exact: ExactTextReply | None = Field(
        default=None, description="Present when the query has exact text."
    )
    truncated: bool = Field(default=False, description="Cut to max_chars.")
    second_tier: Literal["used", "away", "missing"] | None = Field(
        default=None,
        description="Where a stronger embedding model is configured: used; away, it did not "
        "answer in time; missing, it has no vectors here yet. Without it the built-in model and "
        "words answer.",
    )
    help: HelpReply | None = Field(
        default=None, description="Present when nothing is found, or nothing better than poor."
    )
    count: int = Field(default=0, description="For callers that name a collection.")
    query_time_ms: int = Field(default=0, description="For callers that name a collection.")

    _report: SearchReport | None = PrivateAttr(None)

    @property
    def report(self) -> SearchReport | None:
        """The answer that the reply was made from, for renderings as HTML."""
        return self._report

    def keeping(self, report: SearchReport) -> SearchReply:
        """This reply, with the answer that it was made from."""
        self._report = report
        return self


def full_reply(report: SearchReport) -> SearchReply:
    """The reply as the documents describe it."""
    answer = report.answer
    results: list[CodeResult | BriefResult] = [_result(hit) for hit in answer.hits]
    reply = SearchReply(
        results=results,
        total_count=answer.total_count,
        project_id=report.project.project_id,
        schema_name=report.project.schema_name,
        latency_ms=round(report.latency_ms, 2),
        project_source=report.project_source,
        scope=ScopeReply.model_validate(report.scope),
        repositories={
            str(s.repository_id): RepositoryName.model_validate(s) for s in answer.snapshots
        },
        index=index_state(report.index),
    )
    if report.refs:
        reply.refs = dict(report.refs)
    if answer.total_is_lower_bound:
        reply.total_is_lower_bound = True
    if answer.exact is not None:
        reply.exact = _exact_reply(answer.exact, answer.hits)
    if report.usage is not None and isinstance(first := results[0], CodeResult):
        first.usage = UsageReply.model_validate(report.usage)
    return _with_more(reply, report)


def brief_reply(report: SearchReport) -> SearchReply:
    """The reply for callers that name a collection."""
    results: list[CodeResult | BriefResult] = [*brief_results(report)]
    reply = SearchReply(results=results, count=len(results), query_time_ms=round(report.latency_ms))
    return _with_more(reply, report)


def brief_results(report: SearchReport) -> list[BriefResult]:
    """The results in the form for callers that name a collection."""
    return [*map(BriefResult.model_validate, report.answer.hits)]


def _with_more(reply: SearchReply, report: SearchReport) -> SearchReply:
    """The reply with help, notes, commits and the state of the secondary model."""
    if report.answer.secondary_model is not None:
        reply.second_tier = report.answer.secondary_model
    if report.help is not None:
        reply.help = HelpReply.made_from(report.help)
    for result, notes in zip(reply.results, report.notes, strict=False):
        result.notes = [*map(NoteReply.made_from, notes)]
    for result, change in zip(reply.results, report.last_changes, strict=False):
        if change is not None:
            result.last_change = LastChange.model_validate(change)
    return reply


def fit(reply: SearchReply, max_chars: int) -> SearchReply:
    """The reply, cut so that its JSON has at most ``max_chars`` characters.

    Context lines go first, from the last result upwards, then notes, then whole results from the
    end; of the first result its extra fields, then its last lines; then the fields of the reply.
    """
    if _chars(reply) <= max_chars:
        return reply
    cut = reply.model_copy(deep=True)
    cut.truncated = True
    for _ in _cuts(cut):
        if _chars(cut) <= max_chars:
            break
    return cut


# The fields of a reply that are left out last, in this order.
_LEAST_NEEDED = "help exact repositories index scope project_source latency_ms schema_name"


def _cuts(reply: SearchReply) -> Iterator[None]:
    """Makes the reply shorter, by a step with each iteration."""
    results = reply.results
    for result in reversed(results):
        if isinstance(result, CodeResult):
            result.context_before = result.context_after = ""
            yield
    for result in reversed(results):
        while result.notes:
            result.notes.pop()
            yield
    while len(results) > 1:
        results.pop()
        yield
    for result in list(results):
        for extra in ("more_in_file", "also_at", "signals", "notes", "last_change", "usage"):
            result.model_fields_set.discard(extra)
        yield
        lines = result.content.splitlines(keepends=True)
        while len(lines) > 1:
            lines.pop()
            result.content = "".join(lines)
            if isinstance(result, CodeResult):
                result.end_line = result.start_line + len(lines) - 1
            yield
        results.clear()
        yield
    for extra in _LEAST_NEEDED.split():
        reply.model_fields_set.discard(extra)
        yield


def _chars(reply: SearchReply) -> int:
    return len(as_text(reply.model_dump(mode="json", exclude_unset=True)))


def _result(hit: Hit) -> CodeResult:
    result = CodeResult.made_from(hit)
    result.change = hit.change  # null unless a change was searched
    return result


def _exact_reply(exact: ExactMatches, hits: Sequence[Hit]) -> ExactTextReply:
    from codebase_mcp.search.help import first_with_text  # noqa: PLC0415 - not for the handshake

    return ExactTextReply(
        texts=[*exact.text.texts],
        results=first_with_text(hits),
        lines=exact.line_count,
        files=exact.file_count,
    )


def index_state(freshness: IndexFreshness) -> IndexState:
    """The state of an index as clients see it."""
    state = IndexState.model_validate(freshness)
    if freshness.percent is not None:
        state.progress_percent = freshness.percent
        state.current_phase = freshness.phase
        state.estimated_time_remaining = freshness.seconds_left
    return state
