"""The same code gets the same answers, whatever happened to the index before."""

from __future__ import annotations

import platform
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import codebase_mcp
from codebase_mcp.app.app import App
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("loads_at_once")]

PACKAGE = Path(codebase_mcp.__file__).parent
QUERIES = [
    "where are failed requests retried",
    "how is a vector stored in the database",
    "parse_query",
    "Searcher",
    "return the value of self for each",
    "widget searcher",  # a word in the names of many files
    "which jobs wait for a worker",
    "the same note everywhere",  # many texts are equal
]
ROUNDS, EDITS = 6, 12
# pgvector adds numbers up in another order where it is compiled for other processors.
DIGITS = 12 if platform.machine() == "x86_64" else 4


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Real code, files that share a word of their names alone, and equal texts."""
    root = tmp_path / "real"
    for name in ("search", "index"):
        shutil.copytree(PACKAGE / name, root / name, ignore=shutil.ignore_patterns("*.pyc"))
    for number in range(60):
        folder = root / f"part{number % 5}"
        folder.mkdir(exist_ok=True)
        (folder / f"widget_{number}.py").write_text(f"total_{number} = {number}\n")
        (folder / f"note_{number}.md").write_text("# Note\n\nThe same note everywhere.\n")
    return root


def edit(root: Path, original: Path, chance: random.Random) -> None:
    """Change, remove, move or bring back a file of the tree."""
    path = chance.choice(sorted(path for path in original.rglob("*") if path.is_file()))
    place = root / path.relative_to(original)
    match chance.choice(["change", "remove", "move", "restore"]):
        case "change" if place.exists():
            place.write_text(f"{place.read_text()}\n# changed {chance.random()}\n")
        case "remove":
            place.unlink(missing_ok=True)
        case "move" if place.exists():
            place.rename(place.with_stem(f"{place.stem}_moved"))
        case _:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


async def answers(app: App, project_id: str, *, times: int = 1) -> list[list[Any]]:
    """What each question finds, the places in order and with their scores; again the same."""
    every = []
    for _ in range(times):
        found = [(await app.search(query, project_id, Request())).answer for query in QUERIES]
        every.append([[answer.total_count, *map(_shown, answer.hits)] for answer in found])
        await app.memory_indexes.wait_idle()
    assert all(one == every[0] for one in every)
    return every[0]


async def rankings(app: App, project_id: str) -> list[list[tuple[str, float]]]:
    """All files that are ranked for each question, also those behind what is shown."""
    ranked = [await app.rank(query, project_id, FileFilters()) for query in QUERIES]
    return [
        [(file.candidate.path, round(file.score, DIGITS)) for file in one.files] for one in ranked
    ]


def _shown(hit: Any) -> tuple[Any, ...]:
    more = tuple((place.start_line, place.score) for place in hit.more_in_file)
    also = tuple((place.file_path, place.start_line) for place in hit.also_at)
    return (hit.file_path, hit.start_line, hit.symbol, hit.similarity_score, more, also)


@pytest.mark.parametrize("seed", range(3))
async def test_an_index_that_was_edited_answers_as_a_new_one(
    app: App, by_database: App, tree: Path, tmp_path: Path, project_id: str, seed: int
) -> None:
    chance, original = random.Random(seed), tmp_path / "original"
    shutil.copytree(tree, original)
    for path in chance.sample(sorted(path for path in tree.rglob("*.*") if path.is_file()), 60):
        path.unlink()
    await app.index(tree, project_id)
    for _ in range(ROUNDS):
        for _ in range(EDITS):
            edit(tree, original, chance)
        await app.index(tree, project_id)
    shutil.rmtree(tree)
    shutil.copytree(original, tree)
    await app.index(tree, project_id)
    fresh = f"{project_id}-fresh"
    await app.index(tree, fresh)
    try:
        # The first of three searches in the database, the others in memory.
        expected = await answers(app, fresh, times=3)
        assert await answers(app, project_id, times=3) == expected
        assert await answers(by_database, fresh, times=2) == expected
        assert await answers(by_database, project_id, times=2) == expected
        ranked = await rankings(by_database, fresh)
        for one in (app, by_database):
            for place in (fresh, project_id):
                assert await rankings(one, place) == ranked
    finally:
        await app.drop_project(fresh)
