"""Checks the values of parameters whose messages are the contract's own.

Commands use these rules too, so pydantic is not loaded with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.root import check_path

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

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
MAX_GIVEN = 100
MAX_GIVEN_CHARS = 4_200
MAX_TAGS = 20
MAX_TAG_CHARS = 100


Rule = Callable[[Any, str], Any]
"""Takes a value and the name of its parameter, and returns the value to use.

Raises:
    InvalidInput: the value is invalid.
"""


class Limits:
    """Checks a parameter by a rule, where pydantic lacks the limit or the message.

    As metadata of a type. The rule gets values of type ``of``; pydantic refuses other types.
    The keywords are published in the parameter's JSON Schema.
    """

    def __init__(self, rule: Rule, *, of: type = str, **keywords: Any) -> None:
        self._rule = rule
        self._type = of
        self._keywords = keywords

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415 - not for commands

        return core_schema.no_info_before_validator_function(self._apply, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        published = handler(schema)
        for option in published.get("anyOf", [published]):
            if option.get("type") != "null":
                option.update(self._keywords)
        return published

    def _apply(self, value: Any) -> Any:
        return apply_rule(self._rule, value) if isinstance(value, self._type) else value


def apply_rule(rule: Rule, value: Any) -> Any:
    """The value to use, for pydantic.

    Raises:
        PydanticCustomError: it holds the rule; `tools.arguments` knows the parameter's full name,
            and asks the rule again.
    """
    from pydantic_core import PydanticCustomError  # noqa: PLC0415 - not for commands

    try:
        return rule(value, "")
    except InvalidInput:
        raise PydanticCustomError("rule", "invalid", {"rule": rule}) from None


def text(longest: int) -> Limits:
    """The limits of a text that is not empty, and is used without the spaces around it."""

    def check(value: str, field: str) -> str:
        return check_text(value, field, 1, longest)

    return Limits(check, minLength=1, maxLength=longest, pattern=NOT_BLANK)


def check_text(value: str, field: str, shortest: int, longest: int) -> str:
    """A text without the spaces around it."""
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
    """The limits of a record's id, a UUID in any of its spellings."""
    return Limits(lambda value, field: UUID(check_record_id(value, field, kind)))


def check_record_id(
    value: str, field: str, kind: str, hint: str = "Take it from the reply that named it."
) -> str:
    """The id of a record of this kind, in the usual spelling of a UUID."""
    try:
        return str(UUID(value))
    except ValueError:
        message = f"{kind} ID is not a valid UUID: {value[:100]}"
        raise InvalidInput.of(field, value[:100], message, rule="UUID", hint=hint) from None


def check_query(query: str, field: str = "query") -> str:
    """A question, trimmed; 1 to 500 characters."""
    trimmed, rule = query.strip(), f"1..{MAX_QUERY_CHARS} characters"
    if not trimmed:
        message = "Search query cannot be empty"
        hint = "Provide a non-empty query string."
        raise InvalidInput.of(field, query[:50], message, rule=rule, hint=hint)
    if len(trimmed) > MAX_QUERY_CHARS:
        message = f"Search query must be at most {MAX_QUERY_CHARS} characters, got {len(trimmed)}"
        hint = "Shorten it to what the code is about."
        raise InvalidInput.of(field, trimmed[:50] + "…", message, rule=rule, hint=hint)
    return trimmed.replace("\0", " ")


def check_task(task: str, field: str = "task") -> str:
    """The text of a task, trimmed; 1 to 50,000 characters."""
    return check_text(task, field, 1, MAX_TASK_CHARS).replace("\0", " ")


def check_given(path: str, field: str = "given") -> str:
    """A path, or ``path:first-last``, of a file that a caller has; it need not exist."""
    return check_text(path, field, 1, MAX_GIVEN_CHARS).replace("\0", " ")


