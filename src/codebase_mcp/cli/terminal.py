"""How are tables, colours and code shown to a person?"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from codebase_mcp.printable import printable


class Terminal(Console):
    """A console for untrusted text: none of it is markup or a control sequence."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(
            stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces of what is shown."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=printable(piece.text))
