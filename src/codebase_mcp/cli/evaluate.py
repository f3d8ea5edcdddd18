"""How good is search on this repository? Asks its queries, and grep the same, and reports."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.app.app import App, IndexReport
from codebase_mcp.app.evaluation.grep import Corpus, grep
from codebase_mcp.app.evaluation.mining import mine
from codebase_mcp.app.evaluation.questions import Question, as_lines, check_targets, read_questions
from codebase_mcp.app.evaluation.scoring import (
    BUDGETS,
    CUTS,
    Evaluation,
    ListEntry,
    Outcome,
    Score,
    compare,
    listed_results,
    score,
)
from codebase_mcp.cli.data import appearing, opened
from codebase_mcp.cli.output import print_json, tell
from codebase_mcp.cli.shell import Shell, open_shell, progress_bar
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at
from codebase_mcp.source.root import resolve_root


async def evaluate(options: argparse.Namespace, settings: Settings) -> int:
    """Measure and show; the exit status does not depend on the answers."""
    _check(options)
    root = resolve_root(str(Path(options.path).expanduser().absolute()))
    selection = repository_at(settings, root).selection
    corpus = await asyncio.to_thread(Corpus.of, root, selection)
    questions = await asyncio.to_thread(_questions, options, corpus)
    if options.save:
        return _save(options, questions)
    async with open_shell(settings) as shell:
        evaluation = await _evaluated(
            shell, corpus, questions, options.project, options.limit, hidden=options.json
        )
    if options.json:
        print_json(as_json(evaluation))
    else:
        show(evaluation, options.worst, Terminal())
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not fit together."""
    if (options.file is None) == (options.mine is None):
        both = "FILE and --mine contradict each other" if options.file else "Name a FILE or --mine"
        raise InvalidInput.of("file", options.file, both, rule="a FILE or --mine")
    if options.save and options.mine is None:
        message = "--save writes mined queries and needs --mine"
        raise InvalidInput.of("save", options.save, message, rule="with --mine")
    if options.save and Path(options.save).exists():
        message = f"{options.save} already exists and may have been edited"
        hint = "Name another file, or delete this one."
        raise InvalidInput.of("save", options.save, message, rule="a new file", hint=hint)


def _questions(options: argparse.Namespace, corpus: Corpus) -> list[Question]:
    """The mined queries, or those of the file, whose targets all exist."""
    if options.mine:
        return mine(corpus, options.mine, options.count, options.seed)
    with opened(options.file) as file:
        content = file.read()
    name = "standard input" if options.file == "-" else options.file
    questions = read_questions(name, content)

    @cache
    def lines_in(path: str) -> int | None:
        file = corpus.read(path)
        return None if file is None else len(file.lines)

    check_targets(name, questions, lines_in)
    return questions


def _save(options: argparse.Namespace, questions: Sequence[Question]) -> int:
    with appearing(options.save) as partial:
        partial.write_text(as_lines(questions), encoding="utf-8")
    text = f"{len(questions)} queries in {options.save}\n"
    text += f"Read and edit them, then: codebase-mcp eval {options.save}"
    return tell(options, {"file": options.save, "queries": len(questions)}, text)


async def _evaluated(
    shell: Shell,
    corpus: Corpus,
    questions: Sequence[Question],
    project_id: str | None,
    limit: int,
    *,
    hidden: bool,
) -> Evaluation:
    app = await shell.app()
    with progress_bar(hidden=hidden) as progress:
        report = await app.index(
            corpus.root, project_id, progress=progress, identity=shell.identity
        )
    if report.run.status == "failed":
        raise IndexingFailed("; ".join(report.run.errors[-1:]) or "The index run failed")
    indexed = await _indexed(app, corpus, report)
    with progress_bar(hidden=hidden) as progress:
        answers = await _ask(shell, questions, report, limit, progress)
    texts = [question.text for question in questions]
    matches = await asyncio.to_thread(grep, texts, indexed.texts(), indexed.read, limit)
    return Evaluation(
        root=corpus.root,
        project_id=report.project.project_id,
        files=len(indexed.files),
        limit=limit,
        outcomes=[
            _outcome(question, listed, grepped, indexed)
            for question, listed, grepped in zip(questions, answers, matches, strict=True)
        ],
        notes=tuple(report.run.errors) if report.run.status != "success" else (),
    )


async def _indexed(app: App, corpus: Corpus, report: IndexReport) -> Corpus:
    """The files as the index holds them, for grep to look through."""
    paths = await app.trees.stored_paths(report.project, report.run.repository_id)
    now = await asyncio.to_thread(Corpus.of, corpus.root, report.repository.selection)
    return now.only(paths)


async def _ask(
    shell: Shell,
    questions: Sequence[Question],
    report: IndexReport,
    limit: int,
    progress: Callable[[RunProgress], None],
) -> list[list[ListEntry]]:
    """The results of `search_code` for each query, as an agent gets them."""
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


