"""How good are the answers? Records of questions in, figures and a page out. Pure.

A record is the answer to one question as the JSON file holds it, so a former run is read the same
way. Averages are over repositories, of each one's mean, as in the retrieval evaluation; those of
the everyday questions are over the questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from quality_forms import FORMS
from quality_queries import PHRASINGS
from quality_run import Outcome
from quality_scoring import (
    by_file,
    files_of,
    grouped,
    interval,
    mean_of_means,
    ndcg,
    ranks_of,
    reciprocal,
    shows_the_lines,
)

Record = Mapping[str, Any]
BANDS = ((0.9, 1.01), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7), (0.0, 0.6))
SURE = 0.9
# Nothing above this, and the answer says that the question may not belong here.
DOUBTFUL = 0.5
LENGTHS = (1, 100, 300, 1_000)
UNRELATED_PARTS = ("tune", "check", "plain", "tricky")
UNANSWERED = ("foreign", "unrelated")
RANKED_SETS = ("development", "unnamed", "forms")


def record_of(outcome: Outcome) -> dict[str, Any]:
    """One question and its answer, for the JSON file."""
    asked, targets = outcome.asked, outcome.asked.targets
    files = files_of(targets)
    ranks = ranks_of(by_file(outcome.hits), files)
    return {
        "set": asked.set,
        "form": asked.form,
        "repository": outcome.repository,
        "language": outcome.language,
        "category": asked.category,
        "split": asked.split,
        "held": outcome.held,
        "query": asked.text,
        "original": asked.original,
        "targets": [target.path for target in targets],
        "ranks": outcome.ranks,
        "candidate_ranks": outcome.candidate_ranks,
        "ndcg10": ndcg(outcome.ranks, len(targets)),
        "file_ndcg10": ndcg(ranks, len(files)),
        "reciprocal_rank": reciprocal(ranks),
        "first": min((rank for rank in ranks if rank), default=None),
        "shows_lines": shows_the_lines(outcome.hits, targets),
        "relevant": outcome.relevant,
        "lost": outcome.lost,
        "lines": outcome.target_lines,
        "hits": [
            [
                f"{hit.path}:{hit.first}-{hit.last}",
                hit.similarity,
                any(hit.path in target.files for target in targets),
            ]
            for hit in by_file(outcome.hits)
        ],
    }


def figures_of(records: Sequence[Record]) -> dict[str, Any]:
    """Every figure of a run, by set."""
    names = dict.fromkeys(r["set"] for r in records)
    of_set = {name: [r for r in records if r["set"] == name] for name in names}
    development = {(r["repository"], r["query"]): r for r in of_set.get("development", ())}
    made: dict[str, Callable[[Sequence[Record]], Any]] = {
        "development": _development,
        "unnamed": lambda some: _unnamed(some, development),
        "forms": lambda some: _forms(some, development),
        "everyday": _everyday,
        "phrased": _phrased,
        "foreign": _foreign,
        "unrelated": _unrelated,
    }
    figures: dict[str, Any] = {name: made[name](some) for name, some in of_set.items()}
    figures["lost to the floor"] = {
        name: _share_lost(some) for name, some in of_set.items() if name not in UNANSWERED
    }
    figures["doubtful"] = {
        name: fmean(map(_is_doubtful, some))
        for name, some in of_set.items()
        if name not in UNANSWERED
    }
    return figures


def page(figures: Mapping[str, Any]) -> list[str]:
    """The figures as lines of text."""
    shown: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
        "development": _development_lines,
        "unnamed": _unnamed_lines,
        "forms": _forms_lines,
        "everyday": _everyday_lines,
        "phrased": _phrased_lines,
        "foreign": _foreign_lines,
        "unrelated": _unrelated_lines,
    }
    lines = [
        line for name, show in shown.items() if name in figures for line in show(figures[name])
    ]
    lost = figures["lost to the floor"]
    if lost:
        lines += ["", "lost to the floor, of the relevant files of the first ten candidates:"]
        lines.append(
            "  " + "  ".join(f"{n} {x['share']:.1%} ({x['lost']})" for n, x in lost.items())
        )
        doubtful = "  ".join(f"{n} {share:.1%}" for n, share in figures["doubtful"].items())
        lines.append(f"questions without a hit at {DOUBTFUL}: {doubtful}")
    return lines


def comparison(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """The changes since a former run, for questions with the same targets in both."""
    known = {_key(record): record for record in before}
    pairs = [(known[key], record) for record in after if (key := _key(record)) in known]
    lines = [f"since the former run, {len(pairs)} questions in both:"]
    for name in RANKED_SETS:
        lines += _difference(f"{name} NDCG@10", [p for p in pairs if p[1]["set"] == name], "ndcg10")
        if name == "development":
            for category in sorted({p[1]["category"] for p in pairs if p[1]["set"] == name}):
                part = [p for p in pairs if (p[1]["set"], p[1]["category"]) == (name, category)]
                lines += _difference(f"  {category}", part, "ndcg10")
    for form in FORMS:
        lines += _difference(f"  {form}", [p for p in pairs if p[1]["form"] == form], "ndcg10")
    of_everyday = [p for p in pairs if p[1]["set"] == "everyday"]
    lines += _difference("everyday MRR@10", of_everyday, "reciprocal_rank")
    for split in ("tune", "check"):
        of_split = [pair for pair in of_everyday if pair[1]["split"] == split]
        lines += _difference(f"  {split}", of_split, "reciprocal_rank")
    for form in PHRASINGS:
        of_form = [p for p in pairs if (p[1]["set"], p[1]["form"]) == ("phrased", form)]
        lines += _difference(f"phrased ({form}) MRR@10", of_form, "reciprocal_rank")
    unrelated = [p for p in pairs if p[1]["set"] == "unrelated"]
    lines += _difference("unrelated with any result", unrelated, _found)
    return lines + _moved([p for p in pairs if p[1]["set"] in {"development", "everyday"}])


def worst(records: Sequence[Record], count: int) -> list[str]:
    """The questions of each set with the lowest figures."""
    lines = []
    for name, value in (*((s, "ndcg10") for s in RANKED_SETS), ("everyday", "reciprocal_rank")):
        of_set = sorted((r for r in records if r["set"] == name), key=lambda r: float(r[value]))
        for record in of_set[:count]:
            first = record["hits"][0][0] if record["hits"] else "nothing"
            lines.append(
                f"  {record[value]:.2f} {name} {record['repository']}: {record['query']}\n"
                f"       wanted {', '.join(record['targets'])} (candidates "
                f"{record['candidate_ranks']}), first {first}"
            )
    return lines


def _score(records: Iterable[Record], value: str = "ndcg10") -> float:
    return mean_of_means(grouped((r["repository"], r[value]) for r in records).values())


def _by(records: Sequence[Record], key: str) -> dict[str, dict[str, float]]:
    values = sorted({record[key] for record in records})
    parts = {value: [r for r in records if r[key] == value] for value in values}
    return {value: {"ndcg10": _score(p), "queries": len(p)} for value, p in parts.items()}


def _development(records: Sequence[Record]) -> dict[str, Any]:
    return {
        "ndcg10": _score(records),
        "file_ndcg10": _score(records, "file_ndcg10"),
        "queries": len(records),
        "hit1": fmean(1 in r["ranks"] for r in records),
        "hit10": fmean(any(r["ranks"]) for r in records),
        "category": _by(records, "category"),
        "held": _by(records, "held"),
        "language": _by(records, "language"),
        "repository": _by(records, "repository"),
        "confidence": _confidence(records),
    }


def _confidence(records: Sequence[Record]) -> dict[str, Any]:
    """How well the scores of hits hold, by file."""
    hits = [(score, is_relevant) for r in records for _, score, is_relevant in r["hits"]]
    bands = {}
    for low, high in BANDS:
        found = [is_relevant for score, is_relevant in hits if low <= score < high]
        bands[f"{low:.1f}"] = {
            "files": len(found),
            "relevant": fmean(found) if found else None,
        }
    sure = fmean(any(score >= SURE for _, score, _ in r["hits"]) for r in records)
    return {"bands": bands, "queries with a hit at 0.9": sure}


def _unnamed(records: Sequence[Record], originals: Mapping[Any, Record]) -> dict[str, Any]:
    altered = [r for r in records if r["query"] != r["original"]]
    return {
        "ndcg10": _score(records),
        "queries": len(records),
        "category": _by(records, "category"),
        "altered": {
            "ndcg10": _score(altered),
            "queries": len(altered),
            "unaltered": _unaltered(altered, originals),
        },
        "still named": [r["query"] for r in records if r["held"] != "none"],
    }


def _unaltered(records: Sequence[Record], originals: Mapping[Any, Record]) -> float | None:
    """The figure of the same questions unaltered; None where these were not asked."""
    keys = [(r["repository"], r["original"]) for r in records]
    return _score(originals[key] for key in keys) if all(k in originals for k in keys) else None


def _forms(records: Sequence[Record], originals: Mapping[Any, Record]) -> dict[str, Any]:
    figures = {}
    for form in FORMS:
        of_form = [r for r in records if r["form"] == form]
        figures[form] = {
            "ndcg10": _score(of_form),
            "unaltered": _unaltered(of_form, originals),
            "queries": len(of_form),
        }
    return figures


def _everyday(records: Sequence[Record]) -> dict[str, Any]:
    parts = {"all": list(records)}
    parts |= {split: [r for r in records if r["split"] == split] for split in ("tune", "check")}
    repositories = sorted({r["repository"] for r in records})
    return {
        **{name: _file_figures(part) for name, part in parts.items() if part},
        "repository": {
            n: _file_figures([r for r in records if r["repository"] == n]) for n in repositories
        },
        "length": {
            f"from {low} lines": _file_figures(part)
            for low, high in zip(LENGTHS, (*LENGTHS[1:], math.inf), strict=True)
            if (part := [r for r in records if low <= r["lines"] < high])
        },
        "confidence": _confidence([{**record, "hits": record["hits"][:1]} for record in records]),
    }


def _phrased(records: Sequence[Record]) -> dict[str, Any]:
    """The figures of each phrasing, as of the everyday questions."""
    return {form: _everyday([r for r in records if r["form"] == form]) for form in PHRASINGS}


def _file_figures(records: Sequence[Record]) -> dict[str, float]:
    """Figures by file; ``line_hit`` is the share of right first files with the right lines."""
    shown = [r["shows_lines"] for r in records if r["shows_lines"] is not None]
    return {
        "queries": len(records),
        "mrr10": fmean(r["reciprocal_rank"] for r in records),
        "ndcg10": fmean(r["file_ndcg10"] for r in records),
        "hit1": fmean(r["first"] == 1 for r in records),
        "hit5": fmean(r["first"] is not None and r["first"] <= 5 for r in records),
        "line_hit": fmean(shown) if shown else float("nan"),
        "in_candidates": fmean(any(r["candidate_ranks"]) for r in records),
    }


def _foreign(records: Sequence[Record]) -> dict[str, Any]:
    """How many questions of other repositories are noticed."""
    return {
        "asked": len(records),
        "nothing": fmean(not record["hits"] for record in records),
        "doubtful": fmean(map(_is_doubtful, records)),
    }


def _is_doubtful(record: Record) -> bool:
    return all(score < DOUBTFUL for _, score, _ in record["hits"])


def _unrelated(records: Sequence[Record]) -> dict[str, Any]:
    by_query = grouped((r["query"], _found(r)) for r in records)
    by_repository = grouped((r["repository"], _found(r)) for r in records)
    return {
        "asked": len(records),
        "queries": len(by_query),
        "any": fmean(map(_found, records)),
        **{
            value: fmean(_found(r) for r in records if r[key] == value)
            for key in ("split", "category")
            for value in sorted({r[key] for r in records})
        },
        "repository": {name: fmean(found) for name, found in by_repository.items()},
        "most": dict(
            sorted(((q, int(sum(f))) for q, f in by_query.items() if sum(f)), key=lambda x: -x[1])
        ),
    }


def _found(record: Record) -> float:
    return float(bool(record["hits"]))


def _share_lost(records: Sequence[Record]) -> dict[str, float]:
    lost, relevant = (sum(r[key] for r in records) for key in ("lost", "relevant"))
    return {"share": lost / relevant if relevant else float("nan"), "lost": lost}


def _development_lines(figures: Mapping[str, Any]) -> list[str]:
    confidence = figures["confidence"]
    return [
        f"development  NDCG@10 {figures['ndcg10']:.4f} over {figures['queries']} queries"
        f" (by file {figures['file_ndcg10']:.4f}), hit@1 {figures['hit1']:.3f},"
        f" hit@10 {figures['hit10']:.3f}",
        f"  category   {_parts(figures['category'])}",
        f"  name held  {_parts(figures['held'])}",
        f"  language   {_parts(figures['language'], counts=False)}",
        f"  confidence, share relevant: {_bands(confidence)};"
        f" {confidence['queries with a hit at 0.9']:.2f} of the queries have a hit at 0.9",
    ]


def _bands(confidence: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{low}+ {band['relevant']:.2f} of {band['files']}" if band["files"] else f"{low}+ none"
        for low, band in confidence["bands"].items()
    )


def _parts(parts: Mapping[str, Mapping[str, float]], *, counts: bool = True) -> str:
    return "  ".join(
        f"{name} {part['ndcg10']:.3f}" + (f" ({part['queries']})" if counts else "")
        for name, part in parts.items()
    )


def _unnamed_lines(figures: Mapping[str, Any]) -> list[str]:
    altered = figures["altered"]
    lines = [
        f"unnamed      NDCG@10 {figures['ndcg10']:.4f} over {figures['queries']} queries",
        f"  category   {_parts(figures['category'])}",
        f"  altered    {altered['ndcg10']:.3f} ({altered['queries']})"
        + _beside(altered["unaltered"]),
    ]
    if figures["still named"]:
        lines.append(f"  these still name their target: {figures['still named']}")
    return lines


def _beside(unaltered: float | None) -> str:
    return "" if unaltered is None else f", unaltered {unaltered:.3f}"


def _forms_lines(figures: Mapping[str, Any]) -> list[str]:
    return ["forms        NDCG@10"] + [
        f"  {form:11} {part['ndcg10']:.3f} ({part['queries']}){_beside(part['unaltered'])}"
        for form, part in figures.items()
    ]


def _everyday_lines(figures: Mapping[str, Any]) -> list[str]:
    lines = ["everyday                queries  MRR@10 NDCG@10  hit@1  hit@5  lines  candidates"]
    whole = {name: figures[name] for name in ("all", "tune", "check") if name in figures}
    parts = whole | figures["length"] | figures["repository"]
    for name, part in parts.items():
        cells = "  ".join(
            f"{part[key]:5.3f}" for key in ("mrr10", "ndcg10", "hit1", "hit5", "line_hit")
        )
        lines.append(f"  {name:21} {part['queries']:7d}   {cells}  {part['in_candidates']:.3f}")
    return [*lines, f"  confidence, first hits that are right: {_bands(figures['confidence'])}"]


def _phrased_lines(figures: Mapping[str, Any]) -> list[str]:
    lines = ["phrased as agents do    queries  MRR@10   tune  check  hit@1"]
    for form, part in figures.items():
        values = [part[name]["mrr10"] for name in ("all", "tune", "check") if name in part]
        cells = "  ".join(f"{value:.3f}" for value in (*values, part["all"]["hit1"]))
        lines.append(f"  {form:21} {part['all']['queries']:7d}   {cells}")
    bands = _bands(figures["both"]["confidence"])
    return [*lines, f"  confidence (both), first hits that are right: {bands}"]


def _foreign_lines(figures: Mapping[str, Any]) -> list[str]:
    return [
        f"foreign      {figures['doubtful']:.1%} of {figures['asked']} find nothing at"
        f" {DOUBTFUL} or above ({figures['nothing']:.1%} nothing at all)"
    ]


def _unrelated_lines(figures: Mapping[str, Any]) -> list[str]:
    splits = ", ".join(f"{s} {figures[s]:.1%}" for s in UNRELATED_PARTS if s in figures)
    most = ", ".join(f"{query} ({count})" for query, count in list(figures["most"].items())[:8])
    where = sorted(figures["repository"].items(), key=lambda item: -item[1])[:6]
    return [
        f"unrelated    {figures['any']:.1%} of {figures['asked']} find anything"
        f" ({figures['queries']} queries; {splits})",
        f"  most often {most or 'none'}",
        f"  most in    {', '.join(f'{name} {share:.1%}' for name, share in where)}",
    ]


def _key(record: Record) -> tuple[str, ...]:
    named = (record["set"], record["form"], record["repository"], record["query"])
    return (*named, *record["targets"])


def _difference(
    label: str,
    pairs: Sequence[tuple[Record, Record]],
    value: str | Callable[[Record], float],
) -> list[str]:
    if not pairs:
        return []
    take = value if callable(value) else lambda record: float(record[value])
    befores = grouped((b["repository"], take(b)) for b, _ in pairs).values()
    afters = grouped((a["repository"], take(a)) for _, a in pairs).values()
    changes = list(grouped((a["repository"], take(a) - take(b)) for b, a in pairs).values())
    low, high = interval(changes)
    return [
        f"  {label:26} {mean_of_means(befores):.4f} -> {mean_of_means(afters):.4f}"
        f"  {mean_of_means(changes):+.4f} [{low:+.4f}, {high:+.4f}]"
    ]


def _moved(pairs: Sequence[tuple[Record, Record]], count: int = 8) -> list[str]:
    """The questions that lost and gained most."""
    changes = sorted(
        ((a["ndcg10"] - b["ndcg10"], a) for b, a in pairs), key=lambda change: change[0]
    )
    moved = [c for c in changes[:count] if c[0] < 0] + [c for c in changes[-count:] if c[0] > 0]
    return [f"  {change:+.3f} {a['repository']}: {a['query']}" for change, a in moved]
