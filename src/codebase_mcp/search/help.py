"""Why is an answer weak, and what could be asked instead? Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile, zip_longest

from codebase_mcp.search.confidence import LEAST_FIRST
from codebase_mcp.search.hits import Hit
from codebase_mcp.search.literal import ExactMatches
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.secondary import SecondaryUse
from codebase_mcp.search.vocabulary import NearWords, replace_words

# Scores below this are "poor" on the tools' scale.
WEAK = 0.6

# The doubts if this code probably has no answer, if it lacks an identifier, and if the first hit
# has the lowest score of a possible answer.
_ELSEWHERE = "Probably not in this code. These places are the nearest."
_NO_SUCH_NAME = "No such name in this code. These places are the nearest."
_MAYBE = "Perhaps not in this code."

# A word in more than this share of the chunks is common.
COMMON_SHARE = 0.1

# Similar words are suggested for words in at most this share of the chunks; the number of chunks is
# limited by these bounds.
RARE_SHARE = 0.005
_RARE_AT_LEAST, _RARE_AT_MOST = 2, 20

# The number of words with suggestions, and of words listed in a sentence.
WORDS_HELPED = 5
_LISTED = 8

# The limits of answers in each state of the index; {} is the number of files concerned.
_STATE_NOTES = {
    "indexing": "An index run is in progress, {} not searchable yet.",
    "incomplete": "The last index run was interrupted, {} missing: index the repository again.",
    "stale": "{} changed since the last index run.",
    "unchecked": "It is not known whether files changed since they were indexed.",
    "outdated": "An earlier version of this program made the index. Until it is rebuilt, search "
    "uses words and names, not meaning.",
    "absent": "No repository here has that repository_id.",
}

# The notes if the configured secondary model was not used.
_SECONDARY_NOTES = {
    "away": "The configured embedding model did not answer: the built-in model and words did.",
    "missing": "The configured embedding model has no vectors here yet: the built-in model and"
    " words answered.",
}

# The hint if no better hint applies.
NO_HINT = "Say what the code does in other words, or name a symbol."

# Skipped files of these kinds cannot answer a question.
_NOT_MISSED = frozenset({"binary", "symlink", "special"})


@dataclass(frozen=True, slots=True)
class WordUse:
    """The number of chunks of the project with a word of the question.

    ``elsewhere`` means that it occurs in a file name, or written together with its neighbour.
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
    """The number of files that pass a filter; if it is 0, ``instead`` lists existing values."""

    filter: str
    files: int
    instead: str = ""


@dataclass(frozen=True, slots=True)
class FilteredFiles:
    """The numbers of all files, and of files that pass each filter and all filters."""

    files: int
    passing: int
    effects: tuple[FilterEffect, ...]


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """The state of the index; ``skipped`` counts files by reason."""

    state: str
    pending: int
    failed: int
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MissFacts:
    """Facts about a weak answer.

    ``words`` are the words of the question, typing errors corrected; ``respelt`` maps misspelt
    words to corrections. ``total`` is the number of chunks of the project. ``filtered`` is None if
    no filter excludes a file, ``better`` if the filters exclude no better file. ``best`` is the
    score of the best hit.
    """

    words: tuple[WordUse, ...]
    total: int
    near: tuple[NearWords, ...]
    coverage: IndexCoverage
    filtered: FilteredFiles | None = None
    better: Hit | None = None
    respelt: Mapping[str, str] = field(default_factory=dict)
    best: float | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """The reasons why an answer is weak, and what to ask instead.

    ``doubt`` says that this code may have no answer, ``absent`` names the words that it lacks; both
    are also among the ``reasons``. ``words`` gives the number of chunks with each word of the
    question. ``nearest`` lists similar words of this code base for missing and rare words.
    """

    reasons: tuple[str, ...]
    words: Mapping[str, int]
    nearest: Mapping[str, tuple[str, ...]]
    better: Hit | None
    hint: str
    doubt: str | None = None
    absent: str | None = None


def state_note(
    state: str, pending: int, percent: float | None = None, seconds_left: int | None = None
) -> str | None:
    """The effect of the index's state on an answer; None if it has no effect.

    ``percent`` and ``seconds_left`` are the progress of a first run.
    """
    if percent is not None:
        if seconds_left is None:
            return "Still indexing, listing the files: no file can be found yet."
        left = f"{percent:.0f} % done, about {seconds_left} s left"
        return f"Still indexing, {left}: some files cannot be found yet."
    if state == "indexing" and not pending:
        return None  # the rest of the run changes no answer
    note = _STATE_NOTES.get(state)
    return note and note.format(_files(pending))


def secondary_note(use: SecondaryUse | None) -> str | None:
    """A note if a secondary model is configured but was not used."""
    return _SECONDARY_NOTES.get(use or "used")


def first_with_text(hits: Sequence[Hit]) -> int:
    """How many of the first hits have the exact text of the question."""
    return sum(1 for _ in takewhile(lambda hit: hit.exact_lines, hits))


def exact_note(exact: ExactMatches | None, hits: Sequence[Hit]) -> str | None:
    """A note on a question with exact text: which hits have it, and how many lines in all."""
    if exact is None:
        return None
    first, lines = first_with_text(hits), exact.line_count
    if lines is None:
        more = "perhaps more, see find_text" if first else "see find_text"
    elif lines > sum(len(hit.exact_lines) for hit in hits[:first]):
        more = f"{lines} lines in {_files(exact.file_count or 0)}; find_text lists them"
    else:
        more = ""
    if not first:
        return f"As text: {more}." if more else "Not in these files as text."
    who = "1 has" if first == 1 else f"1-{first} have"
    return f"{who} the exact text ({more})." if more else f"{who} the exact text."


