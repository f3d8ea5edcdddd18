"""In what order do the candidate files answer the question? Pure: evidence in, order out.

A file's score is a weighted sum of named signals, each between 0 and 1 or nearly so. Weights and
figures: ``docs/search-quality.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from operator import mul

from codebase_mcp.model import FileKind
from codebase_mcp.search.paths import KIND_PENALTY, PathFacts, path_facts
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.tokens import word_stems

WEIGHTS: Mapping[str, float] = {
    "body": 4.2,
    "name": 4.2,
    "name_prefix": 2.7,
    "definition": 3.0,
    "comments": 1.6,
    "folders": 0.8,
    "meaning": 8.0,
    "unnamed": 33.0,
    "kindred": 4.5,
    "kind": -2.5,
    "legacy": -1.4,
    "internal": -1.0,
    "example": -0.6,
    "depth": -0.6,
    "only": 60.0,
}
_WEIGHT_LIST = tuple(WEIGHTS.values())
_TEST_WORDS = frozenset({"test", "spec", "mock", "fixture"})

# Of a file's chunks the best counts whole, each further one by this factor less, twelve at most.
CHUNK_DECAY = 0.7
CHUNKS_COUNTED = 12
_DECAYS = tuple(CHUNK_DECAY**place for place in range(CHUNKS_COUNTED))

# Of a file's chunks so many speak for its meaning, each as much.
CHUNKS_MEANT = 3

# How fast the name of a file loses weight the later the query mentions it.
POSITION_DECAY = 0.35

# A definition whose case differs from the query's counts somewhat less.
OTHER_CASE = 0.5

MIN_PREFIX = 4

# A file may bear the question's name by chance, the more so the less rare the word that they share:
# one at least so rare, as a share of the question's rarest one, tells all that a name can tell.
TELLING = 0.4
MOST_NAMED = 0.95

# A key of a data file or a heading of a text is no definition of what the code calls by its name.
DEFINING_KINDS = {FileKind.CODE: 1.0, FileKind.TEST: 1.0, FileKind.VENDORED: 1.0}
OTHER_KINDS_DEFINE = 0.3


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol that a query names; ``definers`` is how many texts define one of that name.

    ``ordinal`` is the number of the chunk that holds its first line, None where none does.
    """

    folded: str
    name: str
    kind: str
    start_line: int
    end_line: int
    depth: int
    definers: int
    ordinal: int | None = None


@dataclass(slots=True)
class Evidence:
    """What the candidate lists found in one text: per chunk (by ordinal, the best first).

    ``is_only_holder`` says that no other text holds the one word that is asked for.
    """

    words: Mapping[int, float] = field(default_factory=dict)
    meaning: Mapping[int, float] = field(default_factory=dict)
    kindred: Mapping[int, float] = field(default_factory=dict)
    definitions: Sequence[Definition] = ()
    comments: float = 0.0
    chunk_count: int = CHUNKS_MEANT
    is_only_holder: bool = False

    @property
    def body(self) -> float:
        """What the chunks say together by words."""
        return body_of(self.words)

    @property
    def best_words(self) -> float:
        """The best chunk's score by words."""
        return next(iter(self.words.values()), 0.0)

    @property
    def best_meaning(self) -> float:
        """The best chunk's cosine."""
        return next(iter(self.meaning.values()), 0.0)

    def mean_meaning(self, least: float) -> float:
        """The mean cosine of the best chunks; ``least`` for a chunk that the list has not found."""
        counted = min(self.chunk_count, CHUNKS_MEANT)
        if counted == 0 or not self.meaning:
            return least if counted else 0.0
        found = list(islice(self.meaning.values(), counted))
        return (sum(found) + least * (counted - len(found))) / counted


