"""What does a secondary model add, what does it cost, and does it delay the first answer?

    python benchmarks/bert_onnx.py FOLDER MODEL      (all-MiniLM-L6-v2, of eight bits)
    python benchmarks/secondary_model.py --model MODEL --everyday-dir TREES

Each tree of the everyday questions is indexed alternately with and without a secondary model, until
the first question is answered. Then the vectors of the secondary model are backfilled completely.
Then every question is asked of the primary model alone and of both. Unrelated questions are
included, as a stronger model must not answer more of them. Times are processor time, as the machine
may be shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from codebase_mcp import App
from codebase_mcp.app.background.backfill import Backfill
from codebase_mcp.app.background.lifespan import backfilling
from codebase_mcp.settings.loading import Settings
from quality import data_folder
from quality_queries import Repository, everyday_repositories
from quality_report import comparison, figures_of, page, record_of
from quality_run import ask, bring_up_to_date

QUESTION = "where is the configuration read"

# How often each configuration is measured, alternately.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The time from no index to the first answer, in wall-clock and processor time."""

    seconds: float
    core_seconds: float


def settings_of(data_dir: Path, model: Path | None) -> Settings:
    """With or without a secondary model; file checks are off, as the trees do not change."""
    ours = {"CODEBASE_MCP_DATA_DIR": str(data_dir), "CODEBASE_MCP_CHECK_MS": "0"}
    if model is not None:
        ours["CODEBASE_MCP_EMBEDDING_MODEL"] = str(model)
    return Settings.load({**os.environ, **ours})


async def first_answer(settings: Settings, root: Path) -> FirstAnswer:
    """Index a tree in a new project, as a server does, and ask one question."""
    async with await App.open(settings) as app, backfilling(app):
        await app.projects()  # the database is up
        started, used = time.perf_counter(), core_seconds()
        await app.index(root, "first-answer")
        await app.search(QUESTION, "first-answer")
        found = FirstAnswer(time.perf_counter() - started, core_seconds() - used)
        await app.drop_project("first-answer")
    return found


def core_seconds() -> float:
    """The processor time of this process and of its workers that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


async def measure(
    data_dir: Path, model: Path, repositories: Sequence[Repository], rounds: int
) -> dict[str, Any]:
    """All figures, for all trees."""
    alone, both = settings_of(data_dir, None), settings_of(data_dir, model)
    waited: dict[str, list[FirstAnswer]] = {"without": [], "with": []}
    for repository in repositories:
        for _ in range(rounds):
            waited["without"].append(await first_answer(alone, repository.root))
            waited["with"].append(await first_answer(both, repository.root))
    chunks, used = 0, 0.0
    records: dict[str, list[dict[str, Any]]] = {"primary model": [], "both models": []}

    def count(added: int) -> None:
        nonlocal chunks
        chunks += added

    async with await App.open(both) as app:
        for repository in repositories:
            await bring_up_to_date(app, repository)
            [project] = await projects_of(app, repository)
            before = time.process_time()
            await Backfill(app.database, app.models).run(project, progress=count)
            used += time.process_time() - before
            print(f"{repository.name}: {chunks} chunks", flush=True)
    for name, settings in (("primary model", alone), ("both models", both)):
        async with await App.open(settings) as app:
            for repository in repositories:
                for one in repository.asked:
                    records[name].append(record_of(await ask(app, repository, one, None)))
    return {
        "first answer": {
            name: {
                "median_seconds": median(one.seconds for one in some),
                "median_core_seconds": median(one.core_seconds for one in some),
            }
            for name, some in waited.items()
            if some
        },
        "backfill": {"chunks": chunks, "core_seconds": used},
        "questions": records,
        "figures": {name: figures_of(some) for name, some in records.items()},
    }


async def projects_of(app: App, repository: Repository) -> list[Any]:
    """The project that holds a tree."""
    found = await app.projects()
    return [p.project for p in found if any(r.root == str(repository.root) for r in p.repositories)]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder for the provider onnx")
    parser.add_argument("--everyday-dir", type=Path, required=True, help="the trees")
    parser.add_argument("--data-dir", type=Path, help="where the database lies, kept")
    parser.add_argument("--repo", action="append", default=[], help="only these repositories")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of first answers")
    parser.add_argument("--json", type=Path, help="write the figures and every question's record")
    options = parser.parse_args()
    known = everyday_repositories(options.everyday_dir.resolve(), ("everyday", "unrelated"))
    repositories = [r for r in known if not options.repo or r.name in options.repo]
    with data_folder(options.data_dir) as folder:
        found = asyncio.run(measure(folder, options.model, repositories, options.rounds))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, waited in found["first answer"].items():
        print(
            f"first answer {name} a secondary model: {waited['median_seconds']:.2f} s,"
            f" {waited['median_core_seconds']:.2f} core-seconds (median)"
        )
    backfill = found["backfill"]
    if backfill["chunks"]:
        rate = backfill["chunks"] / backfill["core_seconds"]
        print(f"backfill: {backfill['chunks']} chunks, {rate:.1f} per core-second")
    for name, figures in found["figures"].items():
        print("\n".join([f"\n{name}:", *page(figures)]))
    print("\n" + "\n".join(comparison(*found["questions"].values())))


if __name__ == "__main__":
    main()
