"""How good are the answers of our own index and search, on easy and on hard questions?

    python benchmarks/quality.py [--eval DIR --repos-dir DIR] [--everyday-dir DIR] [--json OUT]
        [--against OLD.json] [--dump FILE.npz] [--sets development,unnamed] [--worst 10]

``--eval`` is the folder of the retrieval evaluation (``ndcg.py`` and its annotations),
``--repos-dir`` the trees that its ``materialise.py`` laid out, ``--everyday-dir`` those of
``quality_trees.py``; with ``--questions`` it and the questions are those of
``training/projects.py``. ``--data-dir`` is kept, so the next run need not index again. ``--dump``
writes the evidence for every candidate, for ``calibrate.py`` and for other fits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.settings.loading import Settings
from quality_ablation import ablations, table_lines
from quality_dump import Dumping, write_dump
from quality_queries import (
    EVERYDAY,
    SETS,
    Evaluation,
    Repository,
    development_repositories,
    everyday_repositories,
)
from quality_report import comparison, figures_of, page, record_of, worst
from quality_run import Outcome, ask, bring_up_to_date


async def measure(
    data_dir: Path, repositories: Sequence[Repository], dumping: Dumping, *, dump_all: bool
) -> list[Outcome]:
    """Index each tree and ask all its questions; ``dump_all`` includes those without targets."""
    # The trees do not change, so searches need not check the files first.
    ours = {"CODEBASE_MCP_DATA_DIR": str(data_dir), "CODEBASE_MCP_CHECK_MS": "0"}
    outcomes: list[Outcome] = []
    async with await App.open(Settings.load({**os.environ, **ours})) as app:
        for repository in repositories:
            files = await bring_up_to_date(app, repository)
            for one in repository.asked:
                dump = dumping.add if one.targets or dump_all else None
                outcomes.append(await ask(app, repository, one, dump))
            print(
                f"{repository.name}: {files} files indexed, {len(repository.asked)} asked",
                file=sys.stderr,
                flush=True,
            )
    return outcomes


@contextmanager
def data_folder(chosen: Path | None) -> Iterator[Path]:
    """The chosen data directory, or one for this run alone."""
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        yield Path(folder, "data")


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eval", type=Path)
    parser.add_argument("--repos-dir", type=Path)
    parser.add_argument("--everyday-dir", type=Path)
    parser.add_argument("--questions", type=Path, default=EVERYDAY, help="about the everyday trees")
    parser.add_argument("--data-dir", type=Path, help="where the database lies, kept")
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {', '.join(SETS)}")
    parser.add_argument("--repo", action="append", default=[], help="only these repositories")
    parser.add_argument("--json", type=Path, help="write the figures and every question's record")
    parser.add_argument("--against", type=Path, help="a former --json to compare with")
    parser.add_argument("--dump", type=Path, help="write every candidate's signals (numpy)")
    parser.add_argument("--worst", type=int, default=0, help="how many of the worst to show")
    options = parser.parse_args(arguments)
    unknown = set(options.sets.split(",")) - set(SETS)
    if unknown:
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    return options


def repositories_of(options: argparse.Namespace) -> list[Repository]:
    """The repositories whose trees exist, with their questions."""
    sets = options.sets.split(",")
    repositories: list[Repository] = []
    if options.eval and options.repos_dir:
        evaluation = Evaluation(options.eval.resolve(), options.repos_dir.resolve())
        repositories += development_repositories(evaluation, sets)
    if options.everyday_dir:
        repositories += everyday_repositories(
            options.everyday_dir.resolve(), sets, options.questions.resolve()
        )
    return [r for r in repositories if r.asked and (not options.repo or r.name in options.repo)]


def main() -> None:
    """Measure, write, print."""
    options = options_of()
    former = json.loads(options.against.read_text()) if options.against else None
    repositories = repositories_of(options)
    if not repositories:
        raise SystemExit("No trees found: run materialise.py, or quality_trees.py, first.")
    dumping = Dumping()
    with data_folder(options.data_dir) as folder:
        work = measure(folder, repositories, dumping, dump_all=options.dump is not None)
        outcomes = asyncio.run(work)
    records = [record_of(outcome) for outcome in outcomes]
    figures = figures_of(records)
    dump = dumping.dump()
    table = ablations(dump)
    if options.dump:
        write_dump(dump, options.dump)
    if options.json:
        written = {"figures": figures, "ablations": table, "questions": records}
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print("\n".join([*page(figures), "", *table_lines(table)]))
    if options.worst:
        print("\n".join(["", "worst:", *worst(records, options.worst)]))
    if former is not None:
        print("\n" + "\n".join(comparison(former["questions"], records)))


if __name__ == "__main__":
    main()
