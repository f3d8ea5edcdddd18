"""What answers a task in the benchmark: each system ranks the files of a state for a sample."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from re import escape, search
from typing import Any

from codebase_mcp.app.app import App
from codebase_mcp.app.context import ContextQuestion, ContextReport
from codebase_mcp.app.evaluation.scoring import CHARS_PER_TOKEN
from codebase_mcp.changes.impact import change_named
from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.search.search import Request
from context_bm25 import FileWords
from context_samples import Sample
from context_trees import StateClone

SYSTEMS = ("context", "bm25", "repomap", "search", "impact")
OURS = frozenset({"context", "search", "impact"})  # those that need an index

MOST_FILES = 60
QUESTION_CHARS = 500
LIMIT = 50  # of search and context; a reply shows the first REPLY_FILES
REPLY_FILES = 20
REPLY_MODULE = "codebase_mcp.tools.replies.context"


@dataclass(slots=True)
class ContextFacts:
    """What find_context says besides the order of the files.

    ``replies`` maps the tokens of a reply to the share of the right files that it names.
    ``outside`` is how probable it finds the cause elsewhere, ``foreign_outside`` the same for a
    task of another repository.
    """

    probabilities: list[float]
    outside: float
    foreign_outside: float | None = None
    replies: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """A sample, what each system ranked for it, and how long that took."""

    sample: Sample
    ranked: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    context: ContextFacts | None = None

    def as_json(self) -> dict[str, Any]:
        """The row, without its text: a commit's message is in its repository."""
        return asdict(replace(self, sample=replace(self.sample, text="")))

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Row:
        """A row that was written."""
        sample = row["sample"]
        lists = {name: tuple(sample[name]) for name in ("given", "gold", "also")}
        facts = ContextFacts(**row["context"]) if row["context"] else None
        return cls(Sample(**sample | lists), row["ranked"], row["seconds"], facts)


class AiderMap:
    """aider's map of a repository, in a process of its own environment."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("context_repomap.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TQDM_DISABLE": "1"},
            text=True,
        )

    def rank(self, clone: StateClone, sample: Sample) -> list[str]:
        """The files, the best first."""
        assert self._process.stdin
        assert self._process.stdout
        about = {"root": str(clone.root), "files": list(clone.files())}
        request = about | {"given": sample.given, "text": sample.text}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return list(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Systems:
    """The systems, in the state of a repository to which its clone was moved."""

    def __init__(
        self, app: App | None, aider: Path | None, replies: Iterable[int], history: int | None
    ) -> None:
        self.app = app
        self._history = history
        self._map = AiderMap(aider) if aider else None
        self._replies = tuple(replies)
        self._words = FileWords()
        self._project = ""
        self._clone: StateClone | None = None

    async def enter(self, clone: StateClone, project: str, chosen: Iterable[str]) -> None:
        """Make everything ready in a state of a repository."""
        self._clone, self._project = clone, project
        if "bm25" in chosen:
            self._words.read(clone.root, clone.files())
        if self.app and OURS.intersection(chosen):
            await self.app.index(clone.root, project, history_depth=self._history)

    async def ask(self, row: Row, system: str, foreign: Sample | None) -> None:
        """Let a system rank the files for a row's sample."""
        asked: dict[str, Callable[[Sample], Awaitable[list[str]]]] = {
            "bm25": self._bm25,
            "repomap": self._repomap,
            "search": self._search,
            "impact": self._impact,
        }
        if system == "impact" and not row.sample.given:
            return
        started = time.perf_counter()
        if system == "context":
            report = await self._find(row.sample)
            taken = time.perf_counter() - started
            ranked = [file.path for file in report.context.files]
            row.context = self._facts(row.sample, report)
            if foreign is not None:
                row.context.foreign_outside = outside(await self._find(foreign))
        else:
            ranked = await asked[system](row.sample)
            taken = time.perf_counter() - started
        known = dict.fromkeys(ranked)
        row.ranked[system] = [path for path in known if path not in row.sample.given]
        row.seconds[system] = taken

    def close(self) -> None:
        """End the process of the other environment."""
        if self._map is not None:
            self._map.close()

    async def _bm25(self, sample: Sample) -> list[str]:
        return self._words.rank(sample.text, MOST_FILES)

    async def _repomap(self, sample: Sample) -> list[str]:
        assert self._map is not None
        assert self._clone is not None
        return self._map.rank(self._clone, sample)

    async def _search(self, sample: Sample) -> list[str]:
        assert self.app is not None
        query = " ".join(sample.text.split())[:QUESTION_CHARS]
        request = Request(limit=LIMIT, by_definition=True)
        report = await self.app.search(query, self._project, request)
        return [hit.file_path for hit in report.answer.hits]

    async def _impact(self, sample: Sample) -> list[str]:
        """The files that the impact of the given file's change names."""
        assert self.app is not None
        assert self._clone is not None
        for path in sample.given:
            self._clone.edit(sample.commit, path)
        try:
            repository = await self.app.changes.repository(self._project)
            impact = await self.app.changes.impact(repository, change_named(None))
        finally:
            self._clone.undo()
        places = [place.path for place in impact.places]
        companions = [companion.path for companion in impact.companions]
        return places + companions + [user.path for user in impact.users]

    async def _find(self, sample: Sample) -> ContextReport:
        assert self.app is not None
        wanted = {"code2test": ("test",), "edit2ripple": ("change",)}.get(sample.task, ())
        question = ContextQuestion(sample.text[:MAX_TASK_CHARS], sample.given, wanted, limit=LIMIT)
        return await self.app.context.find(question, self._project)

    def _facts(self, sample: Sample, report: ContextReport) -> ContextFacts:
        files = report.context.files
        shown = replace(report, context=replace(report.context, files=files[:REPLY_FILES]))
        replies = {}
        for tokens in self._replies:
            text = import_module(REPLY_MODULE).context_text(shown, tokens * CHARS_PER_TOKEN)
            replies[str(tokens)] = share_named(text, sample.gold)
        return ContextFacts([file.probability for file in files], outside(report), None, replies)


def has_replies() -> bool:
    """Whether the product can write the reply as text."""
    return find_spec(REPLY_MODULE) is not None


def outside(report: ContextReport) -> float:
    """How probable it is that the cause lies elsewhere."""
    return report.context.outside.probability if report.context.outside else 0.0


def share_named(text: str, paths: Iterable[str]) -> float:
    """The share of paths that a text contains as a whole."""
    named = [bool(search(rf"(?<![\w./-]){escape(path)}(?![\w/-])", text)) for path in paths]
    return sum(named) / len(named)
