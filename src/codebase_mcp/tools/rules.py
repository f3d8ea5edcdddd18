"""Is this value what the parameter asks for? The rules that the contract words itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.source.root import check_path
from codebase_mcp.tools.limits import Limits
from codebase_mcp.tools.problems import error_value, text_of_value
from codebase_mcp.values import require_storable

PROJECT_ID_PATTERN = "^[a-z0-9]+([-_][a-z0-9]+)*$"
FILE_TYPE_PATTERN = "^[a-zA-Z0-9]+$"
NOT_BLANK = r"\S"
ALL_REPOSITORIES: Literal["all"] = "all"
"""Named instead of a repository: all of the project."""
MAX_QUERY_CHARS = 500
MAX_REF_CHARS = 1_000
MAX_DIRECTORY_CHARS = 500
MAX_NAME_CHARS = 200
MAX_SESSION_ID_CHARS = 200
MAX_TAGS = 20
MAX_TAG_CHARS = 100


def text(longest: int, *, shortest: int = 1) -> Limits:
    """A text of ``shortest`` to ``longest`` characters, without the spaces around it."""

    def check(value: str, field: str) -> str:
        return check_text(value, field, shortest, longest)

    not_blank = {"pattern": NOT_BLANK} if shortest else {}
    return Limits(check, minLength=shortest, maxLength=longest, **not_blank)


def check_text(value: str, field: str, shortest: int, longest: int) -> str:
    """A text without the spaces around it."""
    require_storable(field, value)
    trimmed = value.strip()
    if shortest <= len(trimmed) <= longest:
        return trimmed
    label = field.replace("_", " ").capitalize()
    message = (
        f"{label} must have {shortest} to {longest} characters, got {len(trimmed)}"
        if trimmed
        else f"{label} cannot be empty"
    )
    raise InvalidInput.of(field, value[:50], message, rule=f"{shortest}..{longest} characters")


def record_id(kind: str) -> Limits:
    """The id of a record, a UUID in any of its spellings."""

    def check(value: str, field: str) -> str:
        return check_record_id(value, field, kind)

    return Limits(check)


def check_record_id(
    value: str, field: str, kind: str, hint: str = "Take it from the reply that named it."
) -> str:
    """The id of a record of this kind, in the usual spelling of a UUID."""
    try:
        return str(UUID(value))
    except ValueError:
        raise InvalidInput.of(
            field,
            value[:100],
            f"{kind} ID is not a valid UUID: {value[:100]}",
            rule="UUID",
            hint=hint,
        ) from None


def require_text(field: str, value: object) -> None:
    """See that an entry of a list is a text that can be stored.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(value, str):
        message = f"{field} must be of type string, got {text_of_value(value)}"
        raise InvalidInput.of(field, error_value(value), message, rule="string")
    require_storable(field, value)


def check_tags(tags: list[str], field: str) -> list[str]:
    """Tags without the spaces around them, each once, in order."""
    if len(tags) > MAX_TAGS:
        message = f"Tags must have 0 to {MAX_TAGS} items, got {len(tags)}"
        raise InvalidInput.of(field, len(tags), message, rule=f"0..{MAX_TAGS} items")
    checked = []
    for place, tag in enumerate(tags):
        name = f"{field}.{place}"
        require_text(name, tag)
        checked.append(check_text(tag, name, 1, MAX_TAG_CHARS))
    return list(dict.fromkeys(checked))


def check_query(query: str, field: str = "query") -> str:
    """A question, trimmed; 1 to 500 characters."""
    trimmed = query.strip()
    if not trimmed:
        raise InvalidInput.of(
            field,
            query[:50],
            "Search query cannot be empty",
            rule=f"1..{MAX_QUERY_CHARS} characters",
            hint="Provide a non-empty query string.",
        )
    if len(trimmed) > MAX_QUERY_CHARS:
        raise InvalidInput.of(
            field,
            trimmed[:50] + "…",
            f"Search query must be at most {MAX_QUERY_CHARS} characters, got {len(trimmed)}",
            rule=f"1..{MAX_QUERY_CHARS} characters",
            hint="Shorten it to what the code is about.",
        )
    return trimmed.replace("\0", " ")


def check_project_id(project_id: str | None, field: str = "project_id") -> str | None:
    """A valid project id, or None for the default order of choosing a project."""
    try:
        return None if project_id is None else validate_project_id(project_id)
    except InvalidInput as error:
        raise _of_field(field, error) from None


def check_repo_path(repo_path: str, field: str = "repo_path") -> str:
    """An absolute path; `settings/reach.py` decides whether the caller may read it."""
    try:
        check_path(repo_path)
    except InvalidInput as error:
        raise _of_field(field, error) from None
    return repo_path


