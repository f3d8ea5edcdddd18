"""What do the measurements of indexing say? Medians, growth, and a table of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import median
from typing import Any

Figures = dict[str, Any]

TIMES = (
    ("new_process", "cold, new program and database, s"),
    ("new_process_core_s", "… core-seconds"),
    ("cold", "cold, running program, s"),
    ("kept", "… and kept on disk, s more"),
    ("unchanged", "unchanged, s"),
    ("unchanged_process", "… as a whole command, s"),
    ("unchanged_process_core_s", "… core-seconds"),
    ("edit", "one edit until searchable, s"),
    ("edit_unseen", "… found by a whole run, s"),
    ("second", "a second repository, s"),
    ("second_times", "… times the first"),
)
GROWING = ("cold", "core_s", "unchanged", "edit", "peak_mb", "bytes")


def summary(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure; what is no number is that of the last round."""
    last = rounds[-1]
    middle: Figures = {}
    for name, value in last.items():
        is_number = isinstance(value, int | float)
        middle[name] = median(one[name] for one in rounds) if is_number else value
    middle["bytes"] = last["disk"]["bytes"]
    return middle


def growth(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The k of values ~ sizes^k, by least squares of the logarithms; None for a single size."""
    if len(set(sizes)) < 2 or min(values) <= 0:
        return None
    xs, ys = [log(size) for size in sizes], [log(value) for value in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def report(results: Sequence[dict[str, Any]]) -> str:
    """All sizes as Markdown: a column for each size and side, growth at the end."""
    sides = [side for side in ("ours", "semble") if results[0][side]]
    columns = [(result, side) for result in results for side in sides]
    lines = [
        _line("", [f"{result['files']:,} files, {side}" for result, side in columns], "growth"),
        "|---" * (len(columns) + 2) + "|",
        _line("source, MB", [f"{result['source_mb']:.1f}" for result, _ in columns], ""),
    ]
    for name, label in TIMES:
        lines.append(_row(results, columns, sides, name, label, "{:.3g}"))
    disk_growth = _growths(results, sides, "bytes")
    lines += [
        _line("files/s, cold", [_per_second(r, s) for r, s in columns], ""),
        _row(results, columns, sides, "core_s", "core-seconds, cold", "{:.3g}"),
        _row(results, columns, sides, "peak_mb", "peak memory of all processes, MB", "{:.0f}"),
        _row(results, columns, sides, "chunks", "chunks", "{:,.0f}"),
        _line("on disk, times the source", [_times_source(r, s) for r, s in columns], disk_growth),
        _line("… with log and catalogue, MB", [_whole(r, s) for r, s in columns], ""),
    ]  # fmt: skip
    if any(r["second_files"] != r["files"] for r in results):
        rest = ", ".join(f"{r['second_files']:,}" for r in results)
        lines.append(f"\nFiles of the second repository: {rest}.")
    if any(r[side]["files"] != r["files"] for r, side in columns):
        lines.append("\nIndexed files: " + ", ".join(str(r[s]["files"]) for r, s in columns) + ".")
    return "\n".join(lines) + "\n"


def _row(
    results: Sequence[dict[str, Any]],
    columns: Sequence[tuple[dict[str, Any], str]],
    sides: Sequence[str],
    name: str,
    label: str,
    form: str,
) -> str:
    cells = [form.format(r[s][name]) if r[s].get(name) else "" for r, s in columns]
    return _line(label, cells, _growths(results, sides, name))


def _growths(results: Sequence[dict[str, Any]], sides: Sequence[str], name: str) -> str:
    """How a figure grows on each side, as exponents of the number of files."""
    if name not in GROWING:
        return ""
    found = []
    for side in sides:
        known = [result for result in results if result[side].get(name)]
        k = growth([r["files"] for r in known], [r[side][name] for r in known]) if known else None
        found.append("" if k is None else f"{k:.2f}")
    return "; ".join(filter(None, found))


def _line(label: str, cells: Sequence[str], end: str) -> str:
    return "| " + " | ".join([label, *cells, end]) + " |"


def _per_second(result: dict[str, Any], side: str) -> str:
    return f"{result['files'] / result[side]['cold']:,.0f}"


def _times_source(result: dict[str, Any], side: str) -> str:
    return f"{result[side]['bytes'] / result['source_mb'] / 1e6:.1f}"


def _whole(result: dict[str, Any], side: str) -> str:
    disk = result[side]["disk"]
    return f"{disk.get('data_dir', disk['bytes']) / 1e6:,.0f}"
