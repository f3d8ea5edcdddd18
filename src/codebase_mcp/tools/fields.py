"""Parameters and replies that several toolsets share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, FailFast, Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.tools.arguments import ArgumentPart, Arguments
from codebase_mcp.tools.reply import Extended, Reply, ReplyPart
from codebase_mcp.tools.rules import (
    ALL_REPOSITORIES,
    MAX_TAGS,
    PROJECT_ID,
    REPOSITORY,
    REPOSITORY_ID,
    TAG,
    Limits,
)
from codebase_mcp.tools.text import INDENT, joined

if TYPE_CHECKING:
    from codebase_mcp.app.reports import InProject
    from codebase_mcp.app.scopes import NamedRepository
    from codebase_mcp.records.anchoring import CodeReference

COMMIT_PATTERN = "^[a-f0-9]{40}$"


def publish_no_defaults(schema: dict[str, Any]) -> None:
    """Removes defaults from the schema of a tool that changes only the given fields.

    Clients that fill in defaults would clear the other fields. For ``json_schema_extra``.
    """
    for field in schema["properties"].values():
        field.pop("default", None)


ShownName = Annotated[str, AfterValidator(mask_token)]
"""A stored or given name that may hold a token."""

ProjectId = Annotated[str | None, PROJECT_ID, Field(description="Workspace; else yours.")]

RepositoryId = Annotated[
    UUID | None, REPOSITORY_ID, Field(description="Only this repository (UUID).")
]

RepositoryChoice = Annotated[
    str | None, REPOSITORY, Field(description='UUID or "all"; else yours.')
]


FileKinds = Annotated[
    list[Literal["code", "test", "docs", "config", "generated", "vendored"]] | None,
    Field(max_length=6, description="Only these."),
]


def named_repository(value: str | None) -> NamedRepository:
    """The repository that a checked parameter names."""
    if value is None or value == ALL_REPOSITORIES:
        return ALL_REPOSITORIES if value else None
    return UUID(value)


class ScopeReply(ReplyPart):
    """The repositories that a call used, by their ids: some of the project, or all of them."""

    kind: Literal["repository", "workspace"]
    repositories: list[UUID] = Field(validation_alias="repository_ids")


# No reply has as many characters; a number of any size would not fit where it is used.
MAX_BUDGET = 10_000_000
ReplyBudget = Annotated[
    int | None, Field(ge=200, le=MAX_BUDGET, description="Budget of the whole reply.")
]

Offset = Annotated[int, Field(ge=0, le=2**31 - 1, description="Prefer cursor.")]

PageCursor = Annotated[
    str | None, Field(min_length=1, max_length=200, description="next_cursor of the page before.")
]

Names = Annotated[list[str], Field(max_length=100)]


Tags = Annotated[
    list[Annotated[str, TAG]] | None,
    FailFast(),
    Field(max_length=MAX_TAGS),
    AfterValidator(lambda tags: tags and list(dict.fromkeys(tags))),
]


def _clean_path(path: str, field: str) -> str:
    """A path without empty and ``.`` steps; storing an absolute path makes it relative."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if ".." in steps or not "".join(steps).strip():
        message = "An anchor's file must be the path of a file, relative to the repository's root"
        hint = "Take it from search_code's file_path."
        rule = "relative path without .."
        raise InvalidInput.of(field, path[:200], message, rule=rule, hint=hint)
    return "/" * path.startswith("/") + "/".join(steps)


def _clean_symbol(symbol: str, field: str) -> str:
    if symbol.strip():
        return symbol.strip()
    message = "An anchor's symbol cannot be empty"
    raise InvalidInput.of(field, symbol[:200], message, rule="a name")


def _names_code(anchor: dict[str, Any], field: str) -> dict[str, Any]:
    if any(anchor.get(name) is not None for name in ("file", "symbol", "commit")):
        return anchor
    message = "An anchor must name a file, a symbol or a commit"
    raise InvalidInput.of(field, anchor, message, rule="at least one of file, symbol, commit")


class AnchorArgument(ArgumentPart):
    """A place in the code: at least one of file, symbol and commit."""

    file: Annotated[
        str | None,
        Field(min_length=1, max_length=4096, description="Path relative to the repository's root."),
        Limits(_clean_path),
    ] = None
    symbol: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=500,
            description="Name of a definition, qualified where needed: Session.close.",
        ),
        Limits(_clean_symbol),
    ] = None
    commit: Annotated[
        str | None, Field(pattern=COMMIT_PATTERN, description="Full commit hash (40 hex digits).")
    ] = None
    repository_id: Annotated[
        UUID | None,
        REPOSITORY_ID,
        Field(description="Only needed where several repositories hold such a file."),
    ] = None


