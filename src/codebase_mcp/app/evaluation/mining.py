"""Which queries can be mined from a repository? A random sample of its commits and comments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from codebase_mcp.app.evaluation import commits, docstrings
from codebase_mcp.app.evaluation.corpus import Corpus
from codebase_mcp.app.evaluation.questions import Question
from codebase_mcp.errors import InvalidInput

Source = Literal["commits", "docstrings", "all"]


def mine(corpus: Corpus, source: Source, count: int, seed: int) -> list[Question]:
    """At most ``count`` queries from a tree; with ``all`` half of them of each kind, if possible.

    The same tree, count and seed give the same queries.

    Raises:
        InvalidInput: no query was found.
        IndexingFailed: git cannot read the history.
    """
    of_commits: list[Question] = []
    of_files: list[Question] = []
    commits_read = files_read = 0
    if source != "docstrings":
        kinds = {path: file.kind for path, file in corpus.files.items()}
        of_commits, commits_read = commits.questions_in(corpus.root, kinds)
    if source != "commits":
        of_files, files_read = docstrings.questions_in(corpus, count, seed)
    sample = _halves(of_commits, of_files, count, random.Random(seed))
    if not sample:
        raise InvalidInput(
            f"No queries can be mined from {corpus.root}: none of {commits_read} commits and "
            f"{files_read} files of code has a usable subject or comment",
            hint="Write some yourself, one a line: query, TAB, path. Then: codebase-mcp eval FILE",
        )
    return [replace(question, origin=f"query {n}") for n, question in enumerate(sample, 1)]


def _halves(
    first: Sequence[Question], second: Sequence[Question], count: int, rng: random.Random
) -> list[Question]:
    """A sample of both lists without duplicate texts; a list that is too short gives less."""
    half = count // 2 if second else count
    sample = rng.sample(first, min(len(first), max(half, count - len(second))))
    sample += rng.sample(second, min(len(second), count - len(sample)))
    return list({question.text: question for question in sample}.values())
