"""A search in memory answers as the database does, and never from a state that has passed."""

from __future__ import annotations

import asyncio
import io
import random
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codebase_mcp
from codebase_mcp.app.app import App
from codebase_mcp.app.context import ContextQuestion
from codebase_mcp.model import RACY_NS
from codebase_mcp.search import index_reading, memory_indexes, segments
from codebase_mcp.search.image_folder import ImageFolder
from codebase_mcp.search.index_files import _arrays
from codebase_mcp.search.lists import DatabaseLists
from codebase_mcp.search.memory_lists import MemoryLists
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.scope import FileFilters, QueryVector, load_scope
from codebase_mcp.search.search import Request
from codebase_mcp.search.segments import Segments
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.usefixtures("loads_at_once")

PACKAGE = Path(codebase_mcp.__file__).parent

QUERIES = [
    "where are failed requests retried",
    "how is a vector stored in the database",
    "parse_query",
    "Searcher",
    "self",  # one common word
    "return the value of self for each",  # only common ones
    "supervisor",  # the name of a file
    "_REMEMBERED",  # held by one text alone
    "what is not in here at all: crocodiles",
    "the nearest chunks to a vector. NearestIndex query_vector MemoryLists",  # names are expected
    "respellt the qestion",  # misspelt
]
FILTERS = [
    FileFilters(),
    FileFilters(directory="search"),
    FileFilters(directory="*/migrations"),
    FileFilters(extensions=("py",)),
    FileFilters(languages=("sql",), directory="index"),
    FileFilters(kinds=("code",), directory="search"),
    FileFilters(directory="nowhere"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Real code in several languages."""
    root = tmp_path / "real"
    for name in ("search", "index", "database", "access"):
        shutil.copytree(PACKAGE / name, root / name, ignore=shutil.ignore_patterns("*.pyc"))
    return root


async def held(app: App, project_id: str) -> bool:
    """Whether the project's index is in memory, once nothing is being loaded."""
    await app.search("anything", project_id)
    await app.memory_indexes.wait_idle()
    async with app.enter(project_id, readonly=True) as here:
        return app.memory_indexes.get(here.project) is not None


def kept_in(app: App) -> list[str]:
    """The schemas whose index a process has mapped or in memory."""
    slots = app.memory_indexes._slots.items()
    return [schema for (schema, _), slot in slots if slot.index is not None]


def files_of(settings: Settings, project_id: str, suffix: str = "") -> list[Path]:
    """The files of a project's indexes in the data folder."""
    folder = Path(settings.data_dir) / "indexes"
    return list(folder.glob(f"{schema_of(project_id)}-*{suffix}"))


def schema_of(project_id: str) -> str:
    return "project_" + project_id.replace("-", "_")


async def answer(app: App, project_id: str, query: str, filters: FileFilters) -> list[Any]:
    """What is found, where, and how sure."""
    report = await app.search(query, project_id, Request(filters))
    found = report.answer
    hits = [
        (
            hit.file_path,
            hit.start_line,
            hit.symbol,
            hit.similarity_score,
            [place.start_line for place in hit.more_in_file],
        )
        for hit in found.hits
    ]
    return [found.total_count, dict(found.respelt), hits]


async def test_finds_what_the_database_finds(
    app: App, by_database: App, tree: Path, project_id: str
) -> None:
    await app.index(tree, project_id)
    assert await held(app, project_id)
    assert not await held(by_database, project_id)
    for filters in FILTERS:
        for query in QUERIES:
            there = await answer(by_database, project_id, query, filters)
            here = await answer(app, project_id, query, filters)
            assert here == there, (query, filters)


@pytest.fixture
def texts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each batch for an index has read."""
    read: list[int] = []
    batch = index_reading._batch

    def counted(blob_ids: Any, *arguments: Any) -> Any:
        read.append(len(blob_ids))
        return batch(blob_ids, *arguments)

    monkeypatch.setattr(index_reading, "_batch", counted)
    return read


async def segments_of(app: App, project_id: str) -> Segments:
    """What is in memory of a project."""
    async with app.enter(project_id, readonly=True) as here:
        segments = app.memory_indexes.get(here.project)
    assert segments is not None
    return segments


async def test_a_search_reads_what_has_changed(
    app: App, by_database: App, tree: Path, project_id: str, texts_read: list[int]
) -> None:
    await app.index(tree, project_id)
    assert await held(app, project_id)
    before = await segments_of(app, project_id)
    kept = {name: (tree / name).read_text() for name in ("search/search.py", "index/store.py")}
    (tree / "search/search.py").unlink()
    (tree / "search/hits.py").rename(tree / "search/supervisor.py")
    (tree / "index/store.py").write_text(kept["index/store.py"].replace("snapshot", "vector_snap"))
    (tree / "new.py").write_text("def quuxify(crocodiles):\n    return Searcher(crocodiles)\n")
    await by_database.index(tree, project_id)
    texts_read.clear()
    await check_answers(app, by_database, project_id)
    assert texts_read == [3]
    changed = await segments_of(app, project_id)
    assert changed.base.blob_ids is before.base.blob_ids
    assert changed.added is not None and len(changed.added.blob_ids) == 3
    # Another change, and files that are again as they were.
    for name, text in kept.items():
        (tree / name).write_text(text)
    shutil.copy(tree / "new.py", tree / "search/copy.py")
    (tree / "another.py").write_text("def crocodile():\n    return quuxify([])\n")
    await by_database.index(tree, project_id)
    texts_read.clear()
    await check_answers(app, by_database, project_id)
    assert texts_read == [1]


async def check_answers(app: App, by_database: App, project_id: str) -> None:
    """That all is found in memory that is found in the database."""
    for query in [*QUERIES, "quuxify", "vector_snap", "Hit", "crocodile"]:
        for filters in FILTERS[:3]:
            there = await answer(by_database, project_id, query, filters)
            assert await answer(app, project_id, query, filters) == there, (query, filters)


async def test_each_list_is_that_of_the_database(
    app: App, by_database: App, tree: Path, project_id: str
) -> None:
    for number in range(9):  # more than are chosen for a word of a file's name
        (tree / f"crocodile_{number}.py").write_text(f"def zebra_{number}():\n    return None\n")
    only = tree / "only.py"
    only.write_text("quagga = 1\n")
    await app.index(tree, project_id)
    assert await held(app, project_id)
    only.unlink()
    for number in (1, 4):
        (tree / f"crocodile_{number}.py").write_text(f"def okapi_{number}():\n    return None\n")
    (tree / "aardvark_crocodile.py").write_text("quagga = 2\n")
    await by_database.index(tree, project_id)
    await app.search("anything", project_id)
    copies = await segments_of(app, project_id)
    assert len(copies.all) == 2
    for text in ("crocodile", "quagga", "okapi_1 zebra_2", "return a vector of the snapshot"):
        query = parse_query(text)
        async with app.enter(project_id, readonly=True) as here:
            scope = await load_scope(here.tx, query, {}, FileFilters())
            sources = DatabaseLists(here.tx, query, scope), MemoryLists(copies, query, scope)
            vector = QueryVector(
                scope.profiles[0], await app.models.primary_embedder.embed_query(text)
            )
            there, found = [await source.find([vector]) for source in sources]
            assert found.named_texts == there.named_texts, text
            assert sorted(found.holders)[:2] == sorted(there.holders), text
            there, found = [await source.text_words() for source in sources]
            assert found == there, text
            ids = [blob_id for blob_id, *_ in found]
            chunks = [(blob_id, 0) for blob_id in {*ids[:5], *copies.all[1].blob_ids.tolist()}]
            there, found = [sorted(*await s.cosines([(vector, chunks)])) for s in sources]
            assert found == there, text
            for chunk in chunks:
                there, found = [sorted(await s.held_terms(chunk, s.idf)) for s in sources]
                assert found == there, text


@pytest.mark.parametrize("seed", range(3))
async def test_finds_what_the_database_finds_whatever_was_edited(
    app: App, by_database: App, tree: Path, project_id: str, seed: int
) -> None:
    chance = random.Random(seed)
    await app.index(tree, project_id)
    assert await held(app, project_id)
    base = (await segments_of(app, project_id)).base.blob_ids
    for number in range(5):
        files = sorted(path for path in tree.rglob("*") if path.is_file())
        for _ in range(4):
            file, other = chance.sample(files, 2)
            if not file.exists():
                continue
            match chance.choice(["append", "delete", "rename", "copy", "swap"]):
                case "append":
                    file.write_text(f"{file.read_text()}\n# crocodile {number}\n")
                case "delete":
                    file.unlink()
                case "rename":
                    file.rename(file.with_name(f"quuxify_{number}{file.suffix}"))
                case "copy":
                    shutil.copy(file, tree / f"copy_{number}{file.suffix}")
                case "swap" if other.exists():
                    texts = file.read_text(), other.read_text()
                    other.write_text(texts[0])
                    file.write_text(texts[1])
        await by_database.index(tree, project_id)
        await check_answers(app, by_database, project_id)
        for task in ("A nearest index is dropped while a search uses it", "retry requests"):
            question = ContextQuestion(task, given=())
            here = (await app.context.find(question, project_id)).context
            there = (await by_database.context.find(question, project_id)).context
            assert [file.path for file in here.files] == [file.path for file in there.files]
            assert here.candidates == there.candidates
        assert (await segments_of(app, project_id)).base.blob_ids is base


async def test_after_many_changes_the_large_index_takes_what_it_has(
    app: App,
    by_database: App,
    tree: Path,
    project_id: str,
    texts_read: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (segments, index_reading):
        monkeypatch.setattr(module, "MOST_ADDED", 1)
    await app.index(tree, project_id)
    assert await held(app, project_id)
    (tree / "search/search.py").unlink()
    (tree / "search/hits.py").rename(tree / "search/supervisor.py")
    changed = tree / "index/store.py"
    changed.write_text(changed.read_text().replace("snapshot", "vector_snap"))
    (tree / "new.py").write_text("def quuxify(crocodiles):\n    return Searcher(crocodiles)\n")
    await by_database.index(tree, project_id)
    texts_read.clear()
    assert await held(app, project_id)
    assert texts_read == [2]  # the renamed file has the same text
    await check_answers(app, by_database, project_id)
    updated = await segments_of(app, project_id)
    assert updated.added is None
    async with app.enter(project_id, readonly=True) as here:
        version, profiles = await index_reading.current_version(here.tx, None)
        whole = await index_reading.read_index(here.tx, 10**9, version, profiles)
    assert whole is not None
    compared = dict(_arrays(whole))
    for name, array in _arrays(updated.base):
        if name not in ("symbols.strings.content", "symbols.strings.starts", "symbols.names",
                        "symbols.kinds"):  # their order is another  # fmt: skip
            assert np.array_equal(array, compared[name]), name
    assert {*updated.base.symbols.strings} == {*whole.symbols.strings}


async def test_a_task_needs_what_it_needs_by_the_database(
    app: App, by_database: App, tree: Path, project_id: str
) -> None:
    await app.index(tree, project_id)
    assert await held(app, project_id)
    for task in ("A nearest index is dropped while a search uses it", "`parse_query` keeps commas"):
        question = ContextQuestion(task, given=())
        here = (await app.context.find(question, project_id)).context
        there = (await by_database.context.find(question, project_id)).context
        assert [file.path for file in here.files] == [file.path for file in there.files]
        assert here.candidates == there.candidates


async def test_each_repository_is_searched_alone(
    app: App, by_database: App, tree: Path, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(tree, project_id)
    other = await app.index(make_repo({"a.py": "def parse_query(text):\n    pass\n"}), project_id)
    filters = FileFilters(repository_id=other.run.repository_id)
    assert await held(app, project_id)
    found = await answer(app, project_id, "parse_query", filters)
    assert [hit[0] for hit in found[2]] == ["a.py"]
    assert found == await answer(by_database, project_id, "parse_query", filters)


@pytest.mark.parametrize("searched", [0, 1])
async def test_one_of_two_repositories_that_share_files_answers_as_if_it_were_alone(
    app: App, by_database: App, tree: Path, project_id: str, searched: int
) -> None:
    roots = [tree, tree.with_name("other")]
    for name in ("search", "access"):
        shutil.copytree(tree / name, roots[1] / name)
    (roots[1] / "own.py").write_text("def parse_query(text):\n    return text.split()\n")
    both = [(await app.index(root, project_id)).run.repository_id for root in roots]
    filters = FileFilters(repository_id=both[searched])
    report = await app.search("anything", project_id, Request(filters))
    await app.memory_indexes.wait_idle()
    copy = app.memory_indexes.get(report.scope.project, report.scope.snapshot_ids)
    assert copy is not None and report.scope.snapshot_ids is not None
    alone = f"{project_id}-alone"
    await app.index(roots[searched], alone)
    try:
        for query in QUERIES:
            expected = await answer(by_database, alone, query, FileFilters())
            for one in (by_database, app):
                assert await answer(one, project_id, query, filters) == expected, query
    finally:
        await app.drop_project(alone)


async def test_a_project_may_hold_no_definitions_or_nothing_at_all(
    app: App, by_database: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"notes.txt": "Breakfast is from seven to ten.\n"})
    for _ in range(2):
        await app.index(root, project_id)
        assert await held(app, project_id)
        expected = await answer(by_database, project_id, "breakfast", FileFilters())
        assert await answer(app, project_id, "breakfast", FileFilters()) == expected
        (root / "notes.txt").unlink(missing_ok=True)


async def test_a_change_is_seen_by_the_next_search(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"a.py": "def frobnicate():\n    pass\n", "b.py": "x = 1\n"})
    await app.index(root, project_id)
    assert await held(app, project_id)
    (root / "a.py").write_text("def quuxify():\n    pass\n")
    (root / "c.py").write_text("def quuxify_twice():\n    quuxify()\n    quuxify()\n")
    await app.index(root, project_id)
    for _ in range(2):  # of the database first, then of a new copy
        report = await app.search("quuxify", project_id)
        assert {hit.file_path for hit in report.answer.hits} == {"a.py", "c.py"}
        report = await app.search("frobnicate", project_id)
        assert "frobnicate" not in "".join(hit.content for hit in report.answer.hits)
        assert await held(app, project_id)


async def test_what_another_process_changes_is_seen(
    app: App, by_database: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"a.py": "def frobnicate():\n    pass\n"})
    await app.index(root, project_id)
    assert await held(app, project_id)
    (root / "a.py").unlink()
    (root / "d.py").write_text("def quuxify():\n    pass\n")
    await by_database.index(root, project_id)
    report = await app.search("quuxify", project_id)
    assert [hit.file_path for hit in report.answer.hits] == ["d.py"]


async def test_a_restored_project_is_not_searched_in_the_copy_of_what_it_replaces(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"a.py": "def frobnicate():\n    pass\n"})
    await app.index(root, project_id)
    backup = io.BytesIO()
    await app.data.backup(backup, project_id)
    (root / "a.py").rename(root / "b.py")
    (root / "b.py").write_text("def quuxify():\n    pass\n")
    await app.index(root, project_id)
    assert await held(app, project_id)
    backup.seek(0)
    await app.data.restore(backup, "backup.tar.gz", project_id, replace=True)
    ranking = await app.rank("frobnicate", project_id, FileFilters())
    assert [file.candidate.path for file in ranking.files] == ["a.py"]


async def test_an_unchanged_index_stays_in_memory(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"a.py": "def frobnicate():\n    pass\n"})
    await asyncio.sleep(RACY_NS / 1e9)  # else it is stored again, as it may have changed
    await app.index(root, project_id)
    assert await held(app, project_id)
    async with app.enter(project_id, readonly=True) as here:
        before = app.memory_indexes.get(here.project)
    await app.index(root, project_id)
    await held(app, project_id)
    assert app.memory_indexes.get(here.project) is before


async def test_what_was_erased_is_not_in_memory_nor_in_a_file(
    app: App, settings: Settings, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo({"a.py": "def frobnicate():\n    pass\n", "b.py": "x = 1\n"})
    await app.index(root, project_id)
    assert await held(app, project_id)
    (root / "a.py").unlink()
    await app.data.purge(await app.data.find(root / "a.py", project_id))
    assert files_of(settings, project_id) == []
    report = await app.search("frobnicate", project_id)
    assert report.answer.hits == []


async def test_what_another_process_erased_does_not_stay_in_memory(
    app: App, settings: Settings, tree: Path, project_id: str
) -> None:
    secret = tree / "secret.py"
    secret.write_text("def frobnicate():\n    pass\n")
    await app.index(tree, project_id)
    assert await held(app, project_id)
    secret.unlink()
    async with await App.open(settings) as other:
        await other.data.purge(await other.data.find(secret, project_id))
    assert (await app.search("frobnicate", project_id)).answer.hits == []
    await app.memory_indexes.wait_idle()
    index = (await segments_of(app, project_id)).base
    assert "frobnicate" not in {*index.symbols.strings}
    assert "secret.py" not in {*index.files.paths}


@pytest.mark.parametrize("way", ["drop", "purge"])
async def test_a_dropped_project_is_not_in_memory(
    app: App, make_repo: Callable[..., Path], project_id: str, way: str
) -> None:
    await app.index(make_repo({"a.py": "def frobnicate():\n    pass\n"}), project_id)
    assert await held(app, project_id)
    async with app.enter(project_id, readonly=True) as here:
        project = here.project
    if way == "drop":
        await app.drop_project(project_id)
    else:
        await app.data.purge_project(project_id)
    assert app.memory_indexes.get(project) is None


async def test_dropping_a_project_gives_up_its_load(
    app: App, make_repo: Callable[..., Path], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_indexes, "QUIET_S", 3600.0)
    await app.index(make_repo({"a.py": "def frobnicate():\n    pass\n"}), project_id)
    await app.search("anything", project_id)
    await app.drop_project(project_id)
    tasks = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
    assert "MemoryIndexes._load" not in tasks


async def test_a_project_that_is_too_large_is_asked_of_the_database(
    settings: Settings, tree: Path, project_id: str
) -> None:
    async with await App.open(replace(settings, search_memory_mb=1)) as app:
        await app.index(tree, project_id)
        assert not await held(app, project_id)
        assert (await app.search("parse_query", project_id)).answer.hits


async def test_the_project_searched_longest_ago_makes_room(
    settings: Settings, tree: Path, project_id: str
) -> None:
    async with await App.open(settings) as app:
        names = [f"{project_id}-{number}" for number in range(2)]
        for name in names:
            await app.index(tree, name)
        assert await held(app, names[0])
        async with app.enter(names[0], readonly=True) as here:
            index = app.memory_indexes.get(here.project)
        assert index is not None
        app.memory_indexes._most_bytes = int(1.5 * index.size_bytes)
        assert await held(app, names[1])
        assert kept_in(app) == [schema_of(names[1])]
        for name in names:
            await app.drop_project(name)


async def test_a_copy_that_nobody_uses_is_dropped(
    app: App, tree: Path, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_indexes, "IDLE_S", 0.2)
    await app.index(tree, project_id)
    await held(app, project_id)
    assert kept_in(app)
    async with asyncio.timeout(10):
        while kept_in(app):
            await asyncio.sleep(0.05)
    assert await held(app, project_id)  # from the file


async def test_another_process_maps_the_same_file_even_for_one_search(
    app: App, settings: Settings, tree: Path, project_id: str
) -> None:
    await app.index(tree, project_id)
    assert await held(app, project_id)
    answers = [await answer(app, project_id, query, FileFilters()) for query in QUERIES]
    async with await App.open(settings, only_once=True) as other:
        for query, expected in zip(QUERIES, answers, strict=True):
            assert await answer(other, project_id, query, FileFilters()) == expected
        [slot] = other.memory_indexes._slots.values()
        assert slot.index is not None
        (tree / "search/new.py").write_text("def frobnicate():\n    pass\n")
        await app.index(tree, project_id)
        assert (await other.search("frobnicate", project_id)).answer.hits


async def test_a_damaged_file_is_made_anew(
    app: App, settings: Settings, tree: Path, project_id: str
) -> None:
    await app.index(tree, project_id)
    assert await held(app, project_id)
    [file] = files_of(settings, project_id, ".index")
    for content in (b"", b"codebase-mcp", file.read_bytes()[:-20], file.read_bytes()[-9_000:]):
        file.write_bytes(content)
        async with await App.open(settings) as other:
            assert (await other.search("parse_query", project_id)).answer.hits
            assert await held(other, project_id)
        assert file.stat().st_size > 100_000


async def test_of_several_processes_one_makes_the_file(
    settings: Settings, tree: Path, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    read_index = memory_indexes.read_index

    async def counted(*arguments: Any) -> Any:
        made.append(arguments)
        await asyncio.sleep(0.3)
        return await read_index(*arguments)

    monkeypatch.setattr(memory_indexes, "read_index", counted)
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(await App.open(settings)) for _ in range(3)]
        await apps[0].index(tree, project_id)
        assert await asyncio.gather(*(held(each, project_id) for each in apps)) == [True] * 3
        assert len(made) == 1
        await apps[0].drop_project(project_id)
        assert files_of(settings, project_id) == []


async def test_without_a_folder_to_write_to_the_index_is_in_memory_alone(
    app: App, tree: Path, project_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFolder, "_path", lambda self, name: tmp_path / "nowhere" / name)
    await app.index(tree, project_id)
    assert await held(app, project_id)


async def test_closing_gives_up_a_load(
    settings: Settings, tree: Path, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_indexes, "QUIET_S", 3600.0)
    async with asyncio.timeout(60), await App.open(settings) as app:
        await app.index(tree, project_id)
        await app.search("anything", project_id)
