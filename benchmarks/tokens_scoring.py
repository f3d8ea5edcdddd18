"""How much is read until the answer is there? Pure.

The measure is the one that semble publishes: results are read best first, until one from a relevant
file has been read (and, where a target has lines, one that overlaps them). A question without any
costs ``MISS_TOKENS``. A token is four characters here; semble counts those of one model.

By the lines of the answer, a reader is there when three lines of a target have been shown (or all,
where it has fewer), or when a definition was named with a range that holds the target. In the
second case the lines are read next, so that they are counted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from quality_scoring import Target
from tokens_replies import Entry, Reply, Span

CHARS_PER_TOKEN = 4
BUDGETS = (250, 500, 1_000, 2_000)
MISS_TOKENS = 32_000
ENOUGH_LINES = 3

ReadChars = Callable[[str, Span], int]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a question cost: tokens until the answer, None where it was not there.

    ``recall`` is the share of the targets that were there within each budget, ``whole`` the reply.
    """

    tokens: float | None
    recall: Mapping[int, float]
    whole: float


@dataclass(frozen=True, slots=True)
class Lines:
    """Whether an answer's lines were in a reply, a definition named that holds them, any range."""

    shown: bool
    named: bool
    in_range: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """What several questions cost on average."""

    questions: int
    expected: float
    found: float
    misses: int
    within: Mapping[int, float]
    recall: Mapping[int, float]
    whole: float


def cost_by_file(reply: Reply, targets: Sequence[Target]) -> Cost:
    """Until the first result that meets a target, as the published measure has it."""
    return _cost(reply, [_until_file(reply, target) for target in targets])


def cost_by_lines(reply: Reply, targets: Sequence[Target], read_chars: ReadChars) -> Cost:
    """Until the lines of a target were read."""
    return _cost(reply, [_until_lines(reply, target, read_chars) for target in targets])


def lines_of(reply: Reply, targets: Sequence[Target]) -> Lines:
    """What the whole reply has of the best target."""
    return Lines(
        any(_shows(reply.entries, target) for target in targets),
        any(_holder(entry.named, entry, target) for target in targets for entry in reply.entries),
        any(_holder(entry.ranges, entry, target) for target in targets for entry in reply.entries),
    )


def figures_of(costs: Sequence[Cost]) -> Figures:
    """The averages over some questions, at least one."""
    found = [cost.tokens for cost in costs if cost.tokens is not None]
    return Figures(
        questions=len(costs),
        expected=fmean(MISS_TOKENS if cost.tokens is None else cost.tokens for cost in costs),
        found=fmean(found) if found else float("nan"),
        misses=len(costs) - len(found),
        within={
            budget: fmean(cost.tokens is not None and cost.tokens <= budget for cost in costs)
            for budget in BUDGETS
        },
        recall={budget: fmean(cost.recall[budget] for cost in costs) for budget in BUDGETS},
        whole=fmean(cost.whole for cost in costs),
    )


def _cost(reply: Reply, untils: Sequence[int | None]) -> Cost:
    tokens = [chars / CHARS_PER_TOKEN for chars in untils if chars is not None]
    recall = {
        budget: sum(one <= budget for one in tokens) / len(untils) if untils else 0.0
        for budget in BUDGETS
    }
    return Cost(min(tokens, default=None), recall, reply.chars / CHARS_PER_TOKEN)


def _until_file(reply: Reply, target: Target) -> int | None:
    read = reply.before
    for entry in reply.entries:
        read += entry.chars
        if entry.path in target.files and (
            target.span is None or any(_overlap(span, target.span) for span in entry.ranges)
        ):
            return read
    return None


def _until_lines(reply: Reply, target: Target, read_chars: ReadChars) -> int | None:
    """The least: what was read until the lines were shown, or until they were named, and those."""
    read, ways = reply.before, []
    for number, entry in enumerate(reply.entries, 1):
        read += entry.chars
        if _shows(reply.entries[:number], target):
            ways.append(read)
            break
        if holder := _holder(entry.named, entry, target):
            ways.append(read + read_chars(entry.path, holder))
    return min(ways, default=None)


def _shows(entries: Sequence[Entry], target: Target) -> bool:
    """Whether some entries together show enough lines of a target."""
    if target.span is None:
        return any(entry.path in target.files for entry in entries)
    first, last = target.span
    shown = {
        number
        for entry in entries
        if entry.path in target.files
        for number in entry.shown
        if first <= number <= last
    }
    return len(shown) >= min(ENOUGH_LINES, last - first + 1)


def _holder(spans: Sequence[Span], entry: Entry, target: Target) -> Span | None:
    """The smallest of an entry's spans that holds all lines of a target."""
    if entry.path not in target.files or target.span is None:
        return None
    first, last = target.span
    holding = [span for span in spans if span[0] <= first and last <= span[1]]
    return min(holding, key=lambda span: span[1] - span[0], default=None)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
