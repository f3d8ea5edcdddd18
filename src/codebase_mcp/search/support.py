"""What does the first file itself hold of a question, whatever the other files hold? Pure.

Evidence that compares files with each other says little where there are few.
"""

from __future__ import annotations

from codebase_mcp.search.lists import MEANING_CHUNKS
from codebase_mcp.search.ranking import RankedFile

# Where no more chunks than this are searched, the list of meaning holds all of them, and its last
# one is the worst there is. From twice as many on, files are compared as in any larger code.
FEW_CHUNKS = MEANING_CHUNKS

# A chunk whose cosine is this much above the background is as near as one that answers.
CLEARLY_NEAR = 0.25

# A chunk that holds so much of a question says it word for word; a long one is held to less.
WORD_FOR_WORD = 0.8


def smallness(chunks: int) -> float:
    """1 where few chunks are searched, 0 where there are enough to compare files."""
    return min(max(2 - chunks / FEW_CHUNKS, 0.0), 1.0)


def support(best: RankedFile, background: float, unknown: float) -> float:
    """How much of a question a file holds, by words or by meaning, between 0 and 1.

    Meaning says the less, the larger the share of the question's words that occur nowhere.
    """
    above = best.candidate.evidence.nearest - background
    near = (1.0 - unknown) * min(above / CLEARLY_NEAR, 1.0) if background else 0.0
    return min(max(best.coverage, near, 0.0), 1.0)
