"""Which files may answer a question?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class FileFilters:
    """Conditions that a file must meet to be searched; None allows everything.

    ``directory`` is relative to the repository's root and may hold ``*`` and ``**``; extensions
    and languages are in lower case, extensions without a dot; kinds are those of `FileKind`.
    """

    repository_id: UUID | None = None
    extensions: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    directory: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether they exclude any file."""
        return self != FileFilters()

    def test(self) -> Callable[[UUID, str, str, str, str], bool]:
        """A function that tests a file's repository, path, extension, language and kind."""
        is_below = directory_matcher(self.directory) if self.directory else None

        def passes(
            repository_id: UUID, path: str, extension: str, language: str, kind: str
        ) -> bool:
            return (
                (self.repository_id is None or repository_id == self.repository_id)
                and (not self.extensions or extension in self.extensions)
                and (not self.languages or language in self.languages)
                and (not self.kinds or kind in self.kinds)
                and (is_below is None or is_below(path))
            )

        return passes

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements, without the repository."""
        return {
            "extensions": list(self.extensions) if self.extensions else None,
            "languages": list(self.languages) if self.languages else None,
            "kinds": list(self.kinds) if self.kinds else None,
            "directory": directory_pattern(self.directory) if self.directory else None,
            **directory_bounds(self.directory),
        }


def directory_matcher(directory: str) -> Callable[[str], bool]:
    """A test whether a path is at or below a directory, in a time linear in its length.

    It uses the regular expressions of Rust, which pydantic includes. Python's backtrack: a pattern
    with ten times ``**/`` would occupy the server for hours.
    """
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415 - for filters alone

    pattern = "(?s)" + directory_pattern(directory)
    return SchemaValidator(
        core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    ).isinstance_python


def directory_pattern(directory: str) -> str:
    """A regular expression for paths at or below a directory; ``*`` and ``**`` as in a shell.

    Not for Python's engine, which backtracks; PostgreSQL's engine does not.
    """
    regex: list[str] = []
    collapsed = re.sub(r"(\*\*/){2,}", "**/", directory.strip("/"))
    for piece in filter(None, re.split(r"(\*\*/|\*\*|\*)", collapsed)):
        match piece:
            case "**" | "*" if regex[-1:] == [".*"]:
                pass  # nothing more; PostgreSQL needs a second for hundreds in a row
            case "**/":
                regex.append("(?:.*/)?")
            case "**":
                regex.append(".*")
            case "*":
                regex.append("[^/]*")
            case _:
                regex.append(re.escape(piece))
    return f"^{''.join(regex)}(?:/|$)"


def directory_bounds(directory: str | None) -> dict[str, str | None]:
    """Cheap conditions that every path at or below a directory meets.

    Compared by bytes it is not before ``first``, but before ``beyond``, and it is LIKE ``piece``.
    Both cost a fraction of what the regular expression does.
    """
    if directory is None:
        return dict.fromkeys(("first", "beyond", "piece"))
    pieces = directory.strip("/").split("*")
    longest = max(pieces, key=len).strip("/")
    piece = "%" + re.sub(r"([\\%_])", r"\\\1", longest) + "%"
    end = pieces[0].rstrip(chr(0x10FFFF))
    if not end:
        return {"first": None, "beyond": None, "piece": piece}
    following = ord(end[-1]) + 1
    if 0xD800 <= following < 0xE000:  # no text holds a surrogate
        following = 0xE000
    return {"first": pieces[0], "beyond": end[:-1] + chr(following), "piece": piece}
