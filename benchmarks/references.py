"""Are the references that we find those that a language's own tools find?

    python benchmarks/references.py --tools FOLDER TREE...

Every tree is a project: indexed, some of its definitions are chosen by chance, and for each we are
asked by its place. The truth is what the tools of its language say; ``references_tools.py`` names
them. A place is a line of a file.

- precision: of the places that we call sure, those that are right. A place that the truth does not
  list is asked about by itself: it is right if their tool goes from there to the definition, wrong
  if it goes elsewhere, and undecided if it goes nowhere, as no type is known there.
- recall: of the places of the truth, those that we name, however sure; once of all, and once of
  those that can be told without types: the name stands alone or in an import, or behind the own
  object (``self``, ``super()``, ``this``), a module or a class.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.candidates import SURE
from codebase_mcp.symbols.lookup import Place
from own_server import own_folder
from references_tools import truths

LANGUAGES = {
    "python": "Python",
    "typescript": "TypeScript",
    "tsx": "TypeScript",
    "javascript": "JavaScript",
    "go": "Go",
    "c": "C",
    "cpp": "C++",
    "java": "Java",
    "rust": "Rust",
}
KINDS = {
    "function": "function",
    "method": "method",
    **dict.fromkeys(("class", "interface", "type", "enum", "struct", "trait"), "type"),
    **dict.fromkeys(("field", "enumerator", "property"), "field"),
    **dict.fromkeys(("constant", "variable"), "constant"),
}

_DEFINITIONS = """
SELECT f.language, s.kind, f.path, s.name, s.qualified, s.start_line, s.end_line
FROM symbol AS s
JOIN view_file AS f ON f.blob_id = s.blob_id
JOIN snapshot AS t ON t.id = f.snapshot_id AND t.active
WHERE f.kind = 'code' AND f.language = ANY(%(languages)s) AND s.kind = ANY(%(kinds)s)
  AND s.name NOT LIKE E'\\\\_\\\\_%%'
  AND right(s.qualified, 2 * length(s.name) + 1) <> s.name || '.' || s.name
