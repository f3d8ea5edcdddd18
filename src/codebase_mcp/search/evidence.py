"""What did the candidate lists find in a file? Pure values, for ranking and for showing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import mul

from codebase_mcp.model import FileKind

# The best chunk of a text counts whole, each further one by this factor less, twelve at most.
CHUNK_DECAY = 0.7
CHUNKS_COUNTED = 12
_DECAYS = tuple(CHUNK_DECAY**position for position in range(CHUNKS_COUNTED))

# How near a text is in meaning is the mean cosine of its nearest chunks, at most this many.
NEAREST_CHUNKS = 3


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol that a query names; ``definers`` is the number of texts that define that name.

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
class TextEvidence:
    """What the candidate lists found in one text.

    ``words``, ``expansion`` (scores by the query's own terms, and by its expansion terms) and
    ``meaning`` (cosines) are by chunk ordinal, best first; ``least_meaning`` is the cosine of the
    last chunk that the list of meaning holds, of any text. ``is_only_holder`` says that no other
    text holds the one word that the query is. ``defined_stems`` are those of the query's expected
    names that the names of the text's definitions have.
    """

    words: Mapping[int, float] = field(default_factory=dict)
    meaning: Mapping[int, float] = field(default_factory=dict)
    expansion: Mapping[int, float] = field(default_factory=dict)
    definitions: Sequence[Definition] = ()
    comments: float = 0.0
    chunk_count: int = NEAREST_CHUNKS
    is_only_holder: bool = False
    least_meaning: float = 0.0
    defined_stems: frozenset[str] = frozenset()

    @property
    def body(self) -> float:
        """The score of all chunks together by the query's own terms."""
        return discounted_sum(self.words)

    @property
    def best_words(self) -> float:
        """The best chunk's score by the query's own terms."""
        return next(iter(self.words.values()), 0.0)

    @property
    def best_meaning(self) -> float:
        """The nearest chunk's cosine."""
        return next(iter(self.meaning.values()), 0.0)

    @property
    def nearest(self) -> float:
        """The nearest chunk's cosine; ``least_meaning`` if the list has none of this text."""
        return self.best_meaning or self.least_meaning

    @property
    def mean_meaning(self) -> float:
        """The mean cosine of the nearest chunks; one that the list lacks has ``least_meaning``."""
        counted, least = min(self.chunk_count, NEAREST_CHUNKS), self.least_meaning
        if counted == 0 or not self.meaning:
            return least if counted else 0.0
        found = list(islice(self.meaning.values(), counted))
        return (sum(found) + least * (counted - len(found))) / counted


def discounted_sum(scores: Mapping[int, float]) -> float:
    """The scores of a text's chunks as one: the best counts whole, each further one less."""
    if len(scores) < 2:
        return next(iter(scores.values()), 0.0)
    return float(sum(map(mul, scores.values(), _DECAYS)))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file and the evidence in its text."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    kind: FileKind
    evidence: TextEvidence
