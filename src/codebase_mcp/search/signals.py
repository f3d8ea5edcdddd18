"""In what order do the candidate files answer the question? Pure: evidence in, order out.

A file's score is the sum of its signals, each times its weight. A signal has a value for each
candidate, usually between 0 and 1. ``docs/search-quality.md`` lists the signals,
``training/experiments.md`` says how much each contributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add, mul
from typing import NamedTuple

import numpy as np

from codebase_mcp.model import FileKind
from codebase_mcp.search.lists import CandidateFile, NamedDefinition, discounted_sum
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.text.tokens import aggressive_stem, path_parts, stem, word_stems

_TEST_WORDS = frozenset({"test", "spec", "mock", "fixture"})

# A file's name counts less the later the query mentions it.
POSITION_DECAY = 0.35

# The factor for a definition whose case differs from the query's.
OTHER_CASE = 0.5

# Frequent words of the query occur in file names by chance. A word with this share of the rarest
# word's inverse document frequency counts fully.
TELLING_RARITY = 0.4

# At most this much of a question counts as named by a file; the rest is left to meaning.
MOST_NAMED = 0.95

# Added to the standard deviation of cosines, as all may be nearly equal.
LEAST_DEVIATION = 1e-3

# A key of a data file or a heading of a text seldom defines the symbol that the query names.
DEFINING_KINDS = {FileKind.CODE: 1.0, FileKind.TEST: 1.0, FileKind.VENDORED: 1.0}
OTHER_KINDS_DEFINE = 0.3

# Files of the caller's own repository gain this share of the best score.
OWN_LEAD = 0.05

# Levels below the median depth count up to this number.
_MOST_DEPTH = 3.0


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The query and its candidates, with intermediate results of the signals.

    For each candidate: ``paths``, ``names`` (see `name_signals`), ``depths`` (levels below the
    snapshot's median), ``meanings`` (mean cosines of the nearest chunks), ``nearest`` (cosines of
    the nearest chunk), ``coverages`` (shares of the query in the best chunk).

    For the query: ``best_coverage`` (the highest coverage, 1 at most); ``unnamed``, its share in no
    file's name; ``scattered``, its share outside of the chunk with the best coverage, 0 for a
    single word and for several sentences.
    """

    query: Query
    candidates: Sequence[CandidateFile]
    frequency: Mapping[str, float]
    paths: Sequence[PathFacts]
    names: Sequence[tuple[float, float]]
    depths: Sequence[float]
    meanings: Sequence[float]
    coverages: Sequence[float]
    best_coverage: float
    unnamed: float
    scattered: float
    nearest: Sequence[float]
    wants_tests: bool

    @classmethod
    def of(
        cls,
        query: Query,
        candidates: Sequence[CandidateFile],
        median_depth: Mapping[int, float],
        frequency: Mapping[str, float],
    ) -> CandidateSet:
        """Compute what the signals need; the parameters are those of `rank_files`."""
        paths = [path_facts(c.path) for c in candidates]
        words = query_name_words(query)
        names = [name_signals(facts, words) for facts in paths]
        whole = sum(frequency[term.text] for term in query.terms if term.spoken) or 1.0
        coverages = [c.evidence.best_words / whole for c in candidates]
        best_coverage = min(max(coverages, default=0.0), 1.0)
        return cls(
            query=query,
            candidates=candidates,
            frequency=frequency,
            paths=paths,
            names=names,
            depths=[
                facts.depth - median_depth.get(c.snapshot_id, 0.0)
                for facts, c in zip(paths, candidates, strict=True)
            ],
            meanings=[c.evidence.mean_meaning for c in candidates],
            coverages=coverages,
            best_coverage=best_coverage,
            unnamed=unnamed_share(paths, [name for name, _ in names], rarity(query, frequency)),
            scattered=1.0 - best_coverage if _is_one_phrase(query) else 0.0,
            nearest=[c.evidence.nearest for c in candidates],
            wants_tests=not _TEST_WORDS.isdisjoint(words.positions),
        )


@dataclass(frozen=True, slots=True)
class Signal:
    """A reason to rank a file higher or lower; ``values`` has a value for each candidate."""

    name: str
    weight: float
    measures: str
    values: Callable[[CandidateSet], Sequence[float]]


