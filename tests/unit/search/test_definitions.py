"""Which definition of a file answers, and which of its lines."""

from __future__ import annotations

from functools import cache

from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.definitions import (
    Enclosing,
    Part,
    Weights,
    WordCounter,
    matching_lines,
    parts_of,
    score_parts,
)
from codebase_mcp.text.tokens import stem, term_id

SHOP = '''\
import bank

LIMIT = 3


class Gateway:
    """Talks to the bank."""

    timeout = 5

    def charge(self, card, amount):
        for attempt in range(LIMIT):
            if bank.withdraw(card, amount):
                return attempt

    def refund(self, payment):
        bank.deposit(payment.card, payment.amount)
'''.splitlines(keepends=True)
GATEWAY = Enclosing("Gateway", "class", 6, 17, 0)
CHARGE = Enclosing("Gateway.charge", "method", 11, 14, 1)
REFUND = Enclosing("Gateway.refund", "method", 16, 17, 1)
TIMEOUT = Enclosing("Gateway.timeout", "property", 9, 9, 1)
LIMIT = Enclosing("LIMIT", "constant", 3, 3, 0)
ALL = (GATEWAY, CHARGE, REFUND, TIMEOUT, LIMIT)


@cache
def model() -> StaticEmbedder:
    return StaticEmbedder.load()


def weights(*words: str, question: str | None = None) -> Weights:
    spoken = {term_id(stem(word)): 2.0 for word in words}
    vector = None if question is None else model().encode_query(question)
    return Weights(WordCounter(), spoken, {}, model(), vector)


def parts() -> list[Part]:
    return parts_of([(1, 17, 1.0)], ALL, SHOP)


def test_a_line_belongs_to_the_innermost_definition_and_fields_to_what_holds_them() -> None:
    found = {part.symbol: part for part in parts()}
    assert found[None].own == (1, 3)
    assert found["Gateway"].own == (6, 7, 9)
    assert found["Gateway.charge"].own == (11, 12, 13, 14)
    assert (found["Gateway"].start_line, found["Gateway"].end_line) == (6, 17)
    assert found["Gateway.refund"].kind == "method"


def test_a_definition_has_its_own_range_also_where_a_chunk_holds_a_part_of_it() -> None:
    [part] = parts_of([(12, 13, 0.5)], ALL, SHOP)
    assert (part.symbol, part.start_line, part.end_line, part.own) == (
        "Gateway.charge", 11, 14, (12, 13)
    )  # fmt: skip
    assert (part.strength, part.best) == (0.5, 0.5)


def best(asked: Weights) -> str | None:
    found = parts()
    scores = score_parts(found, [SHOP] * len(found), asked)
    return max(zip(scores, found, strict=True), key=lambda scored: scored[0])[1].symbol


def test_words_meaning_and_name_decide_which_definition_it_is() -> None:
    assert best(weights("refund", "payment", question="refund payment")) == "Gateway.refund"
    assert best(weights(question="withdraw money from a card and try again")) == "Gateway.charge"


def test_the_lines_that_say_most_of_what_is_asked_come_first() -> None:
    charge = next(part for part in parts() if part.symbol == "Gateway.charge")
    [lines] = matching_lines([charge], [SHOP], weights("withdraw", "card"))
    assert lines[0] == 13
    assert set(lines) <= set(charge.own)
