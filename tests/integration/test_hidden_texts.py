"""Texts that are stored but not searched take no place in any answer, and weigh in none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request

FILES = 1_100

QUERIES = [
    ("where are invoices settled", FileFilters()),
    ("settle_invoice", FileFilters()),
    ("invoice ledger rounding", FileFilters()),
    ("settle_invoice", FileFilters(directory="billing")),
    ("invoice", FileFilters(extensions=("py",))),
]


def before() -> dict[str, str]:
    """A thousand files that all speak of invoices."""
    return {
        f"old/part{n}.py": f'"""Settle invoices into the ledger {n}."""\n\n'
        f"def settle_invoice(invoice, ledger):\n    return ledger.rounding(invoice, {n})\n"
        for n in range(FILES)
    }


def after() -> dict[str, str]:
    """What a checkout leaves: one file that does, among others."""
    files = {
        f"old/part{n}.py": f"def unrelated_{n}(value):\n    return value * {n} + 1\n"
        for n in range(FILES)
    }
    return files | {
        "billing/settle.py": "def settle_invoice(invoice):\n    return invoice.total\n",
        "billing/report.py": "def report(invoices):\n    return [i.total for i in invoices]\n",
    }


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


async def answers(app: App, project_id: str) -> list[Any]:
    """What is found, where and how sure, and how often each word occurs."""
    found: list[Any] = []
    for query, filters in QUERIES:
        report = await app.search(query, project_id, Request(filters, limit=50))
        hits = [
            (h.file_path, h.start_line, pytest.approx(h.similarity_score, abs=2e-4))
            for h in report.answer.hits
        ]
        found.append((query, report.answer.total_count, hits))
    async with app.enter(project_id, readonly=True) as here:
        words = await here.tx.fetch_all(
            "SELECT term, chunks FROM term_frequency WHERE chunks > 0 ORDER BY term"
        )
    return [*found, words]


@pytest.fixture
async def fresh(app: App, project_id: str) -> AsyncIterator[str]:
    """Another project, for an index that has seen nothing else."""
    yield f"{project_id}-fresh"
    with contextlib.suppress(ProjectNotFound):
        await app.drop_project(f"{project_id}-fresh")


@pytest.fixture
async def moved(app: App, make_repo: Callable[..., Path], project_id: str) -> Path:
    """A repository whose index has followed a checkout that replaced all of it."""
    root = make_repo(before())
    await app.index(root, project_id)
    write(root, after())
    await app.index(root, project_id)
    return root


async def test_after_a_checkout_answers_are_those_of_a_fresh_index(
    app: App, moved: Path, project_id: str, fresh: str
) -> None:
    await app.index(moved, fresh)
    expected = await answers(app, fresh)
    assert expected[0][2][0][0] == "billing/settle.py"
    assert await answers(app, project_id) == expected
    write(moved, before())  # texts that wait for the sweep come back
    await app.index(moved, project_id)
    await app.drop_project(fresh)
    await app.index(moved, fresh)
    assert await answers(app, project_id) == await answers(app, fresh)


async def test_in_the_middle_of_a_rebuild_answers_are_those_of_the_index_that_answers(
    app: App, moved: Path, project_id: str
) -> None:
    expected = await answers(app, project_id)
    half = asyncio.Event()

    def follow(progress: RunProgress) -> None:
        if progress.done > FILES // 3:
            half.set()

    run = asyncio.create_task(app.index(moved, project_id, force_reindex=True, progress=follow))
    await half.wait()
    run.cancel()
    await asyncio.wait([run])
    async with app.enter(project_id, readonly=True) as here:
        row = await here.tx.fetch_one(
            "SELECT count(*) FROM file AS f JOIN snapshot AS s ON s.id = f.snapshot_id"
            " WHERE NOT s.active"
        )
    assert row is not None and row[0] > 0
    assert await answers(app, project_id) == expected
    await app.index(moved, project_id, force_reindex=True)
    assert await answers(app, project_id) == expected
