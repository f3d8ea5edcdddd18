"""Which words does a text have, and which terms in the word index?

The same splitter serves indexing and queries, the word index and the vectors, so that all agree.
A *word* is a run of word characters as written (``parseHTTPHeader``, ``max_retries``); its *parts*
are separated by camelCase, snake_case and digits, in lower case; a *term* is what the word index
stores: the stem of each part and of the whole identifier, as a stable number.

``TOKENS_VERSION`` is part of an index's profile: raise it when any output below changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

import Stemmer

TOKENS_VERSION = 2

# pgvector's sparsevec has at most this many dimensions, so terms are numbers below it.
TERM_SPACE = 1_000_000_000

# Not a term: document frequencies hold the number of all chunks under this number.
ALL_CHUNKS = -1

# Longer runs are encoded data, not words that a query contains.
MAX_WORD_CHARS = 64

WORD = re.compile(r"\w+")
# "URLs" is a single part, "HTTPServer" has two.
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PART_BEYOND_ASCII = re.compile(r"[^\W\d_]+|\d+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{3,}")

# Words of English questions that say nothing about the code they ask for.
STOP_WORDS = frozenset(
    """a about all also an and any are as at be because been being both but by can could did do
    does done each for from had has have how i if in into is it its just like me more most my no
    not of on one only or other our out over so some such than that the their them then there these
    they this those through to under until up us used uses using very was we were what when where
    which while who why will with within without would you your""".split()
)

# Suffixes of actors and actions. In file names "router", "routing" and "route" mean the same, and
# so do "serialized" and "Serializer". Longest first. Long endings need a stem of four letters, so
# that "create" and "creation" still share "creat".
_LONG_ENDINGS = (
    "izations", "isations", "ization", "isation", "ations", "izers", "isers", "ators", "izing",
    "ising", "ating", "ation", "izer", "iser", "ized", "ised", "izes", "ises", "ator", "ated",
    "ates", "ize", "ise", "ate",
)  # fmt: skip
_SHORT_ENDINGS = (
    "ments", "ment", "ables", "able", "ibles", "ible", "ings", "ing", "ions", "ion", "ers", "ors",
    "er", "or", "ed", "es", "e", "s", "y",
)  # fmt: skip
_ACTION_ENDINGS = tuple((e, 4) for e in _LONG_ENDINGS) + tuple((e, 3) for e in _SHORT_ENDINGS)

# Without the stemmer's own cache, which is slower than stemming.
_stem_word: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord


@lru_cache(maxsize=50_000)
def stem(part: str) -> str:
    """The Snowball (English) stem of a lower-case part."""
    return _stem_word(part)


@lru_cache(maxsize=50_000)
def aggressive_stem(part: str) -> str:
    """A shorter stem than `stem`'s, for file names: the same for router, routing and routes."""
    for ending, letters in _ACTION_ENDINGS:
        if part.endswith(ending) and len(part) - len(ending) >= letters:
            bare = part[: -len(ending)]
            # "mapper" and "mapping" leave a doubled consonant that "map" has not.
            return bare[:-1] if bare[-1] == bare[-2] and bare[-1] not in "aeiousl" else bare
    return part


@lru_cache(maxsize=20_000)
def split_word(word: str) -> tuple[str, ...]:
    """The parts of a word in lower case: ``parseHTTPHeader2`` gives parse, http, header, 2."""
    if word.isascii():
        return tuple([part.lower() for part in _PART.findall(word)])
    parts = []
    for part in _PART_BEYOND_ASCII.findall(word):
        if _UNSPACED.search(part):  # a script without spaces between words: bigrams of characters
            parts += [part[i : i + 2] for i in range(len(part) - 1)]
        else:
            parts.append(part.lower())
    return tuple(parts)


def word_stems(word: str) -> tuple[str, ...]:
    """The stems of a word in the word index: of its parts and, for a compound, of the whole."""
    parts = split_word(word)
    stems = [stem(part) for part in parts if len(part) > 1]
    if len(parts) > 1:
        stems.append(_stem_word("".join(parts)))
    return tuple(stems)


def word_terms(word: str) -> list[int]:
    """The term numbers of a word's stems. Those of parts are cached, as many words share them."""
    parts = split_word(word)
    terms = [_part_term(part) for part in parts if len(part) > 1]
    if len(parts) > 1:
        terms.append(term_id(_stem_word("".join(parts))))
    return terms


@lru_cache(maxsize=100_000)
def _part_term(part: str) -> int:
    return term_id(_stem_word(part))


def term_id(text: str) -> int:
    """A stable number below `TERM_SPACE` for a stem; two stems collide with probability 10⁻⁹."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % TERM_SPACE


def fold(name: str) -> str:
    """A name without case and underscores: form_parser, FormParser → formparser."""
    return name.replace("_", "").casefold()


def words_of(text: str) -> list[str]:
    """The words of a text in order, as written."""
    return WORD.findall(text)


def path_parts(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of a path's stem, and of its directories: ``src/http/url_map.py`` → url, map."""
    *directories, name = path.split("/")
    bare = name.lstrip(".")
    bare = bare.rpartition(".")[0] or bare
    folders = tuple(part for folder in directories for part in split_word(folder))
    return split_word(bare), folders
