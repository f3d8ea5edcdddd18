"""Ranks files as aider's map of a repository does, in an environment of its own.

    PYTHON benchmarks/context_repomap.py < requests

A request is a line of JSON: ``root``, ``files`` (paths), ``given`` (those that are in the chat) and
``text`` (the message). The reply is a line with the other files, the best first. The files and
identifiers that the message mentions are determined as aider's coder does, and the files have the
order of their first definition in the ranking from which aider makes its map.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

from aider.repomap import RepoMap

LEAST_STEM_CHARS = 5


class Files:
    """What the map asks of aider: to read files; what it tells the user is dropped."""

    def read_text(self, path: str) -> str | None:
        """The content of a text file."""
        try:
            return Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def tool_output(self, *_: object) -> None: ...

    def tool_warning(self, *_: object) -> None: ...

    def tool_error(self, *_: object) -> None: ...


class Map(RepoMap):
    """A map that keeps what it parsed in memory: a folder of it would become part of the tree."""

    def load_tags_cache(self) -> None:
        self.TAGS_CACHE = {}


def mentioned(text: str, files: list[str], given: list[str]) -> tuple[set[str], set[str]]:
    """The files and identifiers that a message mentions."""
    words = {word.rstrip(",.!;:?").strip("\"'`*_") for word in text.split()}
    identifiers = set(re.split(r"\W+", text))
    named = {path for path in files if path in words}
    names = Counter(PurePosixPath(path).name for path in files)
    in_chat = {PurePosixPath(path).name for path in given}
    lowered = {word.lower() for word in identifiers if len(word) >= LEAST_STEM_CHARS}
    for path in files:
        pure = PurePosixPath(path)
        is_name = re.search(r"[._-]", pure.name) and names[pure.name] == 1
        if is_name and pure.name in words and pure.name not in in_chat:
            named.add(path)
        if len(pure.stem) >= LEAST_STEM_CHARS and pure.stem.lower() in lowered:
            named.add(path)
    return named, identifiers


def ranked(tags: RepoMap, root: Path, files: list[str], given: list[str], text: str) -> list[str]:
    """The other files, the best first."""
    others = [path for path in files if path not in given]
    named, identifiers = mentioned(text, others, given)
    absolute = [{str(root / path) for path in paths} for paths in (given, others)]
    order = tags.get_ranked_tags(*absolute, named, identifiers)
    return list(dict.fromkeys(tag[0] for tag in order))


def main() -> None:
    """Answer requests until the input ends; what a root's files hold is kept until the next."""
    tags = None
    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            if tags is None or tags.root != request["root"]:
                tags = Map(root=request["root"], io=Files())
            root = Path(request["root"])
            reply = ranked(tags, root, request["files"], request["given"], request["text"])
        print(json.dumps(reply[:200]), flush=True)


if __name__ == "__main__":
    main()
