"""Which text of a batch does a service refuse?

A refused batch is bisected until a single text is left. That text is shortened until it is
accepted: it may be longer than the model reads, and not every service truncates by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from codebase_mcp.embedding.failures import Failure, RetryPolicy

# One token that no service refuses: shows the dimension, and whether the service works at all.
PROBE = "text"

# Ten texts refused and none accepted: the service is at fault, not the texts.
_MAX_REFUSED = 10

# A text that is refused at this length is given up.
_MIN_CHARS = 200

Row = Sequence[float]
SendBatch = Callable[[Sequence[str], RetryPolicy], Awaitable[list[Row]]]


@dataclass(slots=True)
class RefusalCount:
    """How many texts of one call were accepted and refused."""

    accepted: int = 0
    refused: int = 0
    last_failure: Failure | None = None

    def accept(self, rows: list[Row]) -> list[Row]:
        """Count the rows of accepted texts, and return them."""
        self.accepted += len(rows)
        return rows

    def reject_vectors(self, number: int) -> None:
        """Count accepted texts whose vectors are unusable as refused."""
        if number:
            self.accepted -= number
            self.refused += number
            self.last_failure = Failure(
                "a vector that is not finite", status=200, kind="service_error"
            )

    def raise_if_all_refused(self) -> None:
        """Check that the service accepts some texts.

        Raises:
            Failure: many texts were refused and none accepted.
        """
        if self.last_failure is not None and self.refused >= _MAX_REFUSED and not self.accepted:
            raise self.last_failure


async def embed_skipping_refused(
    texts: Sequence[str], ask: SendBatch, policy: RetryPolicy, count: RefusalCount
) -> list[Row]:
    """The rows of a batch; the row of a refused text is empty.

    Raises:
        Failure: the service is unreachable, or refuses every text.
    """
    try:
        return count.accept(await ask(texts, policy))
    except Failure as failure:
        if not failure.may_be_caused_by_text:
            raise
        await ask([PROBE], policy)  # tells a refused text from a broken service
        return await _bisected(texts, ask, failure, replace(policy, max_attempts=2), count)


async def _bisected(
    texts: Sequence[str], ask: SendBatch, failure: Failure, policy: RetryPolicy, count: RefusalCount
) -> list[Row]:
    """The rows of a refused batch, from its halves."""
    if len(texts) == 1:
        return [await _truncated(texts[0], ask, failure, policy, count)]
    rows: list[Row] = []
    middle = len(texts) // 2
    for half in (texts[:middle], texts[middle:]):
        try:
            rows += count.accept(await ask(half, policy))
        except Failure as refusal:
            if not refusal.may_be_caused_by_text:
                raise
            rows += await _bisected(half, ask, refusal, policy, count)
    return rows


async def _truncated(
    text: str, ask: SendBatch, failure: Failure, policy: RetryPolicy, count: RefusalCount
) -> Row:
    """The row of the longest accepted beginning of a text; empty where none is accepted."""
    length = len(text) // 2
    while length >= _MIN_CHARS:
        try:
            return count.accept(await ask([text[:length]], policy))[0]
        except Failure as refusal:
            if not refusal.may_be_caused_by_text:
                raise
            length //= 2
    count.refused, count.last_failure = count.refused + 1, failure
    count.raise_if_all_refused()
    return ()
