"""Is this value what the parameter asks for? The rules that the contract words itself."""

from __future__ import annotations

import re
from uuid import UUID

from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.root import resolve_root
from codebase_mcp.tools.arguments import Rule
from codebase_mcp.tools.problems import shown, text_of_value
from codebase_mcp.values import require_storable

MAX_QUERY_CHARS = 500
MAX_DIRECTORY_CHARS = 500
MAX_NAME_CHARS = 200
MAX_TAGS = 20
MAX_TAG_CHARS = 100


def text_of(field: str, longest: int, *, shortest: int = 1) -> Rule:
    """A rule for a text, trimmed, of ``shortest`` to ``longest`` characters; or null.

    Whether null is allowed is the schema's to say.
    """
    label = field.replace("_", " ").capitalize()

    def check(value: str | None) -> str | None:
        if value is None:
            return None
        require_storable(field, value)
        trimmed = value.strip()
        if not shortest <= len(trimmed) <= longest:
            rule = f"{shortest}..{longest} characters"
            message = (
                f"{label} must have {shortest} to {longest} characters, got {len(trimmed)}"
                if trimmed
                else f"{label} cannot be empty"
            )
            raise InvalidInput.of(field, value[:50], message, rule=rule)
        return trimmed

    return check


def require_text(field: str, value: object) -> None:
    """See that an entry of a list is a text that can be kept.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(value, str):
        message = f"{field} must be of type string, got {text_of_value(value)}"
        raise InvalidInput.of(field, shown(value), message, rule="string")
    require_storable(field, value)


def id_of(field: str, kind: str) -> Rule:
    """A rule for the id of a record, a UUID in any of its spellings; or null."""

    def check(value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return str(UUID(value))
        except ValueError:
            raise InvalidInput.of(
                field,
                value[:100],
                f"{kind} ID is not a valid UUID: {value[:100]}",
                rule="UUID",
                hint="Take it from the reply that named it.",
            ) from None

    return check


def check_tags(tags: list[str] | None) -> list[str] | None:
    """Tags trimmed, each once, in order; or null."""
    if tags is None:
        return None
    if len(tags) > MAX_TAGS:
        message = f"Tags must have 0 to {MAX_TAGS} items, got {len(tags)}"
        raise InvalidInput.of("tags", len(tags), message, rule=f"0..{MAX_TAGS} items")
    checked = []
    for place, tag in enumerate(tags):
        field = f"tags.{place}"
        require_text(field, tag)
        checked.append(text_of(field, MAX_TAG_CHARS)(tag))
    return list(dict.fromkeys(checked))


def check_query(query: str) -> str:
    """A question, trimmed; 1 to 500 characters."""
    trimmed = query.strip()
    if not trimmed:
        raise InvalidInput.of(
            "query",
            query[:50],
            "Search query cannot be empty",
            rule=f"1..{MAX_QUERY_CHARS} characters",
            hint="Provide a non-empty query string.",
        )
    if len(trimmed) > MAX_QUERY_CHARS:
        raise InvalidInput.of(
            "query",
            trimmed[:50] + "…",
            f"Search query must be at most {MAX_QUERY_CHARS} characters, got {len(trimmed)}",
            rule=f"1..{MAX_QUERY_CHARS} characters",
            hint="Shorten it to what the code is about.",
        )
    return trimmed.replace("\0", " ")


def check_project_id(project_id: str | None) -> str | None:
    """A project's id, or none for the default workspace."""
    return None if project_id is None else validate_project_id(project_id)


def check_repo_path(repo_path: str) -> str:
    """The absolute path of a directory that can be read."""
    resolve_root(repo_path)
    return repo_path


def check_name(name: str | None) -> str | None:
    """A display name of 1 to 200 characters."""
    if name is None:
        return None
    trimmed = name.replace("\0", " ").strip()
    if not 1 <= len(trimmed) <= MAX_NAME_CHARS:
        raise InvalidInput.of(
            "name",
            name[:50],
            f"Name must have 1 to {MAX_NAME_CHARS} characters, got {len(trimmed)}",
            rule=f"1..{MAX_NAME_CHARS} characters",
        )
    return trimmed


def check_repository_id(repository_id: str | None) -> str | None:
    """A UUID in any of its spellings."""
    if repository_id is None:
        return None
    try:
        return str(UUID(repository_id))
    except ValueError:
        raise InvalidInput.of(
            "repository_id",
            repository_id[:100],
            f"Repository ID is not a valid UUID: {repository_id[:100]}",
            rule="UUID",
            hint="Take it from index_repository's reply, or leave it out.",
        ) from None


def check_file_type(file_type: str | None) -> str | None:
    """A file extension without its dot."""
    if not file_type:
        return None
    bare = file_type.lstrip(".")
    if bare != file_type and re.fullmatch(r"[a-zA-Z0-9]+", bare):
        raise InvalidInput.of(
            "file_type",
            file_type,
            f'File type must not include a leading dot: use "{bare}" instead of "{file_type}"',
            rule="^[a-zA-Z0-9]+$",
            hint=f'Pass "{bare}".',
        )
    if not re.fullmatch(r"[a-zA-Z0-9]+", file_type):
        raise InvalidInput.of(
            "file_type",
            file_type[:100],
            f"File type must consist of letters and digits: {file_type[:100]}",
            rule="^[a-zA-Z0-9]+$",
            hint="For several extensions use filter.file_extensions.",
        )
    return file_type


def check_directory(directory: str | None) -> str | None:
    """A directory relative to the repository's root."""
    if not directory:
        return None
    if len(directory) > MAX_DIRECTORY_CHARS:
        raise InvalidInput.of(
            "directory",
            directory[:50] + "…",
            f"Directory must be at most {MAX_DIRECTORY_CHARS} characters, got {len(directory)}",
            rule=f"at most {MAX_DIRECTORY_CHARS} characters",
        )
    if directory.startswith("/"):
        raise InvalidInput.of(
            "directory",
            directory,
            f"Directory must be relative to the repository root, without a leading slash: "
            f"{directory}",
            rule="relative path",
            hint=f'Pass "{directory.strip("/")}".',
        )
    return directory.replace("\0", " ").removeprefix("./").rstrip("/")


def check_ref(ref: str | None) -> str | None:
    """Which state of the code: the worktree alone is indexed."""
    if ref is None or ref == "worktree":
        return ref
    raise InvalidInput.of(
        "ref",
        ref[:200],
        f'Only the working tree is indexed: ref must be "worktree", got "{ref[:200]}"',
        rule="worktree",
        hint="Leave ref out to search the files as they are on disk.",
    )
