"""What would a run do and cost? Writes nothing.

The files are listed as in a run; chunks, seconds and bytes are estimated from a sample that is
prepared as in a run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.index.identity import PROGRAM_VERSION, View, blob_id_of_content
from codebase_mcp.index.plan import Plan, StoredFile, make_plan
from codebase_mcp.index.pool import SMALL_CHARS
from codebase_mcp.index.prepare import Preparer, RawText
from codebase_mcp.index.store import stored_files
from codebase_mcp.model import FileFailure, SourceFile
from codebase_mcp.source.classify import CLASSIFY_VERSION
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.source_tree import SourceTree, read_each

_SQL = load_queries("codebase_mcp.index", "forecast.sql")

# About two seconds of work; a larger sample hardly improves the estimate.
SAMPLE_BYTES = 1_500_000
SAMPLE_FILES = 400
# With fewer bytes of a language in the sample, the average of all languages is used.
_TELLING_BYTES = 20_000
_ALL_LANGUAGES = ""
_PART_BYTES = 100_000

# The time of a run apart from preparing texts, measured on two cores: a fixed part, and storing per
# file and per chunk.
START_S = 2.0
SMALL_START_S = 0.2
FILE_S = 0.0001
CHUNK_S = 0.0001
# Database size per chunk without its text and vector, and per dimension of its vector in table and
# index; measured on Home Assistant (163 MB for 33 MB of source), and 250 for the uses of names on
# the standard library of Python.
CHUNK_BYTES = 2_100
VECTOR_BYTES = 4
FILE_BYTES = 600

LARGEST = 10
# A folder with this share of its bytes in a single inner folder is not shown.
_MERELY_AROUND = 0.8


@dataclass(frozen=True, slots=True)
class Stored:
    """The active index of a repository; ``fingerprint`` is None if there is none."""

    files: Mapping[str, StoredFile] = field(default_factory=dict)
    generation: int = 1
    same_classifier: bool = True
    fingerprint: str | None = None

    @property
    def same_program(self) -> bool:
        """Whether a run could continue this index."""
        return self.fingerprint is None or self.fingerprint.startswith(PROGRAM_VERSION + "-")


@dataclass(frozen=True, slots=True)
class Share:
    """A folder with everything below it, or a file."""

    path: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample that was prepared for the estimate; ``seconds`` is the time of a single core."""

    files: int
    bytes: int
    chunks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The result of a run; ``chunks``, ``seconds`` and ``database_bytes`` are estimates.

    They do not include what the backfill of a secondary model adds later.
    """

    root: Path
    files: int
    bytes: int
    new: int
    changed: int
    unchanged: int
    removed: int
    bytes_to_index: int
    chunks: int
    seconds: float
    database_bytes: int
    is_indexed: bool
    needs_rebuild: bool
    sample: Sample
    languages: Mapping[str, int]
    kinds: Mapping[str, int]
    skipped: Mapping[str, int]
    failures: tuple[FileFailure, ...]
    largest_folders: tuple[Share, ...]
    largest_files: tuple[Share, ...]


async def load_stored(database: Database, schema: str, repository_id: UUID) -> Stored:
    """The stored index of a repository; empty if its schema does not exist."""
    async with database.unmigrated(schema, readonly=True) as tx:
        row = await tx.fetch_one(_SQL["has_index"], schema=schema)
        if row is None or not row[0]:
            return Stored()
        active = await tx.fetch_one(_SQL["active_snapshot"], **View(repository_id).parameters())
        if active is None:
            return Stored()
        snapshot_id, generation, classifier, fingerprint = active
        files = await stored_files(tx, snapshot_id)
    return Stored(files, generation, classifier == CLASSIFY_VERSION, fingerprint)


def forecast(
    tree: SourceTree,
    stored: Stored,
    *,
    model: StaticEmbedder,
    dimension: int,
    workers: int,
    force: bool = False,
) -> Forecast:
    """The result of a run over these files, with a model of this dimension."""
    listing = tree.list_files()
    plan = make_plan(listing, stored.files, same_classifier=stored.same_classifier)
    is_rebuild = force or not stored.same_program
    changed, unread = _changed(tree, plan, stored)
    new = [file for file in plan.to_read if file.path not in stored.files]
    to_index = list(listing.files) if is_rebuild else [*new, *changed]
    sampled, missing = _take_sample(tree, to_index)
    chunks, sample = _prepare(sampled, model)
    chunk_count = _chunks_of(to_index, sampled, chunks)
    size = sum(file.size for file in to_index)
    failures = {failure.path: failure for failure in (*plan.failures, *unread, *missing)}
    return Forecast(
        root=listing.root,
        files=len(listing.files),
        bytes=sum(file.size for file in listing.files),
        new=len(new),
        changed=len(changed),
        unchanged=len(listing.files) - len(new) - len(changed),
        removed=len(plan.removed),
        bytes_to_index=size,
        chunks=chunk_count,
        seconds=_seconds(len(to_index), size, chunk_count, sample, workers),
        database_bytes=(
            size
            + FILE_BYTES * len(to_index)
            + chunk_count * (CHUNK_BYTES + VECTOR_BYTES * dimension)
        ),
        is_indexed=stored.fingerprint is not None,
        needs_rebuild=not stored.same_program and not force,
        sample=sample,
        languages=dict(Counter(file.language for file in listing.files).most_common()),
        kinds=dict(Counter(str(file.kind) for file in listing.files).most_common()),
        skipped=dict(listing.skipped),
        failures=tuple(failures[path] for path in sorted(failures)),
        largest_folders=largest_folders(listing.files),
        largest_files=tuple(
            Share(file.path, 1, file.size)
            for file in sorted(listing.files, key=lambda f: (-f.size, f.path))[:LARGEST]
        ),
    )


def largest_folders(files: Iterable[SourceFile], most: int = LARGEST) -> tuple[Share, ...]:
    """The folders with the most bytes in and below them, except the root."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in files:
        folder = file.path.rpartition("/")[0]
        while folder:
            counts[folder] += 1
            sizes[folder] += file.size
            folder = folder.rpartition("/")[0]
    around = {
        folder.rpartition("/")[0]
        for folder, size in sizes.items()
        if size >= _MERELY_AROUND * sizes.get(folder.rpartition("/")[0], 0)
    }
    shown = [folder for folder in sizes if folder not in around]
    shown.sort(key=lambda folder: (-sizes[folder], folder))
    return tuple(Share(folder, counts[folder], sizes[folder]) for folder in shown[:most])


