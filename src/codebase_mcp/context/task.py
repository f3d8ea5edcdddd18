"""What does a task say? Traces, messages of compilers and tests, names, quotes, paths, changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.context.diffs import read_diff, without_log
from codebase_mcp.context.messages import bare_message, distinct, quoted, read_failures
from codebase_mcp.context.names import (
    code_spans,
    names_of_code,
    names_of_prose,
    names_of_span,
    quoted_names,
    unique,
)
from codebase_mcp.context.outputs import read_output
from codebase_mcp.context.paths import Origin, TaskPath, mentioned_paths
from codebase_mcp.context.prose import MAX_SENTENCE_CHARS, Prose, read_prose, without_urls
from codebase_mcp.context.traces import read_traces

__all__ = ["Origin", "Task", "TaskPath", "read_task"]

MAX_NAMES = 60
MAX_MESSAGES = 12
MAX_SENTENCES = 40
MAX_PATHS = 200

# Colours, and what a service that runs programs puts before each line of their output.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07]{0,100}\x07|[\u200b\ufeff]")
_PREFIX_STARTS = frozenset("+12")
_LINE_PREFIX = re.compile(
    r"(?:[A-Za-z][\w.-]{0,40}[-_]\d+ {0,20}\| ?)?(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ?)?"
    # the lines of an exception group
    r"(?: {0,40}[|+] {1,20}(?=File \"|Exception Group|\w+(?:Error|Exception|Group)\b))?"
)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its parts.

    ``title`` is its first sentence. ``sentences`` say what is wrong or wanted, in their order,
    without templates, check lists, tables of the environment, logs, traces and code. ``names`` are
    identifiers, the most telling first; ``messages`` are quoted or logged texts that code may hold
    literally; ``paths`` the files that it names; ``changed`` the words of a diff's changed lines,
    ``around`` those of the lines between, and ``removed`` the longest lines that it removes, which
    other files may have too.
    ``scopes`` are the components that a title's prefix names: ``router`` of "fix(router): …".
    """

    text: str
    title: str
    sentences: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    paths: tuple[TaskPath, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()


def read_task(text: str) -> Task:
    """The parts of a task; no text is invalid, and only its first `MAX_TASK_CHARS` are read."""
    cut = _ESCAPES.sub("", text[:MAX_TASK_CHARS].replace("\r\n", "\n").replace("\r", "\n"))
    lines = [
        _LINE_PREFIX.sub("", line, count=1)
        if "|" in line or line[:4].strip()[:1] in _PREFIX_STARTS
        else line
        for line in cut.split("\n")
    ]
    lines = list(without_log(lines))
    diff = read_diff(lines)
    traces = read_traces(lines, diff.lines)
    output = read_output(lines, diff.lines | traces.lines, cut)
    failures = read_failures(lines, diff.lines | output.read)
    skip = diff.lines | traces.lines | output.lines | failures.lines
    prose = read_prose(lines, skip)
    titled = read_failures([prose.title], frozenset())
    symbols = [frame.symbol for frame in traces.frames if frame.symbol and not frame.is_library]
    blamed = chain.from_iterable(map(quoted_names, [*failures.messages, *output.messages]))
    evidence = [*_symbols(symbols), *blamed, *titled.errors, *failures.errors, *output.names]
    messages = distinct(
        chain(
            chain.from_iterable(map(quoted, prose.paragraphs)),
            map(bare_message, chain(titled.messages, failures.messages, output.messages)),
            output.titles,
        ),
        MAX_MESSAGES,
    )
    title = prose.title or next(iter([*failures.messages, *messages, *output.titles]), "")
    others = (line.strip() for number, line in enumerate(lines) if number not in diff.lines)
    title = (title or next(filter(None, others), ""))[:MAX_SENTENCE_CHARS]
    return Task(
        text=text,
        title=title,
        sentences=prose.sentences(MAX_SENTENCES) or ((title,) if title else ()),
        names=unique(_names(prose, evidence, output.messages), MAX_NAMES),
        messages=messages,
        paths=_paths(chain(traces.frames, output.paths, diff.paths, _mentions(prose))),
        changed=diff.words,
        removed=diff.removed,
        around=diff.around,
        scopes=prose.scopes,
    )


def _symbols(symbols: Iterable[str]) -> Iterator[str]:
    """Names of functions, with and without their types."""
    for symbol in symbols:
        yield symbol
        if "." in symbol:
            owner, _, name = symbol.partition(".")
            yield from (name, owner)


def _names(prose: Prose, evidence: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """Names, the most telling first: of code spans, of traces and tests, of sentences, of code."""
    texts = [*prose.paragraphs, *prose.folded, *prose.quoted]
    for text in texts:
        for span in code_spans(text):
            yield from names_of_span(span)
    yield from names_of_prose(prose.title)
    yield from evidence
    for text in texts:
        yield from names_of_prose(without_urls(text))
    for text in chain(outputs, prose.code):
        yield from names_of_code(text[:1_000])


def _mentions(prose: Prose) -> Iterator[TaskPath]:
    for text in chain(prose.paragraphs, prose.folded, prose.quoted, prose.code):
        yield from mentioned_paths(text)


def _paths(paths: Iterable[TaskPath]) -> tuple[TaskPath, ...]:
    """The paths, each with its line once; without mentions of files that are named elsewhere."""
    kept: dict[tuple[str, int | None, int | None], TaskPath] = {}
    names: set[str] = set()
    for path in paths:
        if path.origin == "mention" and path.line is None and path.path in names:
            continue
        names.add(path.path)
        kept.setdefault((path.path, path.line, path.frame), path)
        if len(kept) == MAX_PATHS:
            break
    return tuple(kept.values())
