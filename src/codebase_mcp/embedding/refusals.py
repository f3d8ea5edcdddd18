"""Which text is the reason that a service refuses a batch?

A batch that is refused is halved until the text is alone. Of that, as much as is taken from its
beginning is embedded: it may be longer than the model reads, and not every service cuts by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from codebase_mcp.embedding.failures import Failure, Patience

# No service fails on it, and it costs a token: the dimension, and whether the service works at all.
PROBE = "text"

# Ten texts refused and none accepted are no bad luck with texts.
_TOO_MANY = 10

# How far a text is shortened before it is given up.
_SHORTEST = 200

Row = Sequence[float]
Ask = Callable[[Sequence[str], Patience], Awaitable[list[Row]]]


@dataclass(slots=True)
class Tally:
    """How the texts of one call fared."""

    accepted: int = 0
    refused: int = 0
    last: Failure | None = None

    def accept(self, rows: list[Row]) -> list[Row]:
        """These rows were answered."""
        self.accepted += len(rows)
        return rows

    def spoil(self, count: int) -> None:
        """Some that seemed accepted have no usable vector."""
        if count:
            self.accepted -= count
            self.refused += count
            self.last = Failure("a vector that is not finite", status=200, kind="broken")

    def judge(self) -> None:
        """Whether the service is at fault, and not some texts.

        Raises:
            Failure: it took none of too many.
        """
        if self.last is not None and self.refused >= _TOO_MANY and not self.accepted:
            raise self.last


async def rows_of(texts: Sequence[str], ask: Ask, patience: Patience, tally: Tally) -> list[Row]:
    """The rows of a batch; those of texts that are refused are empty.

    Raises:
        Failure: the service is away, or takes no text at all.
    """
    try:
        return tally.accept(await ask(texts, patience))
    except Failure as failure:
        if not failure.may_be_a_text:
            raise
        await ask([PROBE], patience)  # is it the texts, or the service?
        return await _divided(texts, ask, failure, replace(patience, tries=2), tally)


async def _divided(
    texts: Sequence[str], ask: Ask, failure: Failure, patience: Patience, tally: Tally
) -> list[Row]:
    """The rows of a batch that was refused, by its halves."""
    if len(texts) == 1:
        return [await _shortened(texts[0], ask, failure, patience, tally)]
    rows: list[Row] = []
    middle = len(texts) // 2
    for half in (texts[:middle], texts[middle:]):
        try:
            rows += tally.accept(await ask(half, patience))
        except Failure as worse:
            if not worse.may_be_a_text:
                raise
            rows += await _divided(half, ask, worse, patience, tally)
    return rows


async def _shortened(
    text: str, ask: Ask, failure: Failure, patience: Patience, tally: Tally
) -> Row:
    """The row of as much of a text as is taken; empty where nothing is."""
    length = len(text) // 2
    while length >= _SHORTEST:
        try:
            return tally.accept(await ask([text[:length]], patience))[0]
        except Failure as again:
            if not again.may_be_a_text:
                raise
            length //= 2
    tally.refused, tally.last = tally.refused + 1, failure
    tally.judge()
    return ()