ORDER BY f.path, s.start_line, s.name
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A definition, and the places that we name for it, with how sure we are.

    ``heads`` are the lines of all that is defined under its qualified name: the getter and the
    setter of a property and overloads are one.
    """

    language: str
    kind: str
    path: str
    name: str
    line: int
    heads: list[tuple[int, int]]
    said: dict[tuple[str, int], float]

    @property
    def claims(self) -> list[tuple[str, int]]:
        """The places that we call sure."""
        return sorted(place for place, confidence in self.said.items() if confidence >= SURE)

    @property
    def question(self) -> dict[str, Any]:
        """What a tool is asked."""
        names = ("language", "path", "name", "kind", "heads", "claims")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Score:
    """The sums of a row of the table."""

    definitions: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    places: int = 0
    found: int = 0
    untyped: int = 0
    untyped_found: int = 0
    sure: int = 0

    def add(self, one: Asked, truth: dict[str, Any]) -> None:
        """Count a definition."""
        self.definitions += 1
        for *_, verdict in truth["claims"]:
            self.verdicts[verdict] += 1
        for path, line, reach in truth["places"]:
            is_found = (path, line) in one.said
            self.places += 1
            self.found += is_found
            self.sure += one.said.get((path, line), 0) >= SURE
            if reach != "object":
                self.untyped += 1
                self.untyped_found += is_found

    def row(self) -> str:
        """The figures as cells of a table."""
        right, wrong = self.verdicts["right"], self.verdicts["wrong"]
        undecided = self.verdicts["undecided"]
        return " | ".join((
            str(self.definitions),
            f"{right + wrong}", _share(right, right + wrong), str(undecided),
            str(self.untyped), _share(self.untyped_found, self.untyped),
            str(self.places), _share(self.found, self.places), _share(self.sure, self.places),
        ))  # fmt: skip


def main() -> None:
    """Index the trees, ask everybody, and print a table."""
    parser = argparse.ArgumentParser(description="References beside those of other tools")
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--tools", type=Path, required=True, help="the environment of tools")
    parser.add_argument("--definitions", type=int, default=60, help="of each project")
    parser.add_argument("--kinds", nargs="+", default=sorted(set(KINDS.values())))
    parser.add_argument("--misses", type=Path, help="a file for the places that differ")
    options = parser.parse_args()
    with own_folder("bench-references-") as folder:
        asyncio.run(measure(folder, options))


async def measure(folder: Path, options: argparse.Namespace) -> None:
    """Ask about every tree, and print the table."""
    scores: dict[tuple[str, str, str], Score] = defaultdict(Score)
    misses: list[str] = []
    settings = replace(Settings.load(), data_dir=folder / "data")
    async with await App.open(settings) as app:
        for tree in options.trees:
            root = folder / tree.name
            shutil.copytree(tree, root)
            asked = await ask(app, root, options.kinds, options.definitions)
            questions = [one.question for one in asked]
            told = truths(root.resolve(), questions, options.tools.resolve())
            for one, truth in zip(asked, told, strict=True):
                if truth is None or not (truth["places"] or truth["claims"]):
                    continue
                for project, kind in ((tree.name, one.kind), ("all", one.kind), ("all", "all")):
                    scores[LANGUAGES[one.language], project, kind].add(one, truth)
                misses += differences(tree.name, one, truth)
            print(f"{tree.name}: {len(asked)} definitions asked", flush=True)
    print_table(scores)
    if options.misses:
        options.misses.write_text("\n".join(misses) + "\n")


async def ask(app: App, root: Path, groups: Collection[str], count: int) -> list[Asked]:
    """Some definitions of a tree, as many of each kind, with what we say of them."""
    project = f"bench-{root.name.lower().replace('.', '-')}"
    await app.index(root, project)
    async with app.enter(project) as here:
        rows = await here.tx.fetch_all(
            _DEFINITIONS,
            languages=list(LANGUAGES),
            kinds=[kind for kind, group in KINDS.items() if group in groups],
        )
    heads = defaultdict(list)
    for _, _, path, _, qualified, *lines in rows:
        heads[path, qualified].append(tuple(lines))
    asked = []
    for language, kind, path, name, qualified, line, _ in chosen(rows, count):
        question = SymbolQuestion("references", place=Place(path, line))
        found = (await app.symbols.ask(question, project)).facts.references
        assert found is not None
        if [one.name for one in found.definitions] != [name]:  # several on a line
            continue
        said: dict[tuple[str, int], float] = defaultdict(float)
        for use in found.uses:
            key = use.use.file.path, use.use.line
            said[key] = max(said[key], use.confidence)
        asked.append(Asked(language, KINDS[kind], path, name, line, heads[path, qualified], said))
    return asked


def chosen(rows: Iterable[Sequence[Any]], count: int) -> list[Sequence[Any]]:
    """As many definitions of each kind, by chance."""
    by_kind = defaultdict(list)
    for row in rows:
        by_kind[KINDS[row[1]]].append(row)
    chance = random.Random(16)
    each = count // max(len(by_kind), 1)
    return [
        row for kind in sorted(by_kind) for row in chance.sample(
            by_kind[kind], min(each, len(by_kind[kind]))
        )
    ]  # fmt: skip


def differences(project: str, one: Asked, truth: dict[str, Any]) -> list[str]:
    """A line for every place that is wrong, undecided or missed, to look at by eye."""
    what = f"{one.kind} {one.path}:{one.line} {one.name}"
    lines = [
        f"{project}\t{verdict}\t{path}:{line}\t{one.said[path, line]}\t{what}"
        for path, line, verdict in truth["claims"]
        if verdict != "right"
    ]
    return lines + [
        f"{project}\tmissed {reach}\t{path}:{line}\t\t{what}"
        for path, line, reach in truth["places"]
        if (path, line) not in one.said
    ]


def print_table(scores: dict[tuple[str, str, str], Score]) -> None:
    """The table, in Markdown."""
    print("\n| language | project | kind | definitions | sure | precision | undecided"
          " | without types | recall | all places | recall | called sure |")  # fmt: skip
    print("|" + "---|" * 12)
    for (language, project, kind), score in sorted(
        scores.items(), key=lambda row: (row[0][0], row[0][1] == "all", row[0][1:])
    ):
        print(f"| {language} | {project} | {kind} | {score.row()} |")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


if __name__ == "__main__":
    main()
