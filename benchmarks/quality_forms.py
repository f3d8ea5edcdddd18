"""How else do people write the same question? Pure and deterministic.

Politely, with a sentence about their day before it, with typing errors, without capitals, with the
words in another order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

SEED = 6

_IS_QUESTION = re.compile(r"(?:how|what|where|which|why|when)\b", re.IGNORECASE)
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")

_POLITE_QUESTION = (
    "could you please tell me {}",
    "hi, can you explain to me {}, please?",
    "I would like to know {}",
    "please help me understand {}, thank you",
    "would you mind showing me {}?",
)
_POLITE_SUBJECT = (
    "could you please show me where the code for {} is",
    "hello, I am looking for {}, thanks in advance",
    "please find the place that deals with {}",
    "can you help me locate {}, please?",
    "where would I find {}? thank you very much",
)
_CONTEXT = (
    "I just joined the team and I am still finding my way around.",
    "We had a complaint from a customer yesterday.",
    "I have been reading this all morning and I am lost.",
    "My colleague who wrote this is on holiday.",
    "This is probably a stupid question.",
    "We are planning the next release and somebody asked about it in the meeting.",
    "I looked at the documentation but found nothing.",
    "There was a discussion about this last week and nobody knew the answer.",
)

# Typing errors: two letters in the wrong order, one twice, one missing.
_TYPING_ERRORS: tuple[Callable[[str, int], str], ...] = (
    lambda word, at: word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    lambda word, at: word[:at] + word[at] + word[at:],
    lambda word, at: word[:at] + word[at + 1 :],
)

# With at least this many long words there are two errors.
_WORDS_OF_TWO_ERRORS = 4


def polite(text: str, chance: random.Random) -> str:
    """As people ask each other."""
    asking = _POLITE_QUESTION if _IS_QUESTION.match(text) else _POLITE_SUBJECT
    return chance.choice(asking).format(text)


def chatty(text: str, chance: random.Random) -> str:
    """A sentence of context before it."""
    return f"{chance.choice(_CONTEXT)} {text[:1].upper()}{text[1:]}"


def misspelt(text: str, chance: random.Random) -> str:
    """A typing error in one of its longer words, or in two of many; never in the first letter."""
    words = list(_LONG_WORD.finditer(text))
    errors = min(len(words), 2 if len(words) >= _WORDS_OF_TWO_ERRORS else 1)
    for match in sorted(chance.sample(words, errors), key=lambda m: -m.start()):
        text = text[: match.start()] + _mistyped(match[0], chance) + text[match.end() :]
    return text


def lower_cased(text: str, chance: random.Random) -> str:
    """Without capitals."""
    del chance
    return text.lower()


def shuffled(text: str, chance: random.Random) -> str:
    """The words in another order; unchanged where there is no other order."""
    words = text.split()
    order = list(words)
    for _ in range(10):
        chance.shuffle(order)
        if order != words:
            break
    return " ".join(order)


FORMS: Mapping[str, Callable[[str, random.Random], str]] = {
    "polite": polite,
    "chatty": chatty,
    "misspelt": misspelt,
    "lower-cased": lower_cased,
    "shuffled": shuffled,
}


def in_form(form: str, text: str) -> str:
    """A question in one of `FORMS`; the same text always gets the same form."""
    return FORMS[form](text, random.Random(f"{SEED} {form} {text}"))


def _mistyped(word: str, chance: random.Random) -> str:
    """The word with one typing error that changes it."""
    misspellings = [
        wrong
        for make_error in _TYPING_ERRORS
        for at in range(1, len(word) - 1)
        if (wrong := make_error(word, at)) != word
    ]
    return chance.choice(misspellings)
