"""What do our index and search answer? The real path: PostgreSQL, indexing, search.

Each tree is a project of its own, so one tree's files never answer for another. With a data
directory that is kept, a tree that did not change is not indexed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapter import project_of
from codebase_mcp import App
from codebase_mcp.search.ranking import Ranking
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from quality_queries import EvalQuery, Repository
from quality_scoring import DEPTH, ResultLines, Target, name_held, ranks_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a question.

    ``candidate_ranks`` is the rank of each target's file among all candidates. ``relevant`` counts
    the relevant ones of the first ten candidates, ``lost`` those of them that were not shown.
    ``target_lines`` is the length of the shortest right file.
    """

    repository: str
    language: str
    asked: EvalQuery
    hits: tuple[ResultLines, ...]
    candidate_ranks: tuple[int | None, ...] = ()
    relevant: int = 0
    lost: int = 0
    target_lines: int = 0

    @property
    def ranks(self) -> list[int | None]:
        """The rank of the first hit that meets each target."""
        return ranks_of(self.hits, self.asked.targets)

    @property
    def held(self) -> str:
        """How much of the target's file name the question holds."""
        return name_held(self.asked.text, [target.path for target in self.asked.targets])


async def bring_up_to_date(app: App, repository: Repository) -> int:
    """Index a tree with the current model and program; the number of indexed files.

    An index of another version of either is rebuilt, since its figures would mislead.
    """
    project = project_of(repository.root)
    report = await app.index(repository.root, project)
    if report.run.notice is not None:
        report = await app.index(repository.root, project, force_reindex=True)
    if report.run.status == "failed":
        raise SystemExit(f"{repository.name}: {'; '.join(report.run.errors)}")
    return report.run.files_indexed


async def ask(
    app: App,
    repository: Repository,
    asked: EvalQuery,
    dump: Callable[[Repository, EvalQuery, Ranking], None] | None,
) -> Outcome:
    """Search as a client does; where there are targets, examine the candidates too."""
    project = project_of(repository.root)
    report = await app.search(asked.text, project, Request(limit=DEPTH, context_lines=0))
    hits = tuple(
        ResultLines(hit.file_path, hit.start_line, hit.end_line, hit.similarity_score)
        for hit in report.answer.hits
    )
    if not asked.targets and dump is None:
        return Outcome(repository.name, repository.language, asked, hits)
    ranking = await app.rank(asked.text, project, FileFilters())
    if dump is not None:
        dump(repository, asked, ranking)
    shown = {hit.file_path for hit in report.answer.hits}
    shown |= {other.file_path for hit in report.answer.hits for other in hit.also_at}
    paths = [file.candidate.path for file in ranking.files]
    relevant = [path for path in paths[:DEPTH] if is_relevant(path, asked.targets)]
    return Outcome(
        repository.name,
        repository.language,
        asked,
        hits,
        tuple(_first_of(paths, target) for target in asked.targets),
        len(relevant),
        sum(path not in shown for path in relevant),
        min((_line_count(repository.root / path) for path in _files(asked.targets)), default=0),
    )


def is_relevant(path: str, targets: Sequence[Target]) -> bool:
    """Whether a file is in a target."""
    return any(path in target.files for target in targets)


def _files(targets: Sequence[Target]) -> set[str]:
    return set().union(*(target.files for target in targets))


def _line_count(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def _first_of(paths: Sequence[str], target: Target) -> int | None:
    return next((rank for rank, path in enumerate(paths, 1) if path in target.files), None)
