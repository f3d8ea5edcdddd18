"""Which queries does a repository hold itself? A random sample of its commits' and comments'."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codebase_mcp.errors import InvalidInput
from codebase_mcp.evaluation import commits, docstrings
from codebase_mcp.evaluation.corpus import Corpus
from codebase_mcp.evaluation.questions import Question

Source = Literal["commits", "docstrings", "all"]
SOURCES: tuple[Source, ...] = ("commits", "docstrings", "all")


@dataclass(frozen=True, slots=True)
class Mined:
    """Queries, and how much was looked through for them."""

    questions: list[Question]
    commits_read: int
    files_read: int


def mine(corpus: Corpus, source: Source, count: int, seed: int) -> Mined:
    """At most ``count`` queries of a tree; of ``all`` half of each kind, as far as there are.

    The same tree, count and seed give the same queries.

    Raises:
        InvalidInput: there are none.
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
            f"No queries can be mined in {corpus.root}: of {commits_read} commits and "
            f"{files_read} files of code none says what to look for",
            hint="Write some yourself, one a line: query, TAB, path. Then: codebase-mcp eval FILE",
        )
    numbered = [replace(one, place=f"query {n}") for n, one in enumerate(sample, 1)]
    return Mined(numbered, commits_read, files_read)


def _halves(
    one: Sequence[Question], other: Sequence[Question], count: int, chance: random.Random
) -> list[Question]:
    """A sample of both, each text once; where one has too few the other has more."""
    half = count // 2 if other else count
    of_one = chance.sample(one, min(len(one), max(half, count - len(other))))
    of_other = chance.sample(other, min(len(other), count - len(of_one)))
    return list({question.text: question for question in [*of_one, *of_other]}.values())