def check_name(name: str | None, field: str = "name") -> str | None:
    """A display name of 1 to 200 characters."""
    if name is None:
        return None
    trimmed = name.replace("\0", " ").strip()
    if not 1 <= len(trimmed) <= MAX_NAME_CHARS:
        raise InvalidInput.of(
            field,
            name[:50],
            f"Name must have 1 to {MAX_NAME_CHARS} characters, got {len(trimmed)}",
            rule=f"1..{MAX_NAME_CHARS} characters",
        )
    return trimmed


def check_repository_id(value: str, field: str) -> str:
    """The id of a repository."""
    hint = "Take it from index_repository's reply, or leave it out."
    return check_record_id(value, field, "Repository", hint)


def check_repository(value: str, field: str) -> str:
    """The id of a repository, or all of them."""
    return value if value == ALL_REPOSITORIES else check_repository_id(value, field)


def check_file_type(file_type: str | None, field: str = "file_type") -> str | None:
    """A file extension without its dot."""
    if not file_type:
        return None
    bare = file_type.lstrip(".")
    if bare != file_type and re.fullmatch(r"[a-zA-Z0-9]+", bare):
        raise InvalidInput.of(
            field,
            file_type,
            f'File type must not include a leading dot: use "{bare}" instead of "{file_type}"',
            rule=FILE_TYPE_PATTERN,
            hint=f'Pass "{bare}".',
        )
    if not re.fullmatch(r"[a-zA-Z0-9]+", file_type):
        raise InvalidInput.of(
            field,
            file_type[:100],
            f"File type must consist of letters and digits: {file_type[:100]}",
            rule=FILE_TYPE_PATTERN,
            hint="For several extensions use filter.file_extensions.",
        )
    return file_type


def check_directory(directory: str | None, field: str = "directory") -> str | None:
    """A directory relative to the repository's root."""
    if not directory:
        return None
    if len(directory) > MAX_DIRECTORY_CHARS:
        raise InvalidInput.of(
            field,
            directory[:50] + "…",
            f"Directory must be at most {MAX_DIRECTORY_CHARS} characters, got {len(directory)}",
            rule=f"at most {MAX_DIRECTORY_CHARS} characters",
        )
    if directory.startswith("/"):
        raise InvalidInput.of(
            field,
            directory,
            f"Directory must be relative to the repository root, without a leading slash: "
            f"{directory}",
            rule="relative path",
            hint=f'Pass "{directory.strip("/")}".',
        )
    return directory.replace("\0", " ").removeprefix("./").rstrip("/")


def check_ref(ref: str, field: str) -> str:
    """Which states of the code to search: names separated by spaces, or a range."""
    wanted = " ".join(ref.split())
    if wanted and len(wanted) <= MAX_REF_CHARS and wanted.isprintable():
        return wanted
    raise InvalidInput.of(
        field,
        ref[:200],
        f"Not a branch, a tag or a commit: {ref[:200]!r}",
        rule=f"1 to {MAX_REF_CHARS} printable characters",
        hint="Leave ref out to search the files as they are on disk.",
    )


def check_moment(text: str | None, field: str, *, is_end: bool = False) -> datetime | None:
    """An ISO date or time, in UTC unless it says otherwise; as an end, a date includes its day."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return at + timedelta(days=1) if is_end and len(text.strip()) <= len("2024-01-31") else at
    except (ValueError, OverflowError):
        rule = "an ISO date or time, such as 2024-01-31"
        message = f"{field} must be {rule}, got {text[:50]}"
        raise InvalidInput.of(field, text[:50], message, rule=rule) from None


def _of_field(field: str, error: CodebaseError) -> CodebaseError:
    """The error under the name that this tool has for the parameter."""
    return type(error)(error.message, hint=error.hint, details={**error.details, "field": field})


PROJECT_ID = Limits(check_project_id, pattern=PROJECT_ID_PATTERN, minLength=1, maxLength=50)
QUERY = Limits(check_query, pattern=NOT_BLANK, minLength=1, maxLength=MAX_QUERY_CHARS)
REPO_PATH = Limits(check_repo_path, pattern=NOT_BLANK, minLength=1, maxLength=4096)
NAME = Limits(check_name, pattern=NOT_BLANK, minLength=1, maxLength=MAX_NAME_CHARS)
REPOSITORY_ID = Limits(check_repository_id)
REPOSITORY = Limits(check_repository)
FILE_TYPE = Limits(check_file_type, pattern=FILE_TYPE_PATTERN)
DIRECTORY = Limits(check_directory, maxLength=MAX_DIRECTORY_CHARS)
REF = Limits(check_ref, pattern=NOT_BLANK, minLength=1, maxLength=MAX_REF_CHARS)
TAGS = Limits(check_tags, maxItems=MAX_TAGS)