SIGNALS = (
    Signal(
        "body",
        4.2,
        "the query's words in the file's chunks, relative to the best file",
        lambda files: _shares([c.evidence.body for c in files.candidates], files.best_coverage),
    ),
    Signal(
        "name",
        4.2,
        "the share of the file name's words that are in the query; early words count more",
        lambda files: [name for name, _ in files.names],
    ),
    Signal(
        "name_prefix",
        2.7,
        "the share of the file name's words that share a prefix with a word of the query",
        lambda files: [prefix for _, prefix in files.names],
    ),
    Signal(
        "name_scattered",
        -8.0,
        "name, scaled by how much of the query is in no file's name, and in no one chunk together",
        lambda files: [name * files.unnamed * files.scattered for name, _ in files.names],
    ),
    Signal(
        "definition",
        3.0,
        "definitions of what the query names; a name with many definitions counts less",
        lambda files: [
            _definition(files.query, c) if c.evidence.definitions else 0.0 for c in files.candidates
        ],
    ),
    Signal(
        "expected_names",
        2.0,
        "the parts of the names that the query expects, in names that the file defines",
        lambda files: _shares(
            [
                _expected(c, files.frequency) if c.evidence.defined_stems else 0.0
                for c in files.candidates
            ]
        ),
    ),
    Signal(
        "comments",
        1.6,
        "the query's words in the file's comments, relative to the best file",
        lambda files: _shares([c.evidence.comments for c in files.candidates], files.best_coverage),
    ),
    Signal(
        "folders",
        0.8,
        "the query's words in the names of the file's folders, relative to the best file",
        lambda files: _shares([_in_folders(facts, files.frequency) for facts in files.paths]),
    ),
    Signal(
        "meaning",
        8.0,
        "the similarity in meaning of the query and the file's nearest chunks",
        lambda files: files.meanings,
    ),
    Signal(
        "meaning_unnamed",
        33.0,
        "similarity in meaning, scaled by the share of the query that is in no file's name",
        lambda files: [meaning * files.unnamed for meaning in files.meanings],
    ),
    Signal(
        "standing_out",
        1.5,
        "standard deviations by which the nearest chunk is nearer than other files', scaled by how"
        " much of the query no one chunk holds",
        lambda files: _deviations(files.nearest, files.scattered),
    ),
    Signal(
        "expansion",
        4.5,
        "the query's expansion terms in the file, scaled as meaning_unnamed is",
        lambda files: _shares(
            [discounted_sum(c.evidence.expansion) for c in files.candidates], files.unnamed
        ),
    ),
    Signal(
        "kind",
        -2.5,
        "a file that is not primary code: tests, documents, settings, generated or vendored files",
        lambda files: [_kind(c.kind, files) for c in files.candidates],
    ),
    Signal(
        "legacy",
        -1.4,
        "a path with legacy, deprecated, compat or a similar word",
        lambda files: [float(facts.is_legacy) for facts in files.paths],
    ),
    Signal(
        "internal",
        -1.0,
        "a path with internal, private or a similar word",
        lambda files: [float(facts.is_internal) for facts in files.paths],
    ),
    Signal(
        "depth",
        -0.6,
        "how many folders deeper than the repository's median the file is, three at most",
        lambda files: [min(max(depth, 0.0), _MOST_DEPTH) for depth in files.depths],
    ),
    Signal(
        "only_place",
        60.0,
        "the query is one name that only this file defines, or one word that only it contains",
        lambda files: [float(is_only_place(files.query, c)) for c in files.candidates],
    ),
)
WEIGHTS: Mapping[str, float] = {signal.name: signal.weight for signal in SIGNALS}


def _shares(values: Sequence[float], scale: float = 1.0) -> list[float]:
    """Each value as a share of the highest, times a scale."""
    top = max(values, default=0.0) or 1.0
    return [scale * value / top for value in values]


def _is_one_phrase(query: Query) -> bool:
    """Whether the query has several words, but not several sentences; names are no sentence."""
    is_one_sentence = query.positions.count(0) == 1 or bool(query.expected)
    return len(query.text.split()) > 1 and is_one_sentence


def _deviations(values: Sequence[float], scale: float) -> list[float]:
    """The number of standard deviations of each value above the mean, times a scale."""
    if not scale or not values:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    scale /= deviation + LEAST_DEVIATION
    return [scale * (value - mean) for value in values]


@dataclass(frozen=True, slots=True)
class QueryNameWords:
    """The words of a query for comparing with file names.

    ``positions`` gives each stem's first position in its sentence. ``parts`` are long enough to be
    compared by prefix; ``beginnings`` are their first letters.
    """

    positions: Mapping[str, int]
    parts: tuple[str, ...]
    beginnings: frozenset[str]


