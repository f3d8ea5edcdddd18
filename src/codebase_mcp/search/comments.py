"""Which lines above a definition describe it? Pure: lines in, line numbers out.

Comments, decorators and attributes that stand directly above a definition belong to it: a reader
wants them with it, and they say in plain words what it does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

# A line of a comment, a decorator or an attribute; a preprocessor directive is neither.
_DESCRIBES = re.compile(
    r"""\s*(?://|/\*|\*|--|;|%|@\w|\[\w.]+(?:\(.*\))?\]\s*$
    |\#(?!\s*(?:include|define|undef|if|ifdef|ifndef|elif|else|endif|pragma|error|warning|line)\b))""",
    re.VERBOSE,
)
_BLOCK_END = re.compile(r".*\*/\s*$")

# A longer text is more than a description: a licence, or code that was commented out.
_MOST_LINES = 60


def description_start(lines: Sequence[str], first_line: int) -> int:
    """The line (1-based) where the description of the definition at ``first_line`` begins."""
    place = first_line - 1
    stop = max(place - _MOST_LINES, 0)
    while place > stop:
        if _DESCRIBES.match(lines[place - 1]):
            place -= 1
        elif _BLOCK_END.match(lines[place - 1]):
            opening = _opening(lines, place - 1, stop)
            if opening is None:
                break
            place = opening
        else:
            break
    return place + 1


def description_lines(lines: Sequence[str]) -> int:
    """How many of the first lines describe what follows; 0 where all lines do."""
    end = next((at for at, line in enumerate(lines) if _BLOCK_END.match(line)), None)
    if lines and lines[0].lstrip().startswith("/*") and end is not None:
        return end + 1 + description_lines(lines[end + 1 :])
    count = sum(1 for _ in takewhile(_DESCRIBES.match, lines))
    return count if count < len(lines) else 0


def _opening(lines: Sequence[str], end: int, stop: int) -> int | None:
    """Where the block comment begins that ends at a place: a line with nothing before it."""
    for place in range(end, stop - 1, -1):
        text = lines[place].lstrip()
        if text.startswith("/*"):
            return place
        if "/*" in text:
            return None
    return None
