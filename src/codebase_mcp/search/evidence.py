"""What evidence do the candidate lists have for a file? Pure values, for ranking and showing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import mul

from codebase_mcp.model import FileKind

ChunkKey = tuple[int, int]
"""A chunk: the id of its text, and its ordinal there."""

# The best chunk of a text counts fully, each further chunk by this factor less, twelve at most.
CHUNK_DECAY = 0.7
CHUNKS_COUNTED = 12
_DECAYS = tuple(CHUNK_DECAY**position for position in range(CHUNKS_COUNTED))

# How near a text is in meaning is the mean cosine of its nearest chunks, at most this many.
NEAREST_CHUNKS = 3


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """A definition whose name the query has; ``definers`` texts define that name.

    ``ordinal`` is the number of the chunk with its first line, None if there is no such chunk.
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
    """The evidence of the candidate lists in a text.

    ``words`` and ``expansion`` (scores by the query's own terms and by its expansion terms) and
    ``meaning`` (cosines) are by chunk ordinal, best first. ``least_meaning`` is the cosine of the
    last chunk in the list of meaning, of any text. ``is_only_holder`` means that the query is a
    single word that no other text has. ``defined_stems`` are the stems of the query's expected
    names that occur in names of the text's definitions.
    """

    words: Mapping[int, float] = field(default_factory=dict)
    meaning: Mapping[int, float] = field(default_factory=dict)
    expansion: Mapping[int, float] = field(default_factory=dict)
    definitions: Sequence[NamedDefinition] = ()
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
        """The nearest chunk's cosine; ``least_meaning`` if the list has no chunk of this text."""
        return self.best_meaning or self.least_meaning

    @property
    def mean_meaning(self) -> float:
        """The mean cosine of the nearest chunks; ``least_meaning`` for those not in the list."""
        counted, least = min(self.chunk_count, NEAREST_CHUNKS), self.least_meaning
        if counted == 0 or not self.meaning:
            return least if counted else 0.0
        cosines = list(islice(self.meaning.values(), counted))
        return (sum(cosines) + least * (counted - len(cosines))) / counted


def discounted_sum(scores: Mapping[int, float]) -> float:
    """The sum of the scores of a text's chunks, best first; each further chunk counts less."""
    if len(scores) < 2:
        return next(iter(scores.values()), 0.0)
    return float(sum(map(mul, scores.values(), _DECAYS)))


@dataclass(frozen=True, slots=True)
class CandidateFile:
    """A file and the evidence in its text."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    kind: FileKind
    evidence: TextEvidence