def query_name_words(query: Query) -> QueryNameWords:
    """The words of a query for comparing with file names."""
    positions: dict[str, int] = {}
    for word, position in zip(name_stems(query), query.positions, strict=True):
        positions[word] = min(position, positions.get(word, position))
    parts = tuple(part for part in query.parts if len(part) >= MIN_PREFIX)
    return QueryNameWords(positions, parts, frozenset(part[:MIN_PREFIX] for part in parts))


def rarity(query: Query, frequency: Mapping[str, float]) -> dict[str, float]:
    """Each query word's inverse document frequency as a share of the highest, by name stem."""
    frequencies = {
        stem: max((frequency.get(s, 0.0) for s in word_stems(part)), default=0.0)
        for stem, part in zip(name_stems(query), query.parts, strict=True)
    }
    highest = max(frequencies.values(), default=0.0) or 1.0
    return {stem: value / highest for stem, value in frequencies.items()}


def unnamed_share(
    paths: Sequence[PathFacts], names: Sequence[float], rarities: Mapping[str, float]
) -> float:
    """The share of the query in no file's name; ``names`` are the ``name`` signals."""
    named = 0.0
    for facts, name in zip(paths, names, strict=True):
        if name > named:
            rarest = max(rarities.get(word, 0.0) for word in facts.name)
            named = max(named, name * min(rarest / TELLING_RARITY, 1.0))
    return 1.0 - MOST_NAMED * named


def name_signals(facts: PathFacts, words: QueryNameWords) -> tuple[float, float]:
    """The signals ``name`` and ``name_prefix``.

    The first is the share of the name's words in the query; it falls with the position of the first
    of them. The second is the share of the name's further words that are a prefix of a query word,
    or have a query word as a prefix.
    """
    if not facts.name:
        return 0.0, 0.0
    positions = [words.positions[word] for word in facts.name if word in words.positions]
    name = 0.0
    if positions:
        share = len(positions) / len(facts.name)
        name = share / (1 + POSITION_DECAY * min(positions))
    # Few names begin like a query word, so the cheap check comes first.
    if len(positions) == len(facts.name) or words.beginnings.isdisjoint(facts.beginnings):
        return name, 0.0
    related = 0
    for part, word in zip(facts.name_parts, facts.name, strict=False):
        if part[:MIN_PREFIX] in words.beginnings and word not in words.positions:
            related += any(_begin_alike(part, asked) for asked in words.parts)
    return name, related / len(facts.name)


def definition_signal(query: Query, definitions: Iterable[NamedDefinition]) -> float:
    """The strengths of the query's names that a file defines; common names count less."""
    asked = {name.folded: name for name in query.names}
    best: dict[str, float] = {}
    for definition in definitions:
        name = asked[definition.folded]
        case = 1.0 if name.written == definition.name else OTHER_CASE
        value = name.strength * case / math.sqrt(definition.definers)
        best[name.folded] = max(best.get(name.folded, 0.0), value)
    return sum(best.values())


def _definition(query: Query, candidate: CandidateFile) -> float:
    share = DEFINING_KINDS.get(candidate.kind, OTHER_KINDS_DEFINE)
    return share * definition_signal(query, candidate.evidence.definitions)


def is_only_place(query: Query, candidate: CandidateFile) -> bool:
    """Whether the query is a name that no further file defines, or a word in no further file."""
    evidence = candidate.evidence
    if evidence.is_only_holder or not evidence.definitions or query.whole is None:
        return evidence.is_only_holder
    is_alone = any(definition.definers == 1 for definition in evidence.definitions)
    return query.is_symbol and is_alone and candidate.kind in DEFINING_KINDS


def _expected(candidate: CandidateFile, frequency: Mapping[str, float]) -> float:
    # The exact sum does not depend on the order of the set.
    return math.fsum(frequency.get(stem, 0.0) for stem in candidate.evidence.defined_stems)


def _in_folders(facts: PathFacts, frequency: Mapping[str, float]) -> float:
    if frequency.keys().isdisjoint(facts.folder_stems):  # as of most files
        return 0.0
    return math.fsum(frequency[stem] for stem in facts.folder_stems if stem in frequency)


