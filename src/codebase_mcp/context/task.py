"""What does a task say? Traces, messages of compilers and tests, names, quotes, paths, changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_TASK_CHARS = 50_000

Origin = Literal["trace", "compiler", "test", "change", "mention"]
"""Where in a task a path stands: a stack trace, the output of a compiler or of a test run, a diff,
or the text."""


@dataclass(frozen=True, slots=True)
class TaskPath:
    """A path in a task, as it stands there; it may be from another machine.

    ``line`` is 1-based. ``symbol`` is the function that a trace names. ``frame`` counts the frames
    of a trace from the innermost, which is 1. ``is_library`` marks frames of installed packages, of
    the language's own library and of its runtime.
    """

    path: str
    origin: Origin
    line: int | None = None
    symbol: str | None = None
    frame: int | None = None
    is_library: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its parts.

    ``title`` is its first sentence. ``sentences`` say what is wrong or wanted, in their order,
    without templates, check lists, tables of the environment, logs, traces and code. ``names`` are
    identifiers, the most telling first; ``messages`` are quoted or logged texts that code may hold
    literally; ``paths`` the files that it names; ``changed`` the words of a diff's changed lines.
    """

    text: str
    title: str
    sentences: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    paths: tuple[TaskPath, ...] = ()
    changed: tuple[str, ...] = ()


def read_task(text: str) -> Task:
    """The parts of a task."""
    title = next(iter(text.strip().splitlines()), "")
    return Task(text, title, (title,))
