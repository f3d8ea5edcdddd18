"""What would an index run do and cost? Writes nothing.

The files are listed as in a run; chunks, seconds and bytes are estimated from a sample that is
prepared as in a run.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource, require_seen
from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.placement import has_cluster
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.index.identity import PROGRAM_VERSION, View, blob_id_of_content, repository_id_in
from codebase_mcp.index.plan import Plan, StoredFile, make_plan
from codebase_mcp.index.pool import SMALL_CHARS
from codebase_mcp.index.prepare import Preparer, RawText
from codebase_mcp.index.store import stored_files
from codebase_mcp.model import FileFailure, SourceFile
from codebase_mcp.settings.repository import RepositorySettings, repository_at, resolve_for
from codebase_mcp.source.classify import CLASSIFY_VERSION
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.source_tree import SourceTree, read_each, source_tree_at

_SQL = load_queries("codebase_mcp.app", "forecast.sql")

# About two seconds of work; a larger sample hardly improves the estimate.
SAMPLE_BYTES = 1_500_000
SAMPLE_FILES = 400

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


@dataclass(frozen=True, slots=True)
class IndexForecast:
    """The forecast of an index run, its project, and the settings of the repository.

    ``second_tier`` is the model that embeds the same chunks later, in the background.
    """

    forecast: Forecast
    project_id: str | None
    project_source: ProjectSource
    repository: RepositorySettings
    second_tier: str | None


async def forecast_run(
    app: App,
    repo_path: str | Path,
    project_id: str | None = None,
    *,
    force_reindex: bool = False,
    identity: Identity = ANONYMOUS,
) -> IndexForecast:
    """The result and cost of indexing a directory.

    Neither the project nor a database has to exist, and neither is created.

    Raises:
        InvalidInput: the path is not a readable directory, the project id is invalid, or the
            repository's context file is wrong.
        PermissionDenied: the caller may not create the project.
        IndexingFailed: HEAD of a bare repository leads to no commit.
        DatabaseUnavailable: the database exists and is unavailable.
    """
    settings, models = app.settings, app.models
    root = await asyncio.to_thread(resolve_for, identity, settings, repo_path)
    repository = await asyncio.to_thread(repository_at, settings, root)
    choice = await app.resolver.choose(project_id, identity, repository=root)
    require_seen(choice, identity, create=True)
    stored = Stored()
    has_database = settings.database_url is not None
    if has_database or await asyncio.to_thread(has_cluster, settings.data_dir):
        stored = await _load_stored(app.database, schema_of(choice.project_id), root)
    # The secondary model is not called: that may cost money, and says nothing about the files.
    model = await models.primary()
    tree = await asyncio.to_thread(source_tree_at, root, repository.selection)
    expected = await asyncio.to_thread(
        forecast,
        tree,
        stored,
        model=models.primary_embedder,
        dimension=model.facts.dimension,
        workers=settings.workers,
        force=force_reindex,
    )
    second = models.embedder.name if models.has_secondary else None
    return IndexForecast(expected, choice.project_id, choice.source, repository, second)


async def _load_stored(database: Database, schema: str, root: Path) -> Stored:
    """The stored index of a repository; empty if its schema does not exist."""
    view = View(repository_id_in(schema, str(root)))
    async with database.unmigrated(schema, readonly=True) as tx:
        row = await tx.fetch_one(_SQL["has_index"], schema=schema)
        if row is None or not row[0]:
            return Stored()
        active = await tx.fetch_one(_SQL["active_snapshot"], **view.parameters())
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
    sample = _prepare(sampled, model)
    size = sum(file.size for file in to_index)
    chunk_count = round(sample.chunks * size / max(sample.bytes, 1))
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


def _prepare(sampled: Sequence[tuple[SourceFile, SourceText]], model: StaticEmbedder) -> Sample:
    """The chunks of the sample, and how fast this machine prepares them.

    The first half also loads grammars and fills caches, which a run does once, so the speed is that
    of the second half.
    """
    preparer = Preparer()
    chunks, seconds, size = 0, 0.0, 0
    middle = len(sampled) // 2
    for half in filter(None, (sampled[:middle], sampled[middle:])):
        texts = [RawText(n, c.blob_hash, c.language, c.text) for n, (_, c) in enumerate(half)]
        started = time.thread_time()
        chunks += sum(blob.chunk_count for blob in preparer.prepare(texts, 0, 1, model))
        seconds = time.thread_time() - started
        size = sum(file.size for file, _ in half)
    total = sum(file.size for file, _ in sampled)
    return Sample(len(sampled), total, chunks, seconds * total / max(size, 1))


def _seconds(files: int, size: int, chunks: int, sample: Sample, workers: int) -> float:
    if not files:
        return 0.0
    is_small = size < SMALL_CHARS
    prepared = sample.seconds * size / max(sample.bytes, 1) / (1 if is_small else workers)
    return (SMALL_START_S if is_small else START_S) + prepared + FILE_S * files + CHUNK_S * chunks
