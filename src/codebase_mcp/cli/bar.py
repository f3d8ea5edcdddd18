"""How does a person at a terminal see the progress of a run?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.index.progress import RunProgress


@contextmanager
def shown_bar() -> Iterator[Callable[[RunProgress], None]]:
    """A bar on standard error if that is a terminal, and the function that updates it."""
    console = Terminal(stderr=True)
    with Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        shown = bar.add_task("Starting", total=None)

        def report(progress: RunProgress) -> None:
            bar.update(
                shown,
                description=progress.message,
                completed=progress.done,
                total=progress.total or None,
            )

        yield report


class _Rate(ProgressColumn):
    """Files a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.0f} files/s" if speed else "", style="progress.data.speed")
