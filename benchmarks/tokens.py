"""How much does an agent read until it has the answer: our replies, semble's, grep's?

    python benchmarks/tokens.py --semble PYTHON [--eval DIR --repos-dir DIR] [--everyday-dir DIR]
        [--data-dir DIR] [--repo NAME] [--json OUT] [--replies-dir DIR]

Of the questions of ``quality.py`` those of the evaluation's development part (trees in
``--repos-dir``), by file, and the everyday ones (trees in ``--everyday-dir``), by file and by the
lines of the answer. What the figures mean: ``benchmarks/README.md``. ``--semble`` is the
interpreter of an environment that has it. ``--data-dir`` is kept and makes the next run short.
``--replies-dir`` gets the replies themselves, a file for each question and tool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.settings.loading import Settings
from quality import data_folder
from quality_queries import (
    EvalQuery,
    Evaluation,
    Repository,
    development_repositories,
    everyday_repositories,
)
from quality_run import bring_up_to_date
from quality_scoring import Target, files_of
from tokens_report import Record, page, written
from tokens_run import (
    Keep,
    Replies,
    chars_of_range,
    grep_replies,
    merged,
    our_replies,
    semble_replies,
)
from tokens_scoring import cost_by_file, cost_by_lines, lines_of


async def measure(
    data_dir: Path, repositories: Sequence[Repository], semble: Path, keep: Keep
) -> list[Record]:
    """Ask every tool everything."""
    # The trees stand still, so nothing is looked at before a search.
    ours = {"CODEBASE_MCP_DATA_DIR": str(data_dir), "CODEBASE_MCP_CHECK_MS": "0"}
    records: list[Record] = []
    async with await App.open(Settings.load({**os.environ, **ours})) as app:
        for repository in repositories:
            await bring_up_to_date(app, repository)
            replies = merged(
                await our_replies(app, repository, keep),
                semble_replies(semble, repository, keep),
                grep_replies(repository),
            )
            records += git_dir_for(repository, replies)
            print(f"{repository.name}: {len(repository.asked)} asked", file=sys.stderr, flush=True)
    return records


def git_dir_for(repository: Repository, replies: Replies) -> Iterator[Record]:
    """What each question cost with each tool."""
    read_chars = chars_of_range(repository.root)
    for tool, some in replies.items():
        for asked, reply in zip(repository.asked, some, strict=True):
            known = (tool, asked.set, repository.name, asked.text)
            if asked.set == "everyday":
                yield Record(
                    *known,
                    cost_by_file(reply, files_of(asked.targets)),
                    cost_by_lines(reply, asked.targets, read_chars),
                    lines_of(reply, asked.targets),
                )
            else:
                yield Record(*known, cost_by_file(reply, asked.targets))


def keeper(folder: Path | None) -> Keep:
    """Writes replies into a folder, if one was named."""

    def keep(tool: str, repository: Repository, asked: EvalQuery, reply: str) -> None:
        if folder is not None:
            number = repository.asked.index(asked)
            name = re.sub(r"\W+", "-", f"{repository.name} {number} {tool}")
            targets = "".join(f"answer: {_named(target)}\n" for target in asked.targets)
            (folder / f"{name}.txt").write_text(f"{asked.text}\n{targets}\n{reply}\n", "utf-8")

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return keep


def _named(target: Target) -> str:
    return target.path + (":{}-{}".format(*target.span) if target.span else "")


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the user said."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--semble", type=Path, required=True)
    parser.add_argument("--eval", type=Path)
    parser.add_argument("--repos-dir", type=Path)
    parser.add_argument("--everyday-dir", type=Path)
    parser.add_argument("--data-dir", type=Path, help="where the database lies, kept")
    parser.add_argument("--repo", action="append", default=[], help="only these repositories")
    parser.add_argument("--json", type=Path, help="write the figures and every question's record")
    parser.add_argument("--replies-dir", type=Path, help="write the replies, to be read")
    options = parser.parse_args(arguments)
    if (options.eval is None) != (options.repos_dir is None):
        parser.error("--eval and --repos-dir belong together")
    return options


def repositories_of(options: argparse.Namespace) -> list[Repository]:
    """The trees that are there, with what can be answered in each."""
    found: list[Repository] = []
    if options.eval is not None:
        evaluation = Evaluation(options.eval.resolve(), options.repos_dir.resolve())
        found += development_repositories(evaluation, ["development"])
    if options.everyday_dir is not None:
        found += everyday_repositories(options.everyday_dir.resolve(), ["everyday"])
    return [answerable(r) for r in found if not options.repo or r.name in options.repo]


def answerable(repository: Repository) -> Repository:
    """Without targets that the tree does not have, and without questions that have no others."""
    asked = [
        replace(one, targets=tuple(target for target in one.targets if target.files))
        for one in repository.asked
    ]
    return replace(repository, asked=tuple(one for one in asked if one.targets))


def main() -> None:
    """Measure, write, print."""
    options = options_of()
    repositories = repositories_of(options)
    if not repositories:
        raise SystemExit("No trees there: run materialise.py, or quality_trees.py, first.")
    with data_folder(options.data_dir) as folder:
        work = measure(folder, repositories, options.semble, keeper(options.replies_dir))
        records = asyncio.run(work)
    if options.json:
        options.json.write_text(json.dumps(written(records), indent=1) + "\n", encoding="utf-8")
    print("\n".join(page(records)))


if __name__ == "__main__":
    main()
