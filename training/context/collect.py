"""Gathers the evidence for tasks, on which the mixture is fitted.

    python training/context/collect.py --samples build/context/samples.jsonl \
        --repositories build/context/clones --scratch build/context/scratch \
        --out build/context/evidence

Each repository is laid out at the state before its tasks, with no later history, and indexed; the
product then gathers the evidence for each task, with the history before its commit.
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
from codebase_mcp.app.evidence import candidates
from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.settings.loading import Settings

FOREIGN = "foreign"
FOREIGN_TASKS = 6


async def collect(
    app: App,
    repository: Repository,
    samples: Sequence[Mapping[str, Any]],
    foreign: Sequence[Mapping[str, Any]],
    tree: Path,
) -> dict[str, Any] | None:
    """The evidence for the tasks of a repository, which share a state, and for some of others."""
    state, clone = samples[0]["state"], StateClone(repository, tree)
    if not clone.move_to(state):
        print(f"{repository.name}: {state} cannot be laid out", file=sys.stderr)
        return None
    project = repository.name.partition("/")[2].lower().replace(".", "-").replace("_", "-")
    await app.index(tree, project)
    scope = await app.scopes.resolve(project, ANONYMOUS)
    parts = defaultdict[str, list[Any]](list)
    for number, sample in enumerate([*samples, *foreign]):
        is_own = sample["repo"] == repository.name
        # The index is that of the state, but earlier commits are those of the task's own time.
        clone.git("update-ref", "--no-deref", "HEAD", f"{sample['commit']}^" if is_own else state)
        text = sample["text"][:MAX_TASK_CHARS]
        evidence = await app.context.evidence.gather(scope, text, sample["given"])
        features, given = evidence.features, set(evidence.given)
        rows = [row for row in candidates(features) if row not in given]
        paths = [features.files[row].path for row in rows]
        changed, gold = set[str](), set[str]()
        if is_own:
            changed, gold = changed_by(repository, sample["commit"]), set(sample["gold"])
        parts["evidence"].append(features.matrix(rows))
        parts["changed"].append(np.array([path in changed for path in paths]))
        parts["gold"].append(np.array([path in gold for path in paths]))
        parts["task"].append(np.full(len(rows), number, np.int32))
        parts["missed"].append(len(gold.difference(paths)))
        parts["names"].append(sample["task"] if is_own else FOREIGN)
    await app.drop_project(project)
    joined = {name: np.concatenate(parts[name]) for name in ("evidence", "changed", "gold", "task")}
    return joined | {"missed": np.array(parts["missed"]), "names": np.array(parts["names"])}


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
            tree = options.scratch / "trees" / name.replace("/", "+")
            collected = await collect(app, listed[name], samples, foreign, tree)
            if collected is not None:
                np.savez_compressed(out, **collected)
                print(
                    f"{name}: {len(samples)} tasks, {len(collected['task'])} candidates,"
                    f" {int(collected['missed'].sum())} answers missed,"
                    f" {time.monotonic() - started:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    asyncio.run(main())