def _kind(kind: FileKind, files: CandidateSet) -> float:
    """The penalty of a kind. It grows for tests with the weight of meaning: a test is near to the
    tested code."""
    if kind is not FileKind.TEST:
        return KIND_PENALTY[kind]
    return 0.0 if files.wants_tests else KIND_PENALTY[kind] * (1 + 2 * files.unnamed)


def _begin_alike(first: str, second: str) -> bool:
    return first != second and (first.startswith(second) or second.startswith(first))


_LEGACY = re.compile(
    r"(?:^|[/_.-])(?:legacy|compat|compatibility|deprecated|obsolete|old|v[01]|polyfills?)(?:[/_.-]|$)",
    re.IGNORECASE,
)
_INTERNAL = re.compile(
    r"(?:^|[/_.-])(?:internals?|impl|details?|private)(?:[/_.-]|$)", re.IGNORECASE
)
# Words are compared by prefix if they have this many first letters in common.
MIN_PREFIX = 4


@dataclass(frozen=True, slots=True)
class PathFacts:
    """The words of a path, and the classes of paths that it belongs to.

    ``name`` are aggressive stems of the file name's parts, ``beginnings`` the parts' first letters.
    """

    name: tuple[str, ...]
    name_parts: tuple[str, ...]
    beginnings: frozenset[str]
    folder_stems: frozenset[str]
    depth: int
    is_legacy: bool
    is_internal: bool


@lru_cache(maxsize=50_000)
def path_facts(path: str) -> PathFacts:
    """Analyse a path."""
    name, folders = path_parts(path)
    parts = tuple(dict.fromkeys(name))
    return PathFacts(
        name=tuple(dict.fromkeys(aggressive_stem(part) for part in parts)),
        name_parts=parts,
        beginnings=frozenset(part[:MIN_PREFIX] for part in parts),
        folder_stems=frozenset(stem(part) for part in folders),
        depth=path.count("/"),
        is_legacy=_LEGACY.search(path) is not None,
        is_internal=_INTERNAL.search(path) is not None,
    )


# The penalties of kinds of files, compared with code.
KIND_PENALTY = {
    FileKind.CODE: 0.0,
    FileKind.TEST: 1.0,
    FileKind.DOCS: 1.4,
    FileKind.CONFIG: 1.4,
    FileKind.GENERATED: 1.8,
    FileKind.VENDORED: 1.8,
}


class RankedFile(NamedTuple):
    """A candidate with its ranking score and its signals, which have no weights yet.

    ``coverage`` is the share of the query in the file's best chunk: its BM25 score divided by the
    sum of the inverse document frequencies of the query's words. It is 1 or more if all occur.
    """

    candidate: CandidateFile
    score: float
    signals: dict[str, float]
    coverage: float

    def weighted(self) -> dict[str, float]:
        """The contribution of each signal to the score."""
        return {name: WEIGHTS[name] * value for name, value in self.signals.items() if value}


def rank_files(
    query: Query,
    candidates: Sequence[CandidateFile],
    median_depth: Mapping[int, float],
    frequency: Mapping[str, float],
) -> list[RankedFile]:
    """Order candidates, best first.

    ``median_depth`` is each snapshot's; ``frequency`` gives each query stem's inverse document
    frequency.
    """
    candidate_set = CandidateSet.of(query, candidates, median_depth, frequency)
    columns = [signal.values(candidate_set) for signal in SIGNALS]
    weighted = map(mul, WEIGHTS.values(), np.array(columns, np.float64))
    scores = reduce(add, weighted).tolist()  # in the order of the signals, to the last bit
    signals = [dict(zip(WEIGHTS, values, strict=True)) for values in zip(*columns, strict=True)]
    files = zip(candidates, scores, signals, candidate_set.coverages, strict=True)
    ranked = list(map(RankedFile._make, files))
    ranked.sort(key=lambda file: (-file.score, file.candidate.path))
    return ranked


def put_first(ranked: list[RankedFile], snapshot_ids: Collection[int]) -> list[RankedFile]:
    """Move files of some snapshots before files whose scores are close."""
    if not snapshot_ids or all(file.candidate.snapshot_id in snapshot_ids for file in ranked):
        return ranked
    lead = OWN_LEAD * max(ranked[0].score, 0.0)
    raised = [
        file._replace(score=file.score + lead)
        if file.candidate.snapshot_id in snapshot_ids
        else file
        for file in ranked
    ]
    return sorted(raised, key=lambda file: (-file.score, file.candidate.path))
