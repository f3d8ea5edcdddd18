"""Which filters are worth measuring on this index? Found in it, so that they fit any tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.search.scope import FileFilters
from findings import NO_FILTER, SMALL_DIRECTORY
from questions import Question, questions_within

SMALL_SHARE, LARGE_SHARE, EXTENSION_SHARE = 0.005, 0.1, 0.05

_FILES = """
SELECT s.repository_id, f.path, f.language, f.extension, b.chunk_count
FROM file AS f
JOIN snapshot AS s ON s.id = f.snapshot_id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active
"""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """FileFilters, what to call them, and questions made of what they leave."""

    label: str
    filters: FileFilters
    own: tuple[Question, ...] = ()


NOTHING = Narrowing(NO_FILTER, FileFilters())


async def find_narrowings(tx: Transaction) -> tuple[list[Narrowing], list[str]]:
    """Languages that are half of it, one of many files, an extension of few, places.

    With what there is to say about them.
    """
    languages: Counter[str] = Counter()
    extensions: Counter[str] = Counter()
    repositories: Counter[UUID] = Counter()
    directories: Counter[tuple[UUID, str]] = Counter()
    for repository_id, path, language, extension, chunks in await tx.fetch_all(_FILES):
        languages[language] += chunks
        extensions[extension] += chunks
        repositories[repository_id] += chunks
        for directory in _above(path):
            directories[repository_id, directory] += chunks
    total = repositories.total()

    def share(chunks: int) -> str:
        return f"{chunks / total * 100:.1f} %"

    half = most(languages, total / 2)
    language, most_chunks = languages.most_common(1)[0]
    extension = nearest(extensions, total, EXTENSION_SHARE)
    large = nearest(directories, total, LARGE_SHARE)
    small = nearest(directories, total, SMALL_SHARE)
    repository_id, fewest = repositories.most_common()[-1]
    notes = [
        f"half of the chunks: {', '.join(half)}, {share(sum(languages[name] for name in half))};"
        f" one language: {language}, {share(most_chunks)}",
        f"one extension: .{extension}, {share(extensions[extension])}",
        f"a large directory: {large[1]}, {share(directories[large])}",
        f"a small directory: {small[1]}, {share(directories[small])}",
        f"a repository of two: {share(fewest)}",
    ]
    return [
        Narrowing("languages of half", FileFilters(languages=half)),
        Narrowing("one language", FileFilters(languages=(language,))),
        Narrowing("one extension", FileFilters(extensions=(extension,))),
        await _directory(tx, "a large directory", *large),
        await _directory(tx, SMALL_DIRECTORY, *small),
        Narrowing("a repository of two", FileFilters(repository_id=repository_id)),
    ], notes


async def _directory(tx: Transaction, label: str, repository_id: UUID, directory: str) -> Narrowing:
    own = await questions_within(tx, repository_id, directory)
    return Narrowing(
        label, FileFilters(repository_id=repository_id, directory=directory), tuple(own)
    )


def most(counts: Counter[str], least: float) -> tuple[str, ...]:
    """The largest that together hold at least so much."""
    found: list[str] = []
    held = 0
    for name, count in counts.most_common():
        if held >= least:
            break
        found.append(name)
        held += count
    return tuple(found)


def nearest(counts: Mapping[Any, int], total: int, share: float) -> Any:
    """What holds nearest to a share of the total; of equals the first in order."""
    return min(sorted(counts), key=lambda key: abs(counts[key] - share * total))


def _above(path: str) -> Sequence[str]:
    """The directories that a file lies in, at any depth."""
    folders = path.split("/")[:-1]
    return ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]