Anchors = Annotated[
    Annotated[list[Annotated[AnchorArgument, Limits(_names_code, of=dict)]], Field(max_length=10)]
    | None,
    Field(description="Places in the code that it is about."),
]


class AnchorReply(ReplyPart):
    """A place in the code as it is now."""

    repository_id: UUID | None
    file: str | None
    symbol: str | None
    commit: str | None
    start_line: int | None
    end_line: int | None
    state: Literal["current", "needs_review"]
    reason: str | None = Field(description="Why it needs review.")
    moved_from: str | None = Field(description="The file in which it was before.")

    def as_text(self) -> str:
        lines = f":{self.start_line}-{self.end_line}" if self.start_line is not None else ""
        position = joined(
            f"{self.file}{lines}" if self.file else None,
            self.symbol,
            f"commit {self.commit}" if self.commit else None,
            f"was {self.moved_from}" if self.moved_from else None,
            by=" ",
        )
        stale = joined(self.state, self.reason, by=": ")
        return position if self.state == "current" else f"{position} ({stale})"


class NoteReply(ReplyPart):
    """A record about the lines of a result, or about its whole file (symbol is null)."""

    record_kind: Literal["task", "observation", "entity", "work_item"]
    id: UUID
    title: str = Field(description="A title or name; of an observation the first words.")
    status: str | None = Field(default=None, description="Of a task or work item.")
    type: str | None = Field(default=None, description="Of an observation, entity or work item.")
    state: Literal["current", "needs_review"]
    reason: str | None = Field(description="Why it needs review.")
    symbol: str | None
    start_line: int | None
    end_line: int | None


def places_of(anchors: Sequence[AnchorArgument] | None) -> list[CodeReference]:
    """The places that a client names; an empty list for null."""
    from codebase_mcp.records.anchoring import CodeReference  # noqa: PLC0415 - not for the handshake

    return [CodeReference(**anchor.model_dump()) for anchor in anchors or ()]


def changes_in(arguments: Arguments, identity: str) -> dict[str, Any]:
    """The fields that the update of a record changes: those that its client gave."""
    given = arguments.model_fields_set - {identity, "project_id"}
    changes = {name: getattr(arguments, name) for name in given}
    if "anchors" in changes:
        changes["anchors"] = places_of(changes["anchors"])
    return changes


def anchor_lines(anchors: Iterable[AnchorReply]) -> Iterator[str]:
    yield from (f"{INDENT}at {anchor.as_text()}" for anchor in anchors)


class ProjectReply(Reply):
    """A reply from a project."""

    project_id: str | None = Field(default=None, description="null is the default workspace.")
    project_source: str = Field(
        default="",
        description="Where the project came from: explicit, config, active, workflow or default.",
    )

    _not_listed: ClassVar[frozenset[str]] = frozenset({"error", "project_id", "project_source"})

    @classmethod
    def of(cls, project: InProject, record: object = None, /, **fields: Any) -> Self:
        """A reply from this project: with these fields, and with those of a record."""
        reply = cls(**fields) if record is None else cls.model_validate(Extended(record, fields))
        reply.project_id, reply.project_source = project.project.project_id, project.source
        return reply

    def as_text(self) -> str:
        """The reply for reading, with the project unless the call named it."""
        return "\n".join(part for part in (super().as_text(), self.project_line()) if part)

    def project_line(self) -> str:
        """The project, and the reason for it."""
        if self.project_source in ("", "explicit"):
            return ""
        why = "" if self.project_id is None else f" ({self.project_source})"
        return f"project: {self.project_id or 'default'}{why}"


class RecordReply(ProjectReply):
    """A reply of a tool that stores texts of its caller, with the secrets in them masked."""

    secrets_masked: list[str] = Field(
        default=[], description="Kinds of the secrets in the call; they were stored as stars."
    )

    _not_listed: ClassVar[frozenset[str]] = ProjectReply._not_listed | {"secrets_masked"}

    def as_text(self) -> str:
        """The reply for reading, and the kinds of masked secrets."""
        kinds = ", ".join(self.secrets_masked)
        return super().as_text() + (f"\nmasked before storing: {kinds}" if kinds else "")


class SecondTierEntry(ReplyPart):
    """The vectors of a stronger model; ``waiting`` means that nothing adds to them just now."""

    model: str
    chunks_done: int
    chunks_total: int
    state: Literal["growing", "complete", "waiting"]
    error: str | None = Field(description="Why it waits, where the model did not answer.")
    replaces: str | None = Field(description="The model that answers until this one is complete.")
