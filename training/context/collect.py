"""Gathers the evidence for tasks, on which the mixture is fitted.

    python training/context/collect.py --samples build/context/samples.jsonl \
        --repositories build/context/clones --scratch build/context/scratch \
        --out build/context/evidence

Each repository is laid out at the state before each task, with no later history, and indexed; the
product then gathers the evidence for the task. ``--guess`` is what ``fit.py --guess`` wrote of an
earlier collection: trees by fold, so that likely files are chosen by trees that have not seen their
repository.
``OUT/OWNER+NAME.npz`` has a row for each candidate file: ``evidence`` (the columns of
``context/features.py``), ``changed`` (whether the commit changed it), ``gold`` (whether it answers
the task) and ``task``, the number of the task, for which ``missed`` counts the answers that are no
candidates. ``names`` are the names of the tasks; tasks of
other repositories, to which nothing here answers, are ``foreign``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from context_samples import Repository, git, read_list, repositories_in
    from context_trees import StateClone
finally:
    sys.path.pop(0)

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.evidence import Gatherer, candidates
from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.context.mixture import Trees, mixture
from codebase_mcp.settings.loading import Settings

FOREIGN = "foreign"
FOREIGN_TASKS = 6
FOLDS = 5
HISTORY = 1_000  # as in benchmarks/context.py


async def collect(
    app: App,
    gatherer: Gatherer,
    clone: StateClone,
    samples: Sequence[Mapping[str, Any]],
    foreign: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The evidence for the tasks of a repository, and for some of others in its last state."""
    repository = clone.repository
    project = repository.name.partition("/")[2].lower().replace(".", "-").replace("_", "-")
    parts = defaultdict[str, list[Any]](list)
    laid_out = None
    for sample in [*samples, *foreign]:
        is_own = sample["repo"] == repository.name
        if is_own and sample["state"] != laid_out:
            if not clone.move_to(sample["state"]):
                continue
            laid_out = sample["state"]
            await app.index(clone.root, project, history_depth=HISTORY)
            scope = await app.scopes.resolve(project, ANONYMOUS)
        text = sample["text"][:MAX_TASK_CHARS]
        evidence = await gatherer.gather(scope, text, sample["given"])
        features = evidence.features
        rows = candidates(features, evidence.given)
        paths = [features.files[row].path for row in rows]
        changed, gold = set[str](), set[str]()
        if is_own:
            changed, gold = changed_by(repository, sample["commit"]), set(sample["gold"])
        parts["evidence"].append(features.matrix(rows))
        parts["changed"].append(np.array([path in changed for path in paths], bool))
        parts["gold"].append(np.array([path in gold for path in paths], bool))
        parts["task"].append(np.full(len(rows), len(parts["names"]), np.int32))
        parts["missed"].append(len(gold.difference(paths)))
        parts["names"].append(sample["task"] if is_own else FOREIGN)
    await app.drop_project(project)
    joined = {name: np.concatenate(parts[name]) for name in ("evidence", "changed", "gold", "task")}
    return joined | {"missed": np.array(parts["missed"]), "names": np.array(parts["names"])}


def fold_of(name: str) -> int:
    """The fold of cross-validation that a repository (``owner/name``) is in."""
    return int(sha256(name.lower().encode()).hexdigest(), 16) // 4 % FOLDS


def changed_by(repository: Repository, commit: str) -> set[str]:
    """The files that a commit changed."""
    paths = git(
        repository.git_dir, "diff", "--no-renames", "--name-only", f"{commit}^", commit
    )  # fmt: skip
    return set(paths.splitlines())


async def main() -> None:
    """Gather the evidence of all repositories that have no file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, help="a folder of git directories")
    parser.add_argument("--list", type=Path, help="name, language, git directory (tabs)")
    parser.add_argument("--guess", type=Path, help="trees by fold, of fit.py")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    by_repository = defaultdict[str, list[dict[str, Any]]](list)
    for line in options.samples.read_text("utf-8").splitlines():
        sample = json.loads(line)
        by_repository[sample["repo"]].append(sample)
    chosen = read_list(options.list) if options.list else repositories_in(options.repositories)
    listed = {repository.name: repository for repository in chosen}
    folds = json.loads(options.guess.read_text("utf-8")) if options.guess else []
    guesses = [Trees.from_json(trees) for trees in folds] or [mixture().first] * FOLDS
    issues = {
        name: [s for s in samples if s["task"] == "issue2code"]
        for name, samples in by_repository.items()
    }
    randomness = random.Random(0)
    settings = Settings.load({"CODEBASE_MCP_DATA_DIR": str(options.scratch / "data")})
    async with await App.open(settings) as app:
        for name, samples in by_repository.items():
            out = options.out / f"{name.replace('/', '+')}.npz"
            if out.exists():
                continue
            others = [sample for other, made in issues.items() for sample in made if other != name]
            foreign = randomness.sample(others, min(FOREIGN_TASKS, len(others)))
            started = time.monotonic()
            clone = StateClone(
                listed[name], options.scratch.resolve() / "trees" / name.replace("/", "+")
            )
            gatherer = replace(app.context.evidence, guess=guesses[fold_of(name)])
            collected = await collect(app, gatherer, clone, samples, foreign)
            np.savez_compressed(out, **collected)
            print(
                f"{name}: {len(samples)} tasks, {len(collected['task'])} candidates,"
                f" {int(collected['missed'].sum())} answers missed,"
                f" {time.monotonic() - started:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main())
