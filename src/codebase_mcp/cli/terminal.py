"""The console that shows tables, replies, code and progress to a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from codebase_mcp.printable import printable

if TYPE_CHECKING:
    from codebase_mcp.index.progress import RunProgress

# The heading of a search result or of a file that a task needs, and a line of its code.
_HEADING = re.compile(
    r"\d+\. (?P<path>.+?)(?P<lines>:\d+-\d+)?(?P<score>  \d\.\d\d(?: [a-z]+)?)"
    r"(?P<symbol>  [^(].*?)?(?P<why>  \(.*\))?"
)
_CODE = re.compile(r"(?P<number> *\d+(?:  |$))(?P<code>.*)")
# The styles of parts of a reply's text; where they overlap, the later style is added.
_STYLES = tuple(
    (re.compile(pattern), style)
    for pattern, style in (
        (r"^(?:   (?! )| *…|\[|also: |more \(|less likely: |definitions not compared).*", "dim"),
        (r"^M .*", "bold"),
        (r"^[AR] .*|^    \+ .*", "green"),
        (r"^D .*|^    - .*", "red"),
        (r"^    ~ .*|^Read \d.*|^Nothing here.*|^(?:Not|Read|In|Changed between) .*\.$", "yellow"),
        (r"^    > .*", "cyan"),
        (r"^impact .*|^\S+\.\.\.\S+: .*", "bold"),
        (r"^\d+\. (?=[0-9a-f]{10} )", "dim"),
        (r"\b[0-9a-f]{10}(?= \d{4}-\d\d-)", "yellow"),
        (r"(?<=  )[01]\.\d\d(?=  |$| )", "green"),
        (r"(?<![\w/.-])[\w.@/+-]+[/.][\w.@/+-]*:\d+(?:[-,]\d+)*", "cyan"),
    )
)


class Terminal(Console):
    """A console for untrusted text: none of it is markup or a control sequence."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(
            stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable, their text without control sequences."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=printable(piece.text))

    def print_reply(self, text: str) -> None:
        """Print the text of a reply in colour: paths of results link to files, code is cut to the
        width of the terminal."""
        painter: Syntax | None = None
        for line in text.split("\n"):
            if heading := _HEADING.fullmatch(line):
                path = heading["path"]
                lexer = Syntax.guess_lexer(path)
                painter = Syntax("", lexer, theme="ansi_dark", background_color="default")
                shown = _heading(line, heading)
            elif painter and (code := _CODE.fullmatch(line)):
                highlighted = painter.highlight(code["code"])
                highlighted.rstrip()
                shown = Text.assemble((code["number"], "dim"), highlighted)
            else:
                self.print(_styled(line))
                continue
            self.print(shown, no_wrap=True, overflow="ellipsis")


console = Terminal()


@contextmanager
def shown_bar() -> Iterator[Callable[[RunProgress], None]]:
    """A bar on standard error if that is a terminal, and the function that updates it."""
    from rich import progress as parts  # noqa: PLC0415 - not for each command that prints

    console = Terminal(stderr=True)
    with parts.Progress(
        parts.SpinnerColumn(),
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TextColumn("{task.fields[speed]}", style="progress.data.speed"),
        parts.TimeElapsedColumn(),
        parts.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        shown = bar.add_task("Starting", total=None, speed="")

        def report(progress: RunProgress) -> None:
            speed = bar.tasks[shown].speed
            bar.update(
                shown,
                description=progress.message,
                completed=progress.done,
                total=progress.total or None,
                speed=f"{speed:.0f} files/s" if speed else "",
            )

        yield report


def _heading(line: str, heading: re.Match[str]) -> Text:
    shown = Text(line)
    file = Path(heading["path"]).absolute()
    link = file.as_uri() if file.is_file() else None
    shown.stylize("dim", 0, heading.start("path"))
    shown.stylize(Style(color="cyan", bold=True, link=link), *heading.span("path"))
    styles = {"lines": "cyan", "score": "green", "symbol": "magenta", "why": "dim"}
    for part, style in styles.items():
        if heading[part]:
            shown.stylize(style, *heading.span(part))
    return shown


def _styled(line: str) -> Text:
    shown = Text(line)
    for pattern, style in _STYLES:
        for match in pattern.finditer(line):
            shown.stylize(style, *match.span())
    return shown
