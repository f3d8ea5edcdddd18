"""How much CPU time goes into each stage of an index run, seen from within its functions?

A stage's functions are replaced wherever the program refers to them. A stage has the time of its
own thread alone, less that of stages within it.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

# Functions of the program by stage: module, and the name in it.
STAGES = (
    ("list", "codebase_mcp.source.walk", "list_files"),
    ("read", "codebase_mcp.source.read", "read_source"),
    ("cut", "codebase_mcp.chunking.split", "split"),
    ("parse", "codebase_mcp.chunking.syntax", "Parser.parse"),
    ("query", "codebase_mcp.chunking.syntax", "QueryCursor.matches"),
    ("terms", "codebase_mcp.text.counting", "Lexicon.bags"),
    ("terms", "codebase_mcp.text.counting", "WordTable.count"),
    ("embed", "codebase_mcp.embedding.static", "StaticEmbedder.encode_passages"),
    ("rows", "codebase_mcp.index.prepare", "Preparer.prepare"),
)

# What happens in these belongs to them, whatever it is.
_WHOLE = frozenset({"embed"})


class Clock:
    """CPU time by stage; one clock for all threads."""

    def __init__(self) -> None:
        self.core_s: defaultdict[str, float] = defaultdict(float)
        self.sent_bytes = 0
        self._open = threading.local()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what this thread does in the block."""
        stack: list[list[Any]] = self._open.__dict__.setdefault("stack", [])
        if stack and stack[-1][0] in _WHOLE:
            yield
            return
        stack.append([name, 0.0])
        started = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - started
            _, within = stack.pop()
            self.core_s[name] += spent - within
            if stack:
                stack[-1][1] += spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return function(*args, **kwargs)

        return call

    def watch_stages(self) -> None:
        """Put counted functions in the place of the program's, as long as this process lives."""
        for stage, module_name, path in STAGES:
            module = import_module(module_name)
            owner, _, name = path.rpartition(".")
            if not owner:
                _replace(getattr(module, name), self.timed(stage, getattr(module, name)))
                continue
            held = getattr(module, owner)
            if module_name == held.__module__:
                setattr(held, name, self.timed(stage, getattr(held, name)))
            else:  # of a library, and closed: something that looks like it takes its place
                setattr(module, owner, self._standing_in(held, stage, name))

    def watch_pool(self) -> None:
        """Let everything be prepared in this process, and measure what sending it would cost."""
        from codebase_mcp.index.pool import PreparerPool  # noqa: PLC0415 - after `watch_stages`

        prepare = PreparerPool.prepare

        async def here(pool: PreparerPool, texts: Any, job: Any, **_: Any) -> Any:
            texts = self._sent(texts)
            return self._sent(await prepare(pool, texts, job, small=True))

        PreparerPool.prepare = here  # type: ignore[method-assign,assignment]

    def _sent(self, value: Any) -> Any:
        with self.stage("pickling"):
            packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            self.sent_bytes += len(packed)
            return pickle.loads(packed)

    def _standing_in(self, held: type, stage: str, method: str) -> type:
        clock = self

        class StandIn:
            def __init__(self, *args: Any) -> None:
                object.__setattr__(self, "_held", held(*args))

            def __getattr__(self, name: str) -> Any:
                found = getattr(self._held, name)
                return clock.timed(stage, found) if name == method else found

            def __setattr__(self, name: str, value: Any) -> None:
                setattr(self._held, name, value)

        return StandIn


def _replace(function: Any, other: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("codebase_mcp"):
            for key, value in list(vars(module).items()):
                if value is function:
                    setattr(module, key, other)