def body_of(words: Mapping[int, float]) -> float:
    """What chunks say together: the best whole, each further one a little less."""
    if len(words) < 2:
        return next(iter(words.values()), 0.0)
    return float(sum(map(mul, words.values(), _DECAYS)))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file and the evidence in its text."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    kind: FileKind
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A candidate with its score, the signals that make it, and how sure the match is.

    ``signals`` are without their weights. ``coverage`` is how much of what the query asks for the
    file's best chunk says: its BM25 score against the inverse document frequencies of the query's
    words, 1 or more where all are there.
    """

    candidate: Candidate
    score: float
    signals: dict[str, float]
    coverage: float

    def weighted(self) -> dict[str, float]:
        """What each signal adds to the score."""
        return {name: WEIGHTS[name] * value for name, value in self.signals.items() if value}


def rank_files(
    query: Query,
    candidates: Sequence[Candidate],
    median_depth: Mapping[int, float],
    frequency: Mapping[str, float],
    least_meaning: float = 0.0,
) -> list[RankedFile]:
    """Order candidates, best first.

    ``median_depth`` is each snapshot's; ``frequency`` gives each query stem's inverse document
    frequency; ``least_meaning`` is the cosine of the last chunk that the list of meaning holds.
    """
    bodies = [c.evidence.body for c in candidates]
    lent = [body_of(c.evidence.kindred) for c in candidates]
    top_lent = max(lent, default=0.0) or 1.0
    top_body = max(bodies, default=0.0) or 1.0
    top_comments = max((c.evidence.comments for c in candidates), default=0.0) or 1.0
    facts_of = [path_facts(c.path) for c in candidates]
    folders = [_folders(facts, frequency) for facts in facts_of]
    top_folders = max(folders, default=0.0) or 1.0
    asked = asked_words(query)
    named = [name_signals(facts, asked) for facts in facts_of]
    unnamed = unnamed_share(facts_of, [name for name, _ in named], rarity(query, frequency))
    wants_tests = not _TEST_WORDS.isdisjoint(asked.places)
    asked_for = sum(frequency[term.text] for term in query.terms if term.spoken) or 1.0
    best_words = [c.evidence.best_words for c in candidates]
    said = min(max(best_words, default=0.0) / asked_for, 1.0)
    ranked = []
    for candidate, facts, body, words, kindred, folder, (name, prefix) in zip(
        candidates, facts_of, bodies, best_words, lent, folders, named, strict=True
    ):
        evidence = candidate.evidence
        meaning = evidence.mean_meaning(least_meaning)
        depth = facts.depth - median_depth.get(candidate.snapshot_id, 0.0)
        signals = {
            "body": said * body / top_body,
            "name": name,
            "name_prefix": prefix,
            "definition": _definition(query, candidate) if evidence.definitions else 0.0,
            "comments": said * evidence.comments / top_comments,
            "folders": folder / top_folders,
            "meaning": meaning,
            "unnamed": meaning * unnamed,
            "kindred": unnamed * kindred / top_lent,
            "kind": _kind(candidate.kind, unnamed, wants_tests=wants_tests),
            "legacy": float(facts.is_legacy),
            "internal": float(facts.is_internal),
            "example": float(facts.is_example and candidate.kind is FileKind.CODE),
            "depth": min(max(depth, 0.0), 3.0),
            "only": float(is_only_place(query, candidate)),
        }
        score = sum(map(mul, _WEIGHT_LIST, signals.values()))
        ranked.append(RankedFile(candidate, score, signals, words / asked_for))
    ranked.sort(key=lambda r: (-r.score, r.candidate.path))
    return ranked


@dataclass(frozen=True, slots=True)
class AskedWords:
    """What a query says about names: its words' stems with their first places, and its parts.

    ``parts`` are those that are long enough to be told by their ``beginnings``.
    """

    places: Mapping[str, int]
    parts: tuple[str, ...]
    beginnings: frozenset[str]


@lru_cache(maxsize=100)
def asked_words(query: Query) -> AskedWords:
    """The words of a query as names of files are held against them."""
    places: dict[str, int] = {}
    for word, place in zip(name_stems(query), query.places, strict=True):
        places[word] = min(place, places.get(word, place))
    parts = tuple(part for part in query.parts if len(part) >= MIN_PREFIX)
    return AskedWords(places, parts, frozenset(part[:MIN_PREFIX] for part in parts))


def rarity(query: Query, frequency: Mapping[str, float]) -> dict[str, float]:
    """How rare each of a query's words is beside its rarest, by the stems of names: 0 to 1."""
    rare = {
        stem: max((frequency.get(s, 0.0) for s in word_stems(part)), default=0.0)
        for stem, part in zip(name_stems(query), query.parts, strict=True)
    }
    rarest = max(rare.values(), default=0.0) or 1.0
    return {stem: value / rarest for stem, value in rare.items()}


