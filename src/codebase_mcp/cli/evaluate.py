"""How good is search on this repository? Asks its queries, and grep the same, and tells."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.app.app import App, IndexReport
from codebase_mcp.cli.asking import with_check_limit
from codebase_mcp.cli.calling import Shell, open_shell
from codebase_mcp.cli.evaluation_report import as_json, show
from codebase_mcp.cli.files import appearing, opened
from codebase_mcp.cli.indexing import progress_bar
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.evaluation.corpus import Corpus
from codebase_mcp.evaluation.grep import grep
from codebase_mcp.evaluation.mining import mine
from codebase_mcp.evaluation.outcome import Evaluation, Outcome, listed_results
from codebase_mcp.evaluation.questions import (
    Question,
    as_lines,
    check_targets,
    read_questions,
)
from codebase_mcp.evaluation.scoring import ListEntry, score
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at
from codebase_mcp.source.root import resolve_root
from codebase_mcp.tools.rules import check_project_id

_NUMBERS = {
    "count": (1, 10_000),
    "seed": (0, 2**31 - 1),
    "limit": (10, 50),  # all figures are of the first 10
    "worst": (0, 10_000),
}


@dataclass(frozen=True, slots=True)
class _Options:
    """The options, checked."""

    count: int
    seed: int
    limit: int
    worst: int
    project_id: str | None


async def evaluate(options: argparse.Namespace, settings: Settings) -> int:
    """Measure and show; the exit status does not depend on the answers."""
    wanted = _checked(options)
    root = resolve_root(str(Path(options.path).expanduser().absolute()))
    selection = repository_at(settings, root).selection
    corpus = await asyncio.to_thread(Corpus.of, root, selection)
    questions = await asyncio.to_thread(_questions, options, wanted, corpus)
    if options.save:
        return _save(options, questions)
    async with open_shell(with_check_limit(settings)) as shell:
        evaluation = await _evaluated(shell, corpus, questions, wanted, hidden=options.json)
    if options.json:
        print_json(as_json(evaluation))
    else:
        show(evaluation, wanted.worst, Terminal())
    return 0


def _checked(options: argparse.Namespace) -> _Options:
    if (options.file is None) == (options.mine is None):
        both = "FILE and --mine contradict each other" if options.file else "Name a FILE or --mine"
        raise InvalidInput.of("file", options.file, both, rule="a FILE or --mine")
    if options.save and options.mine is None:
        message = "--save writes mined queries and needs --mine"
        raise InvalidInput.of("save", options.save, message, rule="with --mine")
    if options.save and Path(options.save).exists():
        raise InvalidInput.of(
            "save",
            options.save,
            f"{options.save} already exists and may have been edited",
            rule="a new file",
            hint="Name another file, or delete this one.",
        )
    numbers = {
        name: number_of(name, getattr(options, name), *bounds) for name, bounds in _NUMBERS.items()
    }
    return _Options(**numbers, project_id=check_project_id(options.project))


def _questions(options: argparse.Namespace, wanted: _Options, corpus: Corpus) -> list[Question]:
    """The queries, all of whose targets are there."""
    if options.mine:
        return mine(corpus, options.mine, wanted.count, wanted.seed).questions
    with opened(options.file) as file:
        content = file.read()
    name = "standard input" if options.file == "-" else options.file
    questions = read_questions(name, content)
    counts: dict[str, int | None] = {}

    def lines_in(path: str) -> int | None:
        if path not in counts:
            found = corpus.read(path)
            counts[path] = None if found is None else len(found.lines)
        return counts[path]

    check_targets(name, questions, lines_in)
    return questions


def _save(options: argparse.Namespace, questions: Sequence[Question]) -> int:
    with appearing(options.save) as partial:
        partial.write_text(as_lines(questions), encoding="utf-8")
    if options.json:
        print_json({"file": options.save, "queries": len(questions)}, indent=None)
    else:
        say(f"{len(questions)} queries in {options.save}")
        say(f"Read and edit them, then: codebase-mcp eval {options.save}")
    return 0


async def _evaluated(
    shell: Shell, corpus: Corpus, questions: Sequence[Question], wanted: _Options, *, hidden: bool
) -> Evaluation:
    app = await shell.app()
    with progress_bar(hidden=hidden) as progress:
        report = await app.index(
            corpus.root, wanted.project_id, progress=progress, identity=shell.identity
        )
    if report.run.status == "failed":
        raise IndexingFailed("; ".join(report.run.errors[-1:]) or "The index run failed")
    indexed = await _indexed(app, corpus, report)
    with progress_bar(hidden=hidden) as progress:
        answers = await _ask(shell, questions, report, wanted.limit, progress)
    found = await asyncio.to_thread(_grep, questions, indexed, wanted.limit)
    return Evaluation(
        root=corpus.root,
        project_id=report.project.project_id,
        files=len(indexed.files),
        limit=wanted.limit,
        outcomes=[
            _outcome(question, listed, grepped, indexed)
            for question, listed, grepped in zip(questions, answers, found, strict=True)
        ],
        notes=tuple(report.run.errors) if report.run.status != "success" else (),
    )


async def _indexed(app: App, corpus: Corpus, report: IndexReport) -> Corpus:
    """The files as the index holds them, for grep to look through."""
    paths = await app.freshness.stored_paths(report.project, report.run.repository_id)
    now = await asyncio.to_thread(Corpus.of, corpus.root, report.repository.selection)
    return now.only(paths)


async def _ask(
    shell: Shell,
    questions: Sequence[Question],
    report: IndexReport,
    limit: int,
    progress: Callable[[RunProgress], None],
) -> list[list[ListEntry]]:
    """What an agent gets that asks each query, with all that stands in the reply."""
    arguments: Mapping[str, Any] = {
        "project_id": report.project.project_id or DEFAULT_ID,
        "repository_id": str(report.run.repository_id),
        "limit": limit,
    }
    answers = []
    for number, question in enumerate(questions):
        progress(RunProgress(number, len(questions), "Asking"))
        reply = await shell.call("search_code", {**arguments, "query": question.text})
        answers.append(listed_results(reply["results"], str(report.run.repository_id)))
    return answers


def _grep(questions: Sequence[Question], corpus: Corpus, limit: int) -> list[list[ListEntry]]:
    return grep([one.text for one in questions], corpus.texts(), corpus.read, limit)


def _outcome(
    question: Question, listed: Sequence[ListEntry], grepped: Sequence[ListEntry], corpus: Corpus
) -> Outcome:
    sizes = {
        target.path: len(file.text) if (file := corpus.read(target.path)) else 0
        for target in question.targets
    }
    return Outcome(
        question,
        ours=score(listed, question.targets, sizes),
        grep=score(grepped, question.targets, sizes),
        listed=listed,
        grepped=grepped,
    )
