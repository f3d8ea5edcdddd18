"""Which words of this question are probably misspelt, and how might they be meant? Pure.

A slip of the hand leaves a letter out, adds one, takes another or swaps two neighbours. A word that
no chunk holds, and that is no word of the language either, is compared with those that are one slip
away. The index knows words by number alone, so all of those are asked for, some hundreds, in one
statement. Where the words themselves are at hand, those two slips away can be found as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import ascii_lowercase

from codebase_mcp.search.query import Query
from codebase_mcp.tokens import STOP_WORDS, split_word, stem, term_id, words_of

# Among shorter words too many are neighbours.
ONE_SLIP_FROM = 5
TWO_SLIPS_FROM = 7

# A spelling in a single chunk may be a slip itself.
MIN_CHUNKS = 2

_PLAIN = re.compile(r"[A-Za-z]+")


def doubtful_words(
    query: Query, frequencies: Mapping[int, int], is_word: Callable[[str], bool]
) -> list[str]:
    """The words, in lower case, that no chunk holds and that ``is_word`` does not know."""
    words = dict.fromkeys(word.lower() for word in words_of(query.plain) if _is_plain(word))
    return [
        word
        for word in words
        if len(word) >= ONE_SLIP_FROM
        and word not in STOP_WORDS
        and not frequencies.get(term_id(stem(word)))
        and not is_word(word)
        and not is_word(stem(word))
    ]


def spellings(word: str) -> dict[int, str]:
    """What is one slip away from a word, the shortest by the number of each stem.

    Damerau's four slips ("A technique for computer detection and correction of spelling errors",
    1964), after the first letter, which is hardly ever wrong.
    """
    found: dict[int, str] = {}
    for other in sorted(_one_slip_away(word), key=lambda other: (len(other), other)):
        found.setdefault(term_id(stem(other)), other)
    return found


def likeliest(word: str, frequencies: Mapping[int, int]) -> str | None:
    """How the word is probably meant: as the spelling that most chunks hold.

    ``frequencies`` says in how many chunks each stem of its `spellings` occurs.
    """
    counted = ((frequencies.get(term, 0), other) for term, other in spellings(word).items())
    chunks, spelt = max(counted, default=(0, ""))
    return spelt if chunks >= MIN_CHUNKS else None


def respelt(text: str, meant: Mapping[str, str]) -> str:
    """A text with some words, given in lower case, replaced; their capitals as they were."""
    if not meant:
        return text
    words = "|".join(sorted(map(re.escape, meant), key=len, reverse=True))
    return re.sub(
        words, lambda found: _written_as(found[0], meant[found[0].lower()]), text, flags=re.I
    )


def slips_allowed(word: str) -> int:
    """How many slips a word may hold and still say which one was meant."""
    return (len(word) >= ONE_SLIP_FROM) + (len(word) >= TWO_SLIPS_FROM)


def slips_between(first: str, second: str) -> int:
    """How many letters were left out, added, replaced or swapped with their neighbour.

    This is the optimal string alignment distance; it takes len(first) * len(second) steps.
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


def _written_as(before: str, word: str) -> str:
    if before.isupper():
        return word.upper()
    return word.capitalize() if before[0].isupper() else word


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and len(split_word(word)) == 1


def _one_slip_away(word: str) -> set[str]:
    cuts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    missing = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    other = {head + letter + tail[1:] for head, tail in cuts if tail for letter in ascii_lowercase}
    added = {head + letter + tail for head, tail in cuts for letter in ascii_lowercase}
    return (missing | swapped | other | added) - {word}
