"""A memory index and what has changed since it was made, as two indexes.

The large one stays as it is, and shows only the files that are as they were. The texts of the other
files are in a small one. So a search finds in memory what an index run has just stored, and needs
to read no more than that. Search engines call such parts segments, and hide what is outdated in the
older ones, too (Apache Lucene).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.scope import ScopeVersion
from codebase_mcp.text.tokens import ALL_CHUNKS

# At most so many texts may be beside the large index.
MOST_ADDED = 1_000


@dataclass(frozen=True, slots=True)
class Segments:
    """All texts of some snapshots, each in one of two indexes, with all of its files.

    ``added`` has the texts of files that differ from those of ``base``; None if none does.
    """

    base: MemoryIndex
    added: MemoryIndex | None = None

    @property
    def version(self) -> ScopeVersion:
        """The state of the snapshots that they copy."""
        return (self.added or self.base).version

    @property
    def size_bytes(self) -> int:
        """Their approximate size in memory."""
        return sum(segment.size_bytes for segment in self.all)

    @property
    def all(self) -> list[MemoryIndex]:
        """The indexes to search."""
        added = self.added
        return [self.base] if added is None or not len(added.blob_ids) else [self.base, added]

    @property
    def is_large(self) -> bool:
        """Whether so much has changed that a new large index should be made."""
        return self.added is not None and len(self.added.blob_ids) > MOST_ADDED / 2

    def place_of(self, blob_id: int) -> int:
        """Which of the indexes to search has a text."""
        if self.added is None:
            return 0
        ids = self.added.blob_ids
        place = np.searchsorted(ids, blob_id)
        return int(place < len(ids) and ids[place] == blob_id)

    def frequencies(self, terms: Collection[int]) -> dict[int, int]:
        """The number of chunks with each of these terms; without the terms that no chunk has."""
        counts = Counter[int]()
        for segment in self.all:
            counts.update(segment.frequencies(terms))
        return {term: count for term, count in counts.items() if count or term == ALL_CHUNKS}
