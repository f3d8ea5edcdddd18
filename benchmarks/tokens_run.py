"""What does each tool reply to a question? Ours over MCP and as text, semble's, and grep's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fastmcp import Client

from adapter import project_of
from codebase_mcp import App
from codebase_mcp.app.evaluation.grep import (
    MAX_COLUMNS,
    Corpus,
    FileText,
    Match,
    best_matches,
    content_words,
    printed,
)
from codebase_mcp.model import FileKind
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.selection import EVERYTHING
from codebase_mcp.tools.replies.search import search_text
from codebase_mcp.tools.server import AppHolder, server_of
from quality_queries import EvalQuery, Repository
from quality_scoring import DEPTH
from sides import HERE, MODEL
from tokens_replies import (
    Entry,
    Reply,
    Span,
    of_chunks,
    of_entries,
    of_json,
    of_semble,
    of_text,
    span_lines,
)

PUBLISHED_DEPTH = 50

TEXT = "ours, text"
JSON = "ours, JSON over MCP"
CODE = "ours, code alone"
SEMBLE = "semble, over MCP"
SEMBLE_COMMAND = "semble, command"
SEMBLE_CODE = "semble, code alone"
GREP = "grep, matching lines"
GREP_READ = "grep, then 40 lines"
GREP_WHOLE = "grep, then whole files"

CODE_KINDS = (FileKind.CODE, FileKind.TEST)

# How many lines of a file are opened at once where the matches are densest.
WINDOW_LINES = 40

# For each question of a repository, the reply.
Replies = dict[str, list[Reply]]
Keep = Callable[[str, Repository, EvalQuery, str], None]


async def our_replies(app: App, repository: Repository, keep: Keep) -> Replies:
    """What we send as JSON, what we write as text, and the code of the chunks alone."""
    project = project_of(repository.root)
    replies: Replies = {name: [] for name in (TEXT, JSON, CODE)}

    async def opened() -> App:
        return app

    server = server_of(AppHolder(Settings.load({}), open_app=opened), ["code"], closes=False)
    async with Client(server) as client:
        for asked in repository.asked:
            arguments = {"query": asked.text, "project_id": project}
            sent = await client.call_tool("search_code", arguments)
            body: str = sent.content[0].text
            replies[JSON].append(of_json(body))
            keep(JSON, repository, asked, body)
            read = Request(by_definition=True)
            report = await app.search(asked.text, project, read, with_help=True)
            text = search_text(report)
            replies[TEXT].append(of_text(text))
            keep(TEXT, repository, asked, text)
            many = Request(limit=PUBLISHED_DEPTH, context_lines=0)
            hits = (await app.search(asked.text, project, many)).answer.hits
            replies[CODE].append(
                of_chunks([(h.file_path, h.start_line, h.end_line, len(h.content)) for h in hits])
            )
    return replies


def semble_replies(python: Path, repository: Repository, keep: Keep) -> Replies:
    """What semble sends, prints, and what its published measure reads."""
    command = [str(python), str(HERE / "semble_replies.py"), str(repository.root), str(MODEL)]
    done = subprocess.run(
        command,
        input=json.dumps([asked.text for asked in repository.asked]),
        stdout=subprocess.PIPE,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    for asked, one in zip(repository.asked, told, strict=True):
        keep(SEMBLE, repository, asked, one["mcp"])
    return {
        SEMBLE: [of_semble(one["mcp"]) for one in told],
        SEMBLE_COMMAND: [of_semble(one["command"]) for one in told],
        SEMBLE_CODE: [of_chunks(one["chunks"]) for one in told],
    }


def grep_replies(repository: Repository) -> Replies:
    """What is read of the code files that hold most of the question's words, best file first."""
    corpus = Corpus.of(repository.root, EVERYTHING)
    files = {file.path: file for file in corpus.texts() if file.kind in CODE_KINDS}
    asked = [content_words(one.text) for one in repository.asked]
    matches = best_matches(asked, files.values(), PUBLISHED_DEPTH)
    lines = [
        of_entries(_printed(match, files[match.path]) for match in some[:DEPTH]) for some in matches
    ]
    read = [_listed([(m, files[m.path]) for m in some[:DEPTH]]) for some in matches]
    whole = [of_entries(_whole(files[match.path]) for match in some) for some in matches]
    return {GREP: lines, GREP_READ: read, GREP_WHOLE: whole}


def chars_of_range(root: Path) -> Callable[[str, Span], int]:
    """How many characters a reader takes in for some lines of a file, each after its number."""
    files: dict[str, list[str]] = {}

    def read(path: str, span: Span) -> int:
        if path not in files:
            files[path] = (root / path).read_text("utf-8", errors="replace").splitlines()
        return numbered_chars(files[path], span)

    return read


def numbered_chars(lines: Sequence[str], span: Span) -> int:
    """How many characters some lines have, each after its number; the longest are cut."""
    first, last = span
    shown = enumerate(lines[first - 1 : last], first)
    return sum(len(f"{number}  {line[:MAX_COLUMNS]}\n") for number, line in shown)


def _printed(match: Match, file: FileText) -> Entry:
    shown = printed(match, file)
    spans = tuple(place.span for place in shown.places if place.span)
    return Entry(file.path, shown.chars, span_lines(*spans), spans)


def _listed(found: Sequence[tuple[Match, FileText]]) -> Reply:
    """The names of the files first, then of one after the other where the matches are densest."""
    names = sum(len(file.path) + 1 for _, file in found)
    entries = []
    for match, file in found:
        span = densest(match.rows, len(file.lines))
        shown = span_lines(span)
        entries.append(Entry(file.path, numbered_chars(file.lines, span), shown, (span,)))
    return Reply(tuple(entries), names, names + sum(entry.chars for entry in entries))


def densest(rows: int, count: int) -> Span:
    """The lines (1-based) of the first window with the most matching rows (bits)."""
    held = (1 << WINDOW_LINES) - 1
    starts = range(max(count - WINDOW_LINES, 0) + 1)
    first = max(starts, key=lambda start: ((rows >> start) & held).bit_count())
    return first + 1, min(first + WINDOW_LINES, count)


def _whole(file: FileText) -> Entry:
    span = (1, len(file.lines))
    return Entry(file.path, len(file.text), span_lines(span), (span,))


def merged(*parts: Mapping[str, list[Reply]]) -> Replies:
    """All replies to the questions of a repository."""
    return {name: replies for part in parts for name, replies in part.items()}
