"""What an evaluation found, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.evaluation.outcome import Comparison, Evaluation, Outcome, compare
from codebase_mcp.evaluation.scoring import BUDGETS, CUTS, Figures, ListEntry, Score

_OURS = "search_code"


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every figure, and every query with what it got."""
    return {
        "repository": str(evaluation.root),
        "project_id": evaluation.project_id,
        "files": evaluation.files,
        "limit": evaluation.limit,
        "queries": len(evaluation.outcomes),
        "is_rough": evaluation.is_rough,
        **_comparison(compare(evaluation.outcomes)),
        "groups": {
            name or "(none)": _comparison(compare(part)) for name, part in evaluation.groups.items()
        },
        "errors": list(evaluation.notes),
        "results": [_result(outcome) for outcome in evaluation.outcomes],
    }


def show(evaluation: Evaluation, worst: int, console: Terminal) -> None:
    """Print the figures, and the queries that did worst."""
    total = compare(evaluation.outcomes)
    head = f"  {total.ours.queries} queries on {evaluation.files:,} files"
    console.print(Text.assemble((evaluation.root.name, "bold"), head))
    console.print(_table(total))
    low, high = total.difference
    console.print(
        f"NDCG@10 over grep's: {_signed(total.ours.ndcg - total.grep.ndcg)} "
        f"({_signed(low)} to {_signed(high)})"
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


def _comparison(found: Comparison) -> dict[str, Any]:
    low, high = found.difference
    return {
        _OURS: _figures(found.ours),
        "grep": _figures(found.grep),
        "ndcg_difference": {
            "mean": round(found.ours.ndcg - found.grep.ndcg, 4),
            "low": round(low, 4),
            "high": round(high, 4),
        },
    }


def _figures(figures: Figures) -> dict[str, Any]:
    low, high = figures.interval
    return {
        "queries": figures.queries,
        **{f"recall_at_{cut}": round(figures.recall[cut], 4) for cut in CUTS},
        "mrr": round(figures.reciprocal, 4),
        "ndcg_at_10": round(figures.ndcg, 4),
        "ndcg_interval": [round(low, 4), round(high, 4)],
        "missed": round(figures.missed, 4),
        "shows_lines": None if figures.shows_lines is None else round(figures.shows_lines, 4),
        **{f"within_{budget}_tokens": round(figures.within[budget], 4) for budget in BUDGETS},
        "tokens_to_answer_median": round(figures.tokens_median),
        "tokens_to_answer_mean": round(figures.tokens_mean),
        "tokens_of_list_mean": round(figures.tokens_listed),
    }


def _result(outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    return {
        "query": question.text,
        "targets": [asdict(target) for target in question.targets],
        "group": question.group,
        "note": question.note,
        _OURS: _side(outcome.ours, outcome.listed),
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
    return f"{first.path}:{first.first}-{first.last}{rest}"


def _table(found: Comparison) -> Table:
    table = Table(Column(""), *(Column(n, justify="right") for n in (_OURS, "grep")), box=None)
    both = (found.ours, found.grep)
    for cut in CUTS:
        table.add_row(f"recall@{cut}", *(f"{one.recall[cut]:.2f}" for one in both))
    table.add_row("MRR", *(f"{one.reciprocal:.2f}" for one in both))
    table.add_row("NDCG@10, 95 % interval", *(_with_interval(one) for one in both))
    table.add_row("no target found", *(f"{one.missed:.0%}" for one in both))
    if any(one.shows_lines is not None for one in both):
        table.add_row("of files found, lines shown", *(_share(one.shows_lines) for one in both))
    for budget in BUDGETS:
        shares = (f"{one.within[budget]:.0%}" for one in both)
        table.add_row(f"answered within {budget:,} tokens", *shares)
    table.add_row("tokens to the answer, median", *(f"{one.tokens_median:,.0f}" for one in both))
    table.add_row("tokens to the answer, mean", *(f"{one.tokens_mean:,.0f}" for one in both))
    table.add_row("tokens of the whole list, mean", *(f"{one.tokens_listed:,.0f}" for one in both))
    return table


def _groups(evaluation: Evaluation) -> Table:
    names = ("queries", "NDCG@10", "grep", "tokens, median", "grep ")
    table = Table(Column("group"), *(Column(n, justify="right") for n in names), box=None)
    for name, part in evaluation.groups.items():
        found = compare(part)
        table.add_row(
            Text(name or "(none)"),
            str(len(part)),
            f"{found.ours.ndcg:.2f}",
            f"{found.grep.ndcg:.2f}",
            f"{found.ours.tokens_median:,.0f}",
            f"{found.grep.tokens_median:,.0f}",
        )
    return table


def _notes(evaluation: Evaluation) -> list[str]:
    notes = []
    if evaluation.is_rough:
        notes.append("Fewer than 30 queries: the figures are rough, as the interval shows.")
    if any(one.question.group == "docstrings" for one in evaluation.outcomes):
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
    wanted = ", ".join(map(str, question.targets))
    _dimly(console, f"     wanted {wanted} ({rank})")
    first = _place(outcome.listed[0]) if outcome.listed else "nothing"
    grep = f"grep's rank {outcome.grep.rank}" if outcome.grep.rank else "grep missed it too"
    _dimly(console, f"     first  {first} ({grep})")


def _dimly(console: Terminal, line: str) -> None:
    # A path that is cut in two could not be copied.
    console.print(line, style="dim", soft_wrap=True)


def _with_interval(figures: Figures) -> str:
    low, high = figures.interval
    return f"{figures.ndcg:.2f} ({low:.2f} to {high:.2f})"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _signed(value: float) -> str:
    return f"{value:+.2f}"
