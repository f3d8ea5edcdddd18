"""Which files are searched?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class FileFilters:
    """What a file must be to be searched; None allows everything.

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

    def parameters(self) -> dict[str, Any]:
        """All but the repository as parameters of the statements."""
        return {
            "extensions": list(self.extensions) if self.extensions else None,
            "languages": list(self.languages) if self.languages else None,
            "kinds": list(self.kinds) if self.kinds else None,
            "directory": directory_pattern(self.directory) if self.directory else None,
            **directory_bounds(self.directory),
        }


def directory_matcher(directory: str) -> Callable[[str], bool]:
    """Whether a path is at or below a directory, in a time that grows with its length alone.

    The engine is Rust's, which pydantic brings along. Python's tries every way to divide a path
    among the stars: ten of ``**/`` would keep the whole server busy for hours.
    """
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415 - for filters alone

    pattern = "(?s)" + directory_pattern(directory)
    return SchemaValidator(
        core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    ).isinstance_python


def directory_pattern(directory: str) -> str:
    """A regular expression for paths at or below a directory; ``*`` and ``**`` as in a shell.

    Not for Python's engine, which backtracks; PostgreSQL's does not.
    """
    out: list[str] = []
    once = re.sub(r"(\*\*/){2,}", "**/", directory.strip("/"))
    for piece in filter(None, re.split(r"(\*\*/|\*\*|\*)", once)):
        match piece:
            case "**" | "*" if out[-1:] == [".*"]:
                pass  # nothing more; PostgreSQL needs a second for hundreds in a row
            case "**/":
                out.append("(?:.*/)?")
            case "**":
                out.append(".*")
            case "*":
                out.append("[^/]*")
            case _:
                out.append(re.escape(piece))
    return f"^{''.join(out)}(?:/|$)"


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
