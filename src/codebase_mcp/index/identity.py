"""Identifiers of stored data: program version, blob, repository, view."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from codebase_mcp.chunking.lines import CHUNKER_VERSION
from codebase_mcp.database.naming import Project
from codebase_mcp.model import WORKTREE
from codebase_mcp.secrets.masking import SECRETS_VERSION
from codebase_mcp.text.tokens import TOKENS_VERSION

if TYPE_CHECKING:
    from codebase_mcp.source.read import SourceText

# Increment when the stored form of a chunk changes although splitter, tokens and model do not.
STORE_VERSION = 3

# Determines everything that is stored of a text, except its vectors.
PROGRAM_VERSION = f"{STORE_VERSION}.{TOKENS_VERSION}.{CHUNKER_VERSION}.{SECRETS_VERSION}"

_REPOSITORIES = UUID("6f0c8a5e-5a0b-5d58-9d1c-3c1f3e1f7b52")


@dataclass(frozen=True, slots=True)
class View:
    """A state of a repository that has a snapshot of its own: ``worktree`` or a commit's hash."""

    repository_id: UUID
    name: str = WORKTREE

    @property
    def is_worktree(self) -> bool:
        return self.name == WORKTREE

    def parameters(self) -> dict[str, object]:
        return {"repository_id": self.repository_id, "view": self.name}


def blob_id_of(
    blob_hash: bytes, language: str, generation: int, version: str = PROGRAM_VERSION
) -> int:
    """The id of a blob: a hash of what identifies it, as a signed 64-bit integer.

    Among a million blobs the probability of a collision is below 10⁻⁷.
    """
    identity = b"\0".join((blob_hash, language.encode(), version.encode(), b"%d" % generation))
    return int.from_bytes(sha256(identity).digest()[:8], "big", signed=True)


def blob_id_of_content(content: SourceText, generation: int) -> int:
    """The id of the blob of a file; it differs where secrets are shown."""
    version = PROGRAM_VERSION + ("+secrets" if content.shows_secrets else "")
    return blob_id_of(content.blob_hash, content.language, generation, version)


def repository_id_of(project: Project, root: Path) -> UUID:
    """The repository's id, which only depends on project and path."""
    return repository_id_in(project.schema_name, str(root))


def repository_id_in(schema: str, root: str) -> UUID:
    """The same, from the schema's name and the path as text."""
    return uuid5(_REPOSITORIES, f"{schema}\0{root}")