def _changed(
    tree: SourceTree, plan: Plan, stored: Stored
) -> tuple[list[SourceFile], list[FileFailure]]:
    """Read the stored files that may have changed, and return those that did."""
    changed, failures = [], []
    suspects = [file for file in plan.to_read if file.path in stored.files]
    for file, content in read_each(tree, suspects):
        if isinstance(content, FileFailure):
            failures.append(content)
        elif isinstance(content, SourceText):
            now = blob_id_of_content(content, stored.generation)
            if now != stored.files[file.path].blob_id:
                changed.append(file)
    return changed, failures


def _take_sample(
    tree: SourceTree, files: Sequence[SourceFile]
) -> tuple[list[tuple[SourceFile, SourceText]], list[FileFailure]]:
    """A deterministic sample of the files with their texts, and the files that cannot be read."""
    taken: list[tuple[SourceFile, SourceText]] = []
    failures: list[FileFailure] = []
    size = 0
    shuffled = sorted(files, key=lambda f: sha256(f.path.encode()).digest())
    for file, content in read_each(tree, shuffled):
        if len(taken) >= SAMPLE_FILES or size >= SAMPLE_BYTES:
            break
        if isinstance(content, SourceText):
            taken.append((file, content))
            size += file.size
        elif isinstance(content, FileFailure):
            failures.append(content)
    return taken, failures


def _prepare(
    sampled: Sequence[tuple[SourceFile, SourceText]], model: StaticEmbedder
) -> tuple[list[int], Sample]:
    """The chunks of each file, and how fast this machine prepares them.

    The first half also loads grammars and fills caches, which a run does once. So if the sample is
    large enough, the speed is that of the second half.
    """
    preparer = Preparer()
    chunks: list[int] = []
    parts: list[tuple[int, float]] = []
    part: list[RawText] = []
    size = 0
    for number, (file, content) in enumerate(sampled, 1):
        part.append(RawText(number, content.blob_hash, content.language, content.text))
        size += file.size
        if size < _PART_BYTES and number < len(sampled):
            continue
        started = time.thread_time()
        chunks += [blob.chunk_count for blob in preparer.prepare(part, 0, 1, model)]
        parts.append((size, time.thread_time() - started))
        part, size = [], 0
    settled = parts[len(parts) // 2 :] if len(parts) > 3 else parts
    total = sum(size for size, _ in parts)
    rate = sum(s for _, s in settled) / max(sum(size for size, _ in settled), 1)
    return chunks, Sample(len(sampled), total, sum(chunks), rate * total)


def _chunks_of(
    files: Sequence[SourceFile],
    sampled: Sequence[tuple[SourceFile, SourceText]],
    chunks: Sequence[int],
) -> int:
    """Estimate the number of chunks from the sample, by language."""
    if len(sampled) == len(files):
        return sum(chunks)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for (file, _), count in zip(sampled, chunks, strict=True):
        for language in (file.language, _ALL_LANGUAGES):
            counts[language] += count
            sizes[language] += file.size
    expected = 0.0
    for file in files:
        is_telling = sizes[file.language] >= _TELLING_BYTES
        language = file.language if is_telling else _ALL_LANGUAGES
        expected += file.size * counts[language] / max(sizes[language], 1)
    return round(expected)


def _seconds(files: int, size: int, chunks: int, sample: Sample, workers: int) -> float:
    if not files:
        return 0.0
    is_small = size < SMALL_CHARS
    prepared = sample.seconds * size / max(sample.bytes, 1) / (1 if is_small else workers)
    return (SMALL_START_S if is_small else START_S) + prepared + FILE_S * files + CHUNK_S * chunks
