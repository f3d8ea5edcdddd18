"""What is asked of an index? Questions made of its own code, the same ones each time.

Nothing here looks at how the search ranks, and nothing of the annotated evaluation is used.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.text.tokens import (
    ALL_CHUNKS,
    STOP_WORDS,
    split_word,
    term_id,
    word_stems,
    words_of,
)

Kind = Literal["sentence", "symbol", "words of a name", "misspelt", "only common words", "long"]

HOW_MANY: dict[Kind, int] = {
    "sentence": 20,
    "symbol": 12,
    "words of a name": 10,
    "misspelt": 10,
    "only common words": 10,
    "long": 8,
}
AT_LEAST = 60
OWN_QUESTIONS = 30
SENTENCES_OF_A_TEXT = 3
SEED = 7

# A word is common when it stands in so large a share of the chunks.
COMMON_SHARE = 0.05
LONG_CHARS = 200

_SAMPLED_TEXTS = 2_000
_SENTENCE = re.compile(
    r"""(?:\"{3}|'{3}|/\*\*?|//[/!]?|\#+|--|;+)\s*(?:\*\s*)?"""
    r"""([A-Z][a-z]+[ a-zA-Z,'`()-]{20,120})\."""
)
_LEGAL = re.compile(r"licen[sc]e|copyright|warrant|rights|author|redistribut", re.IGNORECASE)

_TEXTS = """
SELECT text
FROM blob
WHERE id IN (SELECT blob_id FROM file WHERE kind = 'code') AND length(text) > 400
ORDER BY md5(text)
LIMIT %(limit)s
"""
_NAMES = """
SELECT name
FROM symbol
WHERE length(name) BETWEEN 8 AND 40 AND kind IN ('function', 'method', 'class')
GROUP BY name
ORDER BY md5(name)
LIMIT %(limit)s
"""
_NAMES_WITHIN = """
SELECT y.name
FROM symbol AS y
JOIN file AS f ON f.blob_id = y.blob_id
JOIN snapshot AS s ON s.id = f.snapshot_id
WHERE s.active
  AND s.repository_id = %(repository_id)s
  AND starts_with(f.path, %(directory)s || '/')
  AND length(y.name) BETWEEN 4 AND 40
GROUP BY y.name
ORDER BY count(*) DESC, md5(y.name)
LIMIT %(limit)s
"""
_FREQUENCIES = """
SELECT term, sum(chunks)::integer
FROM term_frequency
WHERE term = ANY(%(terms)s::integer[])
GROUP BY term
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A text to search for, and what kind of a question it is."""

    kind: Kind
    text: str


async def make_questions(tx: Transaction) -> list[Question]:
    """Some seventy questions of all kinds, in an order that mixes them."""
    chance = random.Random(SEED)
    texts = [row[0] for row in await tx.fetch_all(_TEXTS, limit=_SAMPLED_TEXTS)]
    names = [row[0] for row in await tx.fetch_all(_NAMES, limit=400)]
    sentences = list(dict.fromkeys(s for text in texts for s in _sentences(text)))
    compounds = [" ".join(parts) for name in names if len(parts := split_word(name)) >= 3]
    chance.shuffle(sentences)
    common = await _common_words(tx, texts)
    made: dict[Kind, Iterable[str]] = {
        "sentence": sentences[: HOW_MANY["sentence"]],
        "symbol": names[: HOW_MANY["symbol"]],
        "words of a name": compounds[: HOW_MANY["words of a name"]],
        "misspelt": (misspelt(s, chance) for s in _short([*sentences[100:], *compounds[20:]])),
        "only common words": _groups(common, chance) if len(common) >= 3 else (),
        "long": long_ones(sentences[HOW_MANY["sentence"] :]),
    }
    found = [
        Question(kind, text)
        for kind, some in made.items()
        for text, _ in zip(some, range(HOW_MANY[kind]), strict=False)
    ]
    if len(found) < AT_LEAST:
        raise SystemExit(
            f"This code gives only {len(found)} questions: {Counter(map(_kind, found))}"
        )
    chance.shuffle(found)
    return found


async def questions_within(tx: Transaction, repository_id: UUID, directory: str) -> list[Question]:
    """Questions that a directory has many answers to: the words of its most frequent names."""
    rows = await tx.fetch_all(
        _NAMES_WITHIN, repository_id=repository_id, directory=directory, limit=OWN_QUESTIONS
    )
    return [Question("words of a name", " ".join(split_word(name))) for (name,) in rows]


def misspelt(text: str, chance: random.Random) -> str:
    """A text whose longest word has lost a letter, or has two letters in the wrong order."""
    word = max(words_of(text), key=len)
    place = chance.randrange(1, len(word) - 1)
    if chance.random() < 0.5:
        wrong = word[:place] + word[place + 1 :]
    else:
        wrong = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return text.replace(word, wrong, 1)


def long_ones(sentences: Sequence[str]) -> list[str]:
    """Neighbouring sentences put together until they are long."""
    found, together = [], ""
    for sentence in sentences:
        together = f"{together} {sentence}.".strip()
        if len(together) >= LONG_CHARS:
            found.append(together)
            together = ""
    return found


def _kind(question: Question) -> str:
    return question.kind


def _sentences(text: str) -> list[str]:
    """The first sentences of a text's comments that say something of its own."""
    found = (" ".join(match[1].split()) for match in _SENTENCE.finditer(text[:20_000]))
    own = (one for one in found if 4 <= len(one.split()) <= 18 and not _LEGAL.search(one))
    return list(islice(own, SENTENCES_OF_A_TEXT))


def _short(texts: Iterable[str]) -> list[str]:
    """What somebody would type: some words, one of them long enough to be misspelt."""
    return [t for t in texts if len(t.split()) <= 8 and max(map(len, words_of(t)), default=0) >= 5]


async def _common_words(tx: Transaction, texts: Sequence[str]) -> list[str]:
    """Words of one part that stand in a large share of the chunks, most frequent first."""
    counted = Counter(word for text in texts for word in set(words_of(text[:8_000])))
    stems = {
        word: word_stems(word)[0]
        for word, _ in counted.most_common(3_000)
        if word.islower() and word not in STOP_WORDS and len(word_stems(word)) == 1
    }
    terms = [ALL_CHUNKS, *map(term_id, stems.values())]
    chunks: dict[int, int] = dict(await tx.fetch_all(_FREQUENCIES, terms=terms))
    least = COMMON_SHARE * chunks[ALL_CHUNKS]
    by_stem = {stem: word for word, stem in stems.items() if chunks.get(term_id(stem), 0) > least}
    return list(by_stem.values())


def _groups(words: Sequence[str], chance: random.Random) -> list[str]:
    """Questions of three to five of the words each."""
    sizes = [chance.randint(3, min(5, len(words))) for _ in range(HOW_MANY["only common words"])]
    return [" ".join(chance.sample(words, size)) for size in sizes]