def is_weak(hits: Sequence[Hit]) -> bool:
    """Whether an answer needs help: it is empty, or its best hit is poor."""
    return not hits or hits[0].similarity_score < WEAK


def is_elsewhere(hits: Sequence[Hit]) -> bool:
    """Whether the code probably has no answer, and the hits are only the nearest chunks."""
    return bool(hits) and hits[0].similarity_score < LEAST_FIRST


def words_to_help(words: Iterable[WordUse], total: int) -> dict[str, bool]:
    """The rare words, the rarest first, and whether each is missing."""
    most = min(max(_RARE_AT_LEAST, RARE_SHARE * total), _RARE_AT_MOST)
    rare = sorted((use for use in words if use.chunks <= most), key=lambda use: use.chunks)
    return {use.word: use.missing for use in rare[:WORDS_HELPED]}


def explain(question: str, facts: MissFacts) -> Help:
    """Put the facts into sentences, and derive a hint."""
    doubt, absent = _doubt(question, facts.best), _absent_words(facts.words)
    return Help(
        reasons=(
            *filter(None, [doubt]),
            *_filter_reasons(facts),
            *_word_reasons(facts),
            *_coverage_reasons(facts.coverage),
        ),
        words={use.word: use.chunks for use in facts.words},
        nearest={near.word: near.all for near in facts.near},
        better=facts.better,
        hint=_hint(question, facts),
        doubt=doubt,
        absent=absent,
    )


def _doubt(question: str, best: float | None) -> str | None:
    if best is None or best > LEAST_FIRST:
        return None
    if best == LEAST_FIRST:
        return _MAYBE
    return _NO_SUCH_NAME if parse_query(question).is_symbol else _ELSEWHERE


def _absent_words(words: Sequence[WordUse]) -> str | None:
    missing = [use.word for use in words if use.missing]
    if not missing:
        return None
    if len(missing) == len(words):
        return "No word of the question occurs in this code."
    return f"These words occur nowhere in this code: {_listed(missing)}."


def _filter_reasons(facts: MissFacts) -> list[str]:
    filtered = facts.filtered
    if filtered is None:
        return []
    counts = [f"{effect.filter} leaves {effect.files or 'none'}" for effect in filtered.effects]
    counts[0] += f" of {filtered.files} files"
    if len(counts) > 1:
        counts.append(f"together they leave {filtered.passing or 'none'}")
    reasons = [", ".join(counts) + "."]
    reasons += [effect.instead for effect in filtered.effects if effect.instead]
    if facts.better is None:
        reasons.append("Without the filters nothing better is found.")
    return reasons


def _coverage_reasons(coverage: IndexCoverage) -> list[str]:
    reasons = []
    if note := state_note(coverage.state, coverage.pending):
        reasons.append(note)
    if coverage.failed:
        reasons.append(f"{_files(coverage.failed)} could not be indexed.")
    missed = {why: n for why, n in coverage.skipped.items() if n and why not in _NOT_MISSED}
    if missed:
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in missed.items())
        reasons.append(f"Left out of the index: {counts}.")
    return reasons


def _word_reasons(facts: MissFacts) -> list[str]:
    if not facts.words:
        return ["The question holds no word to look for."]
    reasons = [f'"{word}" was read as "{spelling}".' for word, spelling in facts.respelt.items()]
    if absent := _absent_words(facts.words):
        return [*reasons, absent]
    if facts.filtered is not None and (facts.better is not None or facts.filtered.passing == 0):
        return reasons
    if all(use.chunks > COMMON_SHARE * facts.total for use in facts.words):
        counts = [f"{use.word} (in {use.chunks} of {facts.total} chunks)" for use in facts.words]
        return [*reasons, f"Every word of the question is common here: {_listed(counts)}."]
    return [*reasons, "Every word of the question occurs in this code, but no place stands out."]


def _hint(question: str, facts: MissFacts) -> str:
    advice = []
    if facts.better is not None:
        better = facts.better
        advice.append(
            f"Drop the filters: {better.file_path} answers best ({better.similarity_score:.2f})."
        )
    corrections = {near.word: near.spelled[0] for near in facts.near if near.spelled}
    corrected = replace_words(question, corrections)
    unrelated = _unrelated_words(facts)
    if corrected != question:
        advice.append(f'Try: "{corrected}".')
    elif unrelated and facts.better is None:
        advice.append(f"This code seems to have nothing to do with {_listed(unrelated)}.")
    elif facts.near and facts.better is None and facts.best is None:
        advice.append(f"Try: {', '.join(_best_words(facts.near))}.")
    if facts.coverage.state in ("indexing", "stale"):
        advice.append("Ask again in a moment.")
    return " ".join(advice) or NO_HINT


def _unrelated_words(facts: MissFacts) -> list[str]:
    """The words that this code neither uses nor has similar words for, if they are the majority."""
    near = {near.word for near in facts.near}
    unrelated = [use.word for use in facts.words if use.missing and use.word not in near]
    return unrelated if 2 * len(unrelated) > len(facts.words) else []


def _best_words(near: Sequence[NearWords]) -> list[str]:
    """The nearest words for each word, the best of each first; `WORDS_HELPED` at most."""
    by_rank = chain.from_iterable(zip_longest(*(words.all for words in near)))
    return [word for word in dict.fromkeys(by_rank) if word is not None][:WORDS_HELPED]


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _LISTED
    return ", ".join(words[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
