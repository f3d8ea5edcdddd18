"""Which words of this question are probably misspelt, and what are their right spellings? Pure.

A typing error omits a letter, adds one, replaces one or swaps two neighbours. A word that no chunk
holds, and that is no English word either, is compared with all spellings at one edit from it. The
index holds words by number alone, so one statement counts all of them, some hundreds. Where the
words themselves are known, those at two edits can be found as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import ascii_lowercase

from codebase_mcp.search.query import Query
from codebase_mcp.text.tokens import STOP_WORDS, split_word, stem, term_id, words_of

# The shortest words that are corrected by one edit, and by two: shorter ones have too many
# neighbours.
ONE_EDIT_FROM = 5
TWO_EDITS_FROM = 7

# A spelling in a single chunk may be a typing error itself.
MIN_CHUNKS = 2

_PLAIN = re.compile(r"[A-Za-z]+")


def doubtful_words(
    query: Query, frequencies: Mapping[int, int], is_word: Callable[[str], bool]
) -> list[str]:
    """The words, in lower case, that no chunk holds and that are not ``is_word``."""
    words = dict.fromkeys(word.lower() for word in words_of(query.plain) if _is_plain(word))
    return [
        word
        for word in words
        if len(word) >= ONE_EDIT_FROM
        and word not in STOP_WORDS
        and not frequencies.get(term_id(stem(word)))
        and not is_word(word)
        and not is_word(stem(word))
    ]


def spellings(word: str) -> dict[int, str]:
    """The words at one edit from a word, by the number of their stem, the shortest of each stem.

    The edits are Damerau's four ("A technique for computer detection and correction of spelling
    errors", 1964), after the first letter, which is hardly ever wrong.
    """
    found: dict[int, str] = {}
    for other in sorted(_one_edit_away(word), key=lambda other: (len(other), other)):
        found.setdefault(term_id(stem(other)), other)
    return found


def likeliest(word: str, frequencies: Mapping[int, int]) -> str | None:
    """The spelling that most chunks hold, None where all are rare.

    ``frequencies`` says in how many chunks each stem of the word's `spellings` occurs.
    """
    counted = ((frequencies.get(term, 0), other) for term, other in spellings(word).items())
    chunks, spelling = max(counted, default=(0, ""))
    return spelling if chunks >= MIN_CHUNKS else None


def replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """A text with some words, given in lower case, replaced; capitals are kept."""
    if not replacements:
        return text
    words = "|".join(sorted(map(re.escape, replacements), key=len, reverse=True))
    return re.sub(
        words,
        lambda found: _with_case_of(found[0], replacements[found[0].lower()]),
        text,
        flags=re.IGNORECASE,
    )


def max_edits(word: str) -> int:
    """How many edits a word of this length may be corrected by."""
    return (len(word) >= ONE_EDIT_FROM) + (len(word) >= TWO_EDITS_FROM)


def edit_distance(first: str, second: str) -> int:
    """The optimal string alignment distance: omitted, added, replaced and swapped letters.

    It takes len(first) * len(second) steps.
    """
    before: list[int] = []
    above = list(range(len(second) + 1))
    for place, letter in enumerate(first, 1):
        row = [place]
        for column, other in enumerate(second, 1):
            least = min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != other))
            if (
                place > 1
                and column > 1
                and letter == second[column - 2]
                and other == first[place - 2]
            ):
                least = min(least, before[column - 2] + 1)
            row.append(least)
        before, above = above, row
    return above[-1]


def _with_case_of(before: str, word: str) -> str:
    if before.isupper():
        return word.upper()
    return word.capitalize() if before[0].isupper() else word


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and len(split_word(word)) == 1


def _one_edit_away(word: str) -> set[str]:
    cuts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    missing = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    other = {head + letter + tail[1:] for head, tail in cuts if tail for letter in ascii_lowercase}
    added = {head + letter + tail for head, tail in cuts for letter in ascii_lowercase}
    return (missing | swapped | other | added) - {word}
