"""Why is this answer weak, and what is worth asking instead? Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from codebase_mcp.search.hits import Hit
from codebase_mcp.search.query import Query
from codebase_mcp.search.spelling import respelt
from codebase_mcp.search.vocabulary import NearWords
from codebase_mcp.tokens import aggressive_stem, stem, term_id

# Below it the contract's scale says "poor".
WEAK = 0.6

# A word in more than this share of the chunks tells little. Other words are looked for instead of
# those that are in so few.
COMMON_SHARE = 0.1
RARE_SHARE = 0.005
_FEWEST, _FEW = 2, 20

# So many words get help, and so many are named in one sentence.
WORDS_HELPED = 5
_NAMED = 8

_STATES = {
    "indexing": "An index run is going on, {} not searchable yet.",
    "incomplete": "The last index run broke off, {} missing: index the repository again.",
    "stale": "Since the index was made {} changed.",
    "unchecked": "Whether files have changed since they were indexed is not known.",
    "outdated": "An earlier version of this program made the index: until it is made anew, words "
    "and names answer, not meaning.",
}

# Where nothing better can be said.
NO_HINT = "Say what the code does in other words, or name a symbol."

# What no question is about is no reason for a miss.
_NOT_MISSED = frozenset({"binary", "symlink", "special"})


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of a question, as the index knows it: by its term, and by that of a file's name.

    ``joined`` are the terms of it and a neighbour written together.
    """

    text: str
    term: int
    name_term: int
    joined: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WordUse:
    """In how many chunks of the project a word of the question occurs.

    ``elsewhere`` says that it occurs in the name of a file, or together with its neighbour.
    """

    word: str
    chunks: int
    elsewhere: bool = False

    @property
    def missing(self) -> bool:
        """Whether it occurs nowhere."""
        return self.chunks == 0 and not self.elsewhere


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """How many files a filter leaves; where it leaves none, ``instead`` says what there is."""

    filter: str
    files: int
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Filtered:
    """How many of all files the filters leave, each by itself and all together."""

    files: int
    left: int
    effects: tuple[FilterEffect, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far the index has what the question is about; ``skipped`` counts files by reason."""

    state: str
    pending: int
    failed: int
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BetterFile:
    """The best file for the question without its filters."""

    repository_id: UUID
    file_path: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a weak answer.

    ``filtered`` is None where no filter leaves a file out, ``better`` where nothing better is found
    without them. ``total`` counts the chunks of the project. ``words`` are those of the question as
    it was read, ``respelt`` says which of them are written otherwise there.
    """

    words: tuple[WordUse, ...]
    total: int
    near: tuple[NearWords, ...]
    coverage: Coverage
    filtered: Filtered | None = None
    better: BetterFile | None = None
    respelt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Help:
    """Why an answer is weak, and what to ask instead.

    ``words`` says in how many chunks each word of the question occurs, ``nearest`` which words of
    this code base are near to those that are missing or rare.
    """

    reasons: tuple[str, ...]
    words: Mapping[str, int]
    nearest: Mapping[str, tuple[str, ...]]
    better: BetterFile | None
    hint: str


def is_weak(hits: Sequence[Hit]) -> bool:
    """Whether an answer needs help: it is empty, or its best hit is poor."""
    return not hits or hits[0].similarity_score < WEAK


def content_words(query: Query) -> tuple[AskedWord, ...]:
    """The content words of a question, each once."""
    parts = [part for part in query.parts if len(part) > 1]
    joined: dict[str, list[int]] = {part: [] for part in parts}
    for first, second in pairwise(parts):
        together = term_id(stem(first + second))
        joined[first].append(together)
        joined[second].append(together)
    return tuple(
        AskedWord(part, term_id(stem(part)), term_id(aggressive_stem(part)), tuple(terms))
        for part, terms in joined.items()
    )


def words_to_help(words: Iterable[WordUse], total: int) -> dict[str, bool]:
    """The words that others are looked for, the rarest first, and which of them are missing."""
    bound = min(max(_FEWEST, RARE_SHARE * total), _FEW)
    rare = sorted((use for use in words if use.chunks <= bound), key=lambda use: use.chunks)
    return {use.word: use.missing for use in rare[:WORDS_HELPED]}


def explain(question: str, facts: Facts) -> Help:
    """The facts in sentences, and what follows from them."""
    return Help(
        reasons=(
            *_filter_reasons(facts),
            *_word_reasons(facts),
            *_coverage_reasons(facts.coverage),
        ),
        words={use.word: use.chunks for use in facts.words},
        nearest={near.word: near.all for near in facts.near},
        better=facts.better,
        hint=_hint(question, facts),
    )


def _filter_reasons(facts: Facts) -> list[str]:
    filtered = facts.filtered
    if filtered is None:
        return []
    first, *others = (
        f"{effect.filter} leaves {effect.files or 'none'}" for effect in filtered.effects
    )
    told = [f"{first} of {filtered.files} files", *others]
    if others:
        told.append(f"together they leave {filtered.left or 'none'}")
    reasons = [", ".join(told) + "."]
    reasons += [effect.instead for effect in filtered.effects if effect.instead]
    if facts.better is None:
        reasons.append("Without the filters nothing better is found.")
    return reasons


def _coverage_reasons(coverage: Coverage) -> list[str]:
    reasons = []
    if coverage.state in _STATES:
        reasons.append(_STATES[coverage.state].format(_files(coverage.pending)))
    if coverage.failed:
        reasons.append(f"{_files(coverage.failed)} could not be indexed.")
    missed = {why: n for why, n in coverage.skipped.items() if n and why not in _NOT_MISSED}
    if missed:
        told = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in missed.items())
        reasons.append(f"Left out of the index: {told}.")
    return reasons