def unnamed_share(
    facts_of: Sequence[PathFacts], names: Sequence[float], rare: Mapping[str, float]
) -> float:
    """How much of what is asked no file bears in its name; ``names`` are the files' signals."""
    named = 0.0
    for facts, name in zip(facts_of, names, strict=True):
        if name > named:
            rarest = max(rare.get(word, 0.0) for word in facts.name)
            named = max(named, name * min(rarest / TELLING, 1.0))
    return 1.0 - MOST_NAMED * named


def name_signals(facts: PathFacts, asked: AskedWords) -> tuple[float, float]:
    """How well the query names the file: by whole words, and by words of a common beginning.

    The first is the share of the name's words that the query holds, less the later it first holds
    one; the second the share of the other words that begin as a query word does, or the reverse.
    """
    if not facts.name:
        return 0.0, 0.0
    positions = [asked.places[word] for word in facts.name if word in asked.places]
    name = 0.0
    if positions:
        share = len(positions) / len(facts.name)
        name = share / (1 + POSITION_DECAY * min(positions))
    if len(positions) == len(facts.name):
        return name, 0.0
    related = 0
    for part, word in zip(facts.name_parts, facts.name, strict=False):
        # Few names begin as any of the query's words does, so that is asked first.
        if part[:MIN_PREFIX] in asked.beginnings and word not in asked.places:
            related += any(_begin_alike(part, other) for other in asked.parts)
    return name, related / len(facts.name)


def definition_signal(query: Query, definitions: Iterable[Definition]) -> float:
    """How much a file defines of what the query names; a name that many define tells little."""
    asked = {name.folded: name for name in query.names}
    claims: dict[str, float] = {}
    for definition in definitions:
        name = asked[definition.folded]
        case = 1.0 if name.written == definition.name else OTHER_CASE
        claim = name.strength * case / math.sqrt(definition.definers)
        claims[name.folded] = max(claims.get(name.folded, 0.0), claim)
    return sum(claims.values())


def _definition(query: Query, candidate: Candidate) -> float:
    share = DEFINING_KINDS.get(candidate.kind, OTHER_KINDS_DEFINE)
    return share * definition_signal(query, candidate.evidence.definitions)


def is_only_place(query: Query, candidate: Candidate) -> bool:
    """Whether the query is one name that only this file defines, or a word that only it holds."""
    evidence = candidate.evidence
    if evidence.is_only_holder or not evidence.definitions or query.whole is None:
        return evidence.is_only_holder
    is_alone = any(definition.definers == 1 for definition in evidence.definitions)
    return query.is_symbol and is_alone and candidate.kind in DEFINING_KINDS


def _folders(facts: PathFacts, frequency: Mapping[str, float]) -> float:
    return sum(frequency[stem] for stem in frequency.keys() & facts.folder_stems)


def _kind(kind: FileKind, unnamed: float, *, wants_tests: bool) -> float:
    """Where meaning counts more, being a test must too, for a test means what it tests."""
    if kind is not FileKind.TEST:
        return KIND_PENALTY[kind]
    return 0.0 if wants_tests else KIND_PENALTY[kind] * (1 + 2 * unnamed)


def _begin_alike(first: str, second: str) -> bool:
    return first != second and (first.startswith(second) or second.startswith(first))
