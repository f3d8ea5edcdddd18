"""Does find_context name the files that a task needs?

    python benchmarks/context.py --repositories FOLDER [--aider PYTHON] [--json OUT]

The tasks are made of histories (``context_samples.py``): of each repository those of the newest
suitable commits, each asked of a clone at the state before its commit, which has no later history.
The states of a repository are visited in the order of time, so each costs what differs from the one
before. The systems:

- context: find_context, for tests only where a task asks for tests
- bm25: BM25 over whole files, with the whole text
- repomap: the order of aider's map of a repository (``--aider``: the interpreter that has it)
- search: search_code with the first 500 characters
- impact: the impact of the given file's change, for tasks that give one

Their differences to find_context have an interval: 95 % of the averages when the repositories are
drawn with replacement. ``--former`` takes over what an earlier run measured of other systems.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from context_samples import (
    Repository,
    Sample,
    is_held_out,
    read_list,
    read_reports,
    reported,
    repositories_in,
    samples_of,
)
from context_scoring import facts, table
from context_systems import OURS, SYSTEMS, Row, Systems, has_replies
from context_trees import StateClone
from own_server import own_folder

COMMITS = 12  # of one repository
HISTORY = 1_000  # earlier commits that the index knows
REPLY_TOKENS = (1_200, 8_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: the tasks of each repository, with the systems that answer them."""

    tasks: list[tuple[Repository, list[Sample]]]
    systems: tuple[str, ...]
    aider: Path | None
    replies: tuple[int, ...]
    history: int | None
    former: list[Row]

    def foreign(self, number: int) -> list[Sample]:
        """The messages of another repository, to be asked of this one."""
        _, samples = self.tasks[(number + 1) % len(self.tasks)]
        messages = [sample for sample in samples if sample.task in ("issue2code", "report2code")]
        return messages if len(self.tasks) > 1 else []


def main() -> None:
    """Ask about every repository, and print the figures."""
    options = parsed()
    logging.disable(logging.WARNING)  # searches on a busy machine are slow
    plan = planned(options)
    with own_folder("bench-context-") as folder:
        rows = asyncio.run(measure(folder, plan, options.json))
    print("\n".join([*table(rows), *facts(rows)]))


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repositories", type=Path, help="folder of git directories")
    parser.add_argument("--list", type=Path, help="name, language, git directory (tabs)")
    parser.add_argument("--held-out", action="store_true", help="only those not trained on")
    parser.add_argument("--commits", type=int, default=COMMITS, help="of each repository")
    parser.add_argument("--reports", type=Path, help="tasks of this file instead of messages")
    parser.add_argument("--limit", type=int, help="the most tasks of each repository")
    parser.add_argument("--history", type=int, default=HISTORY, help="0: what the product reads")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--aider", type=Path, help="interpreter that has aider-chat")
    parser.add_argument("--former", type=Path, help="what an earlier run wrote")
    parser.add_argument("--json", type=Path, help="write every ranking here")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Plan:
    """The tasks and systems that the options mean."""
    listed = read_list(options.list) if options.list else []
    listed += repositories_in(options.repositories) if options.repositories else []
    reports = read_reports(options.reports) if options.reports else {}
    tasks = []
    for repository in listed:
        if not options.held_out or is_held_out(repository.name):
            newest_first = list(
                reported(repository, reports)
                if options.reports
                else samples_of(repository, options.commits)
            )
            if samples := newest_first[: options.limit][::-1]:
                tasks.append((repository, samples))
    systems = tuple(options.systems.split(","))
    if unknown := set(systems).difference(SYSTEMS):
        raise SystemExit(f"No such system: {', '.join(sorted(unknown))}")
    if options.aider is None:
        systems = tuple(name for name in systems if name != "repomap")
    replies = REPLY_TOKENS if has_replies() else ()
    former = json.loads(options.former.read_text("utf-8")) if options.former else []
    rows = [Row.from_json(row) for row in former]
    return Plan(tasks, systems, options.aider, replies, options.history or None, rows)


async def measure(folder: Path, plan: Plan, out: Path | None) -> list[Row]:
    """Ask every task of every system, and write what is known after each repository."""
    rows: list[Row] = []
    async with opened(folder, plan.systems) as app:
        systems = Systems(app, plan.aider, plan.replies, plan.history)
        try:
            for number, (repository, samples) in enumerate(plan.tasks):
                clone = StateClone(repository, folder / repository.name.replace("/", "+"))
                asked = await ask(systems, plan, clone, samples, plan.foreign(number))
                print(f"{repository.name}: {len(asked)} tasks", flush=True)
                take_over(asked, plan.former)
                rows += asked
                if out:
                    out.write_text(json.dumps([row.as_json() for row in rows]) + "\n", "utf-8")
        finally:
            systems.close()
    return rows


@asynccontextmanager
async def opened(folder: Path, systems: Sequence[str]) -> AsyncIterator[App | None]:
    """The product, if any system needs it."""
    if not OURS.intersection(systems):
        yield None
        return
    async with await App.open(replace(Settings.load(), data_dir=folder / "data")) as app:
        yield app


async def ask(
    systems: Systems,
    plan: Plan,
    clone: StateClone,
    samples: Sequence[Sample],
    foreign: Sequence[Sample],
) -> list[Row]:
    """Ask the tasks of a repository, each in its state."""
    project = "bench-" + "".join(c for c in clone.root.name.lower() if c.isalnum())
    rows: list[Row] = []
    for state, group in groupby(samples, lambda sample: sample.state):
        if not clone.move_to(state):
            continue
        await systems.enter(clone, project, plan.systems)
        for sample in group:
            row = Row(sample)
            other = foreign[len(rows) % len(foreign)] if foreign else None
            for system in plan.systems:
                await systems.ask(row, system, other)
            rows.append(row)
    return rows


def take_over(rows: Sequence[Row], former: Sequence[Row]) -> None:
    """Add to rows what an earlier run measured of systems that were not asked now."""
    earlier = {row.sample.id: row for row in former}
    for row in rows:
        if before := earlier.get(row.sample.id):
            row.ranked = before.ranked | row.ranked
            row.seconds = before.seconds | row.seconds
            row.context = row.context or before.context


if __name__ == "__main__":
    main()