def _word_reasons(facts: Facts) -> list[str]:
    if not facts.words:
        return ["The question holds no word to look for."]
    reasons = [f'"{word}" was read as "{spelt}".' for word, spelt in facts.respelt.items()]
    missing = [use.word for use in facts.words if use.missing]
    if len(missing) == len(facts.words):
        return [*reasons, "No word of the question occurs in this code."]
    if missing:
        return [*reasons, f"These words occur nowhere in this code: {_listed(missing)}."]
    if facts.filtered is not None and (facts.better is not None or facts.filtered.left == 0):
        return reasons
    if all(use.chunks > COMMON_SHARE * facts.total for use in facts.words):
        told = [f"{use.word} (in {use.chunks} of {facts.total} chunks)" for use in facts.words]
        return [*reasons, f"Every word of the question is common here: {_listed(told)}."]
    return [*reasons, "Every word of the question occurs in this code, but no place stands out."]


def _hint(question: str, facts: Facts) -> str:
    advice = []
    if facts.better is not None:
        better = facts.better
        advice.append(
            f"Drop the filters: {better.file_path} answers best ({better.similarity:.2f})."
        )
    corrected = respelt(question, {one.word: one.spelled[0] for one in facts.near if one.spelled})
    foreign = _foreign(facts)
    if corrected != question:
        advice.append(f'Try: "{corrected}".')
    elif foreign and facts.better is None:
        advice.append(f"This code seems to have nothing to do with {_listed(foreign)}.")
    elif facts.near and facts.better is None:
        advice.append(f"Try: {', '.join(_best_words(facts.near))}.")
    if facts.coverage.state in ("indexing", "stale"):
        advice.append("Ask again in a moment.")
    return " ".join(advice) or NO_HINT


def _foreign(facts: Facts) -> list[str]:
    """The words that this code neither has nor has others for, if they are most of the question."""
    near = {one.word for one in facts.near}
    foreign = [use.word for use in facts.words if use.missing and use.word not in near]
    return foreign if 2 * len(foreign) > len(facts.words) else []


def _best_words(near: Sequence[NearWords]) -> list[str]:
    """The nearest of each word first, then what else there is; each once, a handful in all."""
    by_place = sorted(
        (place, order, word) for order, one in enumerate(near) for place, word in enumerate(one.all)
    )
    return list(dict.fromkeys(word for _, _, word in by_place))[:WORDS_HELPED]


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