def check_project_id(project_id: str | None, field: str = "project_id") -> str | None:
    """A valid project id, or None for the default order of choosing a project."""
    try:
        return None if project_id is None else validate_project_id(project_id)
    except InvalidInput as error:
        error.details["field"] = field
        raise


def check_repo_path(repo_path: str, field: str = "repo_path") -> str:
    """An absolute path; `settings/repository.py` decides whether the caller may read it."""
    try:
        check_path(repo_path)
    except InvalidInput as error:
        error.details["field"] = field
        raise
    return repo_path


def check_name(name: str | None, field: str = "name") -> str | None:
    """A display name of 1 to 200 characters."""
    if name is None:
        return None
    trimmed = name.replace("\0", " ").strip()
    if not 1 <= len(trimmed) <= MAX_NAME_CHARS:
        message = f"Name must have 1 to {MAX_NAME_CHARS} characters, got {len(trimmed)}"
        raise InvalidInput.of(field, name[:50], message, rule=f"1..{MAX_NAME_CHARS} characters")
    return trimmed


def check_repository_id(value: str, field: str) -> str:
    hint = "Take it from index_repository's reply, or leave it out."
    return check_record_id(value, field, "Repository", hint)


def check_file_type(file_type: str | None, field: str = "file_type") -> str | None:
    """A file extension without its dot."""
    if not file_type:
        return None
    bare = file_type.lstrip(".")
    if bare != file_type and re.fullmatch(r"[a-zA-Z0-9]+", bare):
        message = f'File type must not include a leading dot: use "{bare}" instead of "{file_type}"'
        hint = f'Pass "{bare}".'
        raise InvalidInput.of(field, file_type, message, rule=FILE_TYPE_PATTERN, hint=hint)
    if not re.fullmatch(r"[a-zA-Z0-9]+", file_type):
        message = f"File type must consist of letters and digits: {file_type[:100]}"
        hint = "For several extensions use filter.file_extensions."
        raise InvalidInput.of(field, file_type[:100], message, rule=FILE_TYPE_PATTERN, hint=hint)
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


def check_ref(ref: str | None, field: str = "ref") -> str | None:
    """The states of the code to search: names separated by spaces, or a range."""
    if ref is None:
        return None
    names = " ".join(ref.split())
    if names and len(names) <= MAX_REF_CHARS and names.isprintable():
        return names
    message = f"Not a branch, a tag or a commit: {ref[:200]!r}"
    hint = "Leave ref out to search the files as they are on disk."
    rule = f"1 to {MAX_REF_CHARS} printable characters"
    raise InvalidInput.of(field, ref[:200], message, rule=rule, hint=hint)


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


PROJECT_ID = Limits(check_project_id, pattern=PROJECT_ID_PATTERN, minLength=1, maxLength=50)
QUERY = Limits(check_query, pattern=NOT_BLANK, minLength=1, maxLength=MAX_QUERY_CHARS)
TASK = Limits(check_task, pattern=NOT_BLANK, minLength=1, maxLength=MAX_TASK_CHARS)
GIVEN = Limits(check_given, pattern=NOT_BLANK, minLength=1, maxLength=MAX_GIVEN_CHARS)
REPO_PATH = Limits(check_repo_path, pattern=NOT_BLANK, minLength=1, maxLength=4096)
NAME = Limits(check_name, pattern=NOT_BLANK, minLength=1, maxLength=MAX_NAME_CHARS)
REPOSITORY_ID = Limits(lambda value, field: UUID(check_repository_id(value, field)))
REPOSITORY = Limits(
    lambda value, field: value if value == ALL_REPOSITORIES else check_repository_id(value, field)
)
FILE_TYPE = Limits(check_file_type, pattern=FILE_TYPE_PATTERN)
DIRECTORY = Limits(check_directory, maxLength=MAX_DIRECTORY_CHARS)
REF = Limits(check_ref, pattern=NOT_BLANK, minLength=1, maxLength=MAX_REF_CHARS)
TAG = text(MAX_TAG_CHARS)
