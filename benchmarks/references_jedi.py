"""What jedi says of the references of some definitions. JSON in, JSON out; see ``references.py``.

Runs in an environment of its own, where no project that is asked about is installed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jedi
from jedi.inference import references as jedi_references

# By default jedi parses 30 files of a project and leaves the others out.
jedi_references._OPENED_FILE_LIMIT = 100_000
jedi_references._PARSED_FILE_LIMIT = 100_000

# How far a place is within reach, the easiest first.
REACHES = ("plain", "own", "named", "object")

_RECEIVER = re.compile(r"([\w]+|\))\s*\.\s*$")
_HEAD = re.compile(r"(def|class)\s+$")
_SET = re.compile(r"\b(self|cls)\.$")
_OWN = frozenset({"self", "cls"})


class Truth:
    """The references within one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        is_package = (root / "__init__.py").exists()
        paths = [root.parent] if is_package else [root, root / "src"]
        self.project = jedi.Project(
            root, added_sys_path=list(map(str, paths)), smart_sys_path=not is_package
        )
        self._lines: dict[str, list[str]] = {}

    @cache  # noqa: B019 - one object for the whole run
    def script(self, path: str) -> jedi.Script:
        return jedi.Script(path=self.root / path, project=self.project)

    def line(self, path: str, number: int) -> str:
        if path not in self._lines:
            self._lines[path] = (self.root / path).read_text("utf-8", "replace").split("\n")
        return self._lines[path][number - 1]

    def of(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The places of a definition, and what is so of the places that are claimed."""
        path, name = asked["path"], asked["name"]
        targets = dict(self._heads(path, name, asked["heads"]))
        if not targets:
            return None
        places: dict[tuple[str, int], str] = {}
        for (_, number), column in targets.items():
            for one in self.script(path).get_references(number, column, scope="project"):
                at = self._place(one)
                if at is None or at in targets:
                    continue
                before = self.line(*at)[: one.column]
                if not _HEAD.search(before):
                    reach = self._reach(*at, before)
                    places[at] = min(reach, places.get(at, "object"), key=REACHES.index)
        claims = {}
        for claimed in map(tuple, asked["claims"]):
            if claimed in places:
                claims[claimed] = "right"
            else:
                claims[claimed] = self._judge(claimed, name, set(targets))
        return {
            "places": [[*place, reach] for place, reach in places.items()],
            "claims": [[*place, verdict] for place, verdict in claims.items()],
        }

    def _heads(
        self, path: str, name: str, heads: list[list[int]]
    ) -> Iterator[tuple[tuple[str, int], int]]:
        """The places of the names of some definitions, with their columns."""
        head = re.compile(rf"(?:def|class)\s+({re.escape(name)})\b")
        for start, end in heads:
            for number in range(start, end + 1):
                if found := head.search(self.line(path, number)):
                    yield (path, number), found.start(1)
                    break

    def _judge(self, claimed: tuple[str, int], name: str, targets: set[tuple[str, int]]) -> str:
        """Whether jedi goes from a place to the definition, to another one, or nowhere."""
        found = set(self._meant(*claimed, name))
        if found & targets:
            return "right"
        return "wrong" if found else "undecided"

    def _meant(self, path: str, line: int, name: str) -> Iterator[tuple[str, int]]:
        for found in re.finditer(rf"\b{re.escape(name)}\b", self.line(path, line)):
            for one in self.script(path).goto(line, found.start(), follow_imports=True):
                at = self._place(one)
                # To jedi a property is also defined where it is set on the own object.
                if at is None or not _SET.search(self.line(*at)[: one.column]):
                    yield at or ("", 0)

    def _place(self, one: Any) -> tuple[str, int] | None:
        if one.module_path is None or one.line is None:
            return None
        if not one.module_path.is_relative_to(self.root):
            return None
        return one.module_path.relative_to(self.root).as_posix(), one.line

    def _reach(self, path: str, line: int, before: str) -> str:
        """What stands before a name: nothing, the own object, a module or class, or an object."""
        if before.rstrip().endswith("super()."):
            return "own"
        receiver = _RECEIVER.search(before)
        if receiver is None:
            return "object" if before.rstrip().endswith(".") else "plain"
        if receiver[1] in _OWN and not before[: receiver.start()].rstrip().endswith("."):
            return "own"
        if receiver[1] == ")" or re.match(r"\s*(from|import)\b", before):
            return "plain" if receiver[1] != ")" else "object"
        kinds = {one.type for one in self.script(path).infer(line, receiver.start(1))}
        return "named" if kinds and kinds <= {"module", "class", "namespace"} else "object"


def main() -> None:
    """Answer what is asked on standard input."""
    asked = json.load(sys.stdin)
    truth = Truth(Path(asked["root"]))
    answers = []
    for one in asked["definitions"]:
        try:
            answers.append(truth.of(one))
        except Exception as error:
            print(f"left out, jedi fails: {one['path']} {one['name']}: {error!r}", file=sys.stderr)
            answers.append(None)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