_SIDES = ("search_code", "grep")


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every figure, and every query with its results."""
    return {
        "repository": str(evaluation.root),
        "project_id": evaluation.project_id,
        "files": evaluation.files,
        "limit": evaluation.limit,
        "queries": len(evaluation.outcomes),
        "is_rough": evaluation.is_rough,
        **compare(evaluation.outcomes),
        "groups": {name or "(none)": compare(part) for name, part in evaluation.groups.items()},
        "errors": list(evaluation.notes),
        "results": [_result(outcome) for outcome in evaluation.outcomes],
    }


def show(evaluation: Evaluation, worst: int, console: Terminal) -> None:
    """Print the figures, and the queries that did worst."""
    total = compare(evaluation.outcomes)
    head = f"  {len(evaluation.outcomes)} queries on {evaluation.files:,} files"
    console.print(Text.assemble((evaluation.root.name, "bold"), head))
    console.print(_table(total))
    console.print(
        "NDCG@10 over grep's: {mean:+.2f} ({low:+.2f} to {high:+.2f})".format(
            **total["ndcg_difference"]
        )
    )
    if evaluation.groups:
        console.print()
        console.print(_groups(evaluation))
    for note in _notes(evaluation):
        console.print(note, style="yellow")
    lost = evaluation.worst(worst)
    if lost:
        console.print()
        console.print(f"The {len(lost)} worst (--worst N):" if len(lost) > 1 else "The worst:")
    for outcome in lost:
        _show_lost(outcome, evaluation.limit, console)


def _result(outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    return {
        "query": question.text,
        "targets": [asdict(target) for target in question.targets],
        "group": question.group,
        "note": question.note,
        "search_code": _side(outcome.ours, outcome.listed),
        "grep": _side(outcome.grep, outcome.grepped),
    }


def _side(score: Score, listed: Sequence[ListEntry]) -> dict[str, Any]:
    return {
        "rank": score.rank,
        "ndcg_at_10": round(score.ndcg, 4),
        "shows_lines": score.shows_lines,
        "tokens_to_answer": round(score.tokens),
        "found": [_place(shown) for shown in listed],
    }


def _place(shown: ListEntry) -> str:
    first, *more = shown.places
    rest = f" and {len(more)} more" if more else ""
    return f"{first.path}:{'-'.join(map(str, first.span or ()))}{rest}"


def _table(total: Mapping[str, Any]) -> Table:
    table = Table(Column(""), *(Column(n, justify="right") for n in _SIDES), box=None)
    rows = [
        *((f"recall@{cut}", f"recall_at_{cut}", "{:.2f}") for cut in CUTS),
        ("MRR", "mrr", "{:.2f}"),
        ("NDCG@10, 95 % interval", "ndcg_at_10", "{:.2f}"),
        ("no target found", "missed", "{:.0%}"),
        ("of files found, lines shown", "shows_lines", "{:.0%}"),
        *(
            (f"answered within {budget:,} tokens", f"within_{budget}_tokens", "{:.0%}")
            for budget in BUDGETS
        ),
        ("tokens to the answer, median", "tokens_to_answer_median", "{:,}"),
        ("tokens to the answer, mean", "tokens_to_answer_mean", "{:,}"),
        ("tokens of the whole list, mean", "tokens_of_list_mean", "{:,}"),
    ]
    for title, name, form in rows:
        values = [total[side][name] for side in _SIDES]
        cells = ["" if value is None else form.format(value) for value in values]
        if name == "ndcg_at_10":
            ends = [total[side]["ndcg_interval"] for side in _SIDES]
            cells = [
                f"{cell} ({low:.2f} to {high:.2f})"
                for cell, (low, high) in zip(cells, ends, strict=True)
            ]
        if any(cells):
            table.add_row(title, *cells)
    return table


def _groups(evaluation: Evaluation) -> Table:
    names = ("queries", "NDCG@10", "grep", "tokens, median", "grep ")
    table = Table(Column("group"), *(Column(n, justify="right") for n in names), box=None)
    for name, outcomes in evaluation.groups.items():
        figures = compare(outcomes)
        table.add_row(
            Text(name or "(none)"),
            str(len(outcomes)),
            *(f"{figures[side]['ndcg_at_10']:.2f}" for side in _SIDES),
            *(f"{figures[side]['tokens_to_answer_median']:,}" for side in _SIDES),
        )
    return table


def _notes(evaluation: Evaluation) -> list[str]:
    notes = []
    if evaluation.is_rough:
        notes.append("Fewer than 30 queries: the figures are rough, as the interval shows.")
    if any(outcome.question.group == "docstrings" for outcome in evaluation.outcomes):
        notes.append(
            "Queries of docstrings stand word for word in the index: read them as an upper bound."
        )
    if evaluation.notes:
        notes.append(f"{len(evaluation.notes)} files could not be indexed: {evaluation.notes[0]}")
    return notes


def _show_lost(outcome: Outcome, limit: int, console: Terminal) -> None:
    question, score = outcome.question, outcome.ours
    rank = f"rank {score.rank}" if score.rank else f"not among {limit}"
    console.print(Text.assemble((f"{score.ndcg:.2f}", "dim"), " ", (question.text, "bold")))
    targets = ", ".join(map(str, question.targets))
    # A path that is cut in two could not be copied, so these lines are not wrapped.
    console.print(f"     wanted {targets} ({rank})", style="dim", soft_wrap=True)
    first = _place(outcome.listed[0]) if outcome.listed else "nothing"
    grep = f"grep's rank {outcome.grep.rank}" if outcome.grep.rank else "grep missed it too"
    console.print(f"     first  {first} ({grep})", style="dim", soft_wrap=True)
