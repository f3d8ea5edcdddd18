"""How many places match: a narrower filter never has more of them, and as many come as are said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import codebase_mcp
from codebase_mcp.app.app import App
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request

PACKAGE = Path(codebase_mcp.__file__).parent

# Words of this code, of other code and of none.
WORDS = (
    "search query vector chunk parse_query Searcher snapshot lock write read error test name where "
    "how is the stored retried when a failed expire cookie invoice crocodile recipe saddle"
).split()
QUESTIONS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
DIRECTORIES = st.sampled_from(["search", "database", "database/migrations", "*/migrations", "no"])
LIMITS = st.sampled_from([1, 3, 10, 50])


@pytest.fixture
async def indexed(app: App, tmp_path: Path, project_id: str) -> str:
    """A project with real code in two languages."""
    for name in ("search", "database"):
        ignored = shutil.ignore_patterns("*.pyc")
        shutil.copytree(PACKAGE / name, tmp_path / "real" / name, ignore=ignored)
    await app.index(tmp_path / "real", project_id)
    return project_id


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    question=QUESTIONS, directory=DIRECTORIES, extension=st.sampled_from(["py", "sql"]), by=LIMITS
)
async def test_a_narrower_filter_never_counts_more(
    app: App, indexed: str, question: str, directory: str, extension: str, by: int
) -> None:
    below = FileFilters(directory=directory)
    counts = []
    for filters in (
        FileFilters(),
        below,
        replace(below, extensions=(extension,)),
        replace(below, extensions=(extension,), languages=("sql",)),
    ):
        answers = [
            (await app.search(question, indexed, Request(filters, limit=limit))).answer
            for limit in {by, 50}
        ]
        for limit, answer in zip({by, 50}, answers, strict=True):
            assert len(answer.hits) == min(limit, answer.total_count)
        [count] = {answer.total_count for answer in answers}
        counts.append(count)
    # A question is about the code or not by what the filters leave: nothing at all may become more.
    assert all(wider >= narrower or not wider for wider, narrower in pairwise(counts)), counts


async def test_the_count_is_that_of_the_chunks_that_hold_a_word_and_a_few_near_ones(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    files = {f"app/job{n}.py": f"def retry_{n}():\n    return backoff({n})\n" for n in range(30)}
    files |= {f"web/page{n}.py": f"def page_{n}():\n    return {n}\n" for n in range(30)}
    await app.index(make_repo(files), project_id)
    for directory, expected in ((None, 30), ("app", 30), ("web", 0)):
        request = Request(FileFilters(directory=directory), limit=50)
        answer = (await app.search("how does retry backoff work", project_id, request)).answer
        assert (answer.total_count, len(answer.hits)) == (expected, expected), directory
        assert not answer.total_is_lower_bound


async def test_only_the_chunks_that_hold_a_whole_name_match_it(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    files = {f"a{n}.py": f"def open_door_{n}():\n    return session({n})\n" for n in range(40)}
    files["store.py"] = "def open_session():\n    return 1\n"
    await app.index(make_repo(files), project_id)
    answer = (await app.search("open_session", project_id, Request(limit=50))).answer
    assert answer.hits[0].file_path == "store.py"
    assert answer.total_count == 10


async def test_a_filter_does_not_make_an_answer_of_a_question_about_something_else(
    app: App, indexed: str
) -> None:
    question = "how long do i boil an egg"
    for filters in (FileFilters(), FileFilters(directory="database/migrations")):
        answer = (await app.search(question, indexed, Request(filters))).answer
        assert (answer.hits, answer.total_count) == ([], 0)


async def test_beyond_a_thousand_the_count_is_a_lower_bound(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(
        make_repo({f"f{n}.py": f"def retry_{n}():\n    pass\n" for n in range(1_005)}), project_id
    )
    answer = (await app.search("retry", project_id)).answer
    assert (answer.total_count, answer.total_is_lower_bound) == (1_000, True)
