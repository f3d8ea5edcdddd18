"""Which questions are asked of which repositories? The sets of questions, with their targets.

``development`` are the annotated queries of the evaluation; ``unnamed`` the same without the words
of their targets' file names; ``forms`` the same in other people's wording; ``everyday`` are our own
questions to other repositories, in words that the code does not use; ``phrased`` the same as an
agent asks them, in a programmer's words with the names that it expects; ``foreign`` are those of
one repository asked of another; ``unrelated`` have to do with no repository. The evaluation and all
trees are folders given on the command line.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from quality_forms import FORMS, SEED, in_form
from quality_scoring import Target

FOLDER = Path(__file__).parent / "quality"
EVERYDAY = FOLDER / "everyday"
SETS = ("development", "unnamed", "forms", "everyday", "phrased", "foreign", "unrelated")
# How an agent puts a question: in a sentence, by names, or both.
PHRASINGS = {"sentence": "{sentence}", "names": "{names}", "both": "{sentence}. {names}"}

QUERIES_OF_A_FORM = 100
FOREIGN_QUERIES = 15


@dataclass(frozen=True, slots=True)
class EvalQuery:
    """A question to a repository. ``original`` is the development query that it was made from."""

    set: str
    text: str
    targets: tuple[Target, ...] = ()
    original: str = ""
    form: str = ""
    category: str = ""
    split: str = ""


@dataclass(frozen=True, slots=True)
class Repository:
    """A tree to index, and the questions to ask."""

    name: str
    language: str
    root: Path
    asked: tuple[EvalQuery, ...]


class Evaluation:
    """The annotated queries of an evaluation folder, for the trees that exist."""

    def __init__(self, folder: Path, repos_dir: Path) -> None:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        self._ndcg: Any = importlib.import_module("ndcg")
        self._repos_dir = repos_dir

    @cached_property
    def specs(self) -> list[dict[str, Any]]:
        """The repositories whose trees exist."""
        return [s for s in self._ndcg.load_repos() if (self._repos_dir / s["name"]).is_dir()]

    def root(self, spec: Mapping[str, Any]) -> Path:
        """The folder of a repository to index."""
        root = self._repos_dir / str(spec["name"]) / str(spec.get("benchmark_root") or "")
        return root.resolve()

    def queries(self, spec: Mapping[str, Any]) -> list[EvalQuery]:
        """The annotated queries of a repository."""
        tree = self._ndcg.Tree.of(self._repos_dir / spec["name"], spec.get("benchmark_root"))
        return [
            EvalQuery(
                "development",
                item["query"],
                tuple(
                    Target(t["path"], tree.resolve(t["path"]), t["span"]) for t in item["targets"]
                ),
                original=item["query"],
                category=item["category"],
            )
            for item in self._ndcg.load_queries(spec["name"])
        ]


def development_repositories(evaluation: Evaluation, sets: Iterable[str]) -> list[Repository]:
    """The repositories of the evaluation with the questions of some sets."""
    queries = {spec["name"]: evaluation.queries(spec) for spec in evaluation.specs}
    made: dict[str, Callable[[], Mapping[str, Sequence[EvalQuery]]]] = {
        "development": lambda: queries,
        "unnamed": lambda: unnamed(queries, read_json(FOLDER / "unnamed.json")),
        "forms": lambda: in_all_forms(queries),
        "unrelated": lambda: unrelated(queries, read_json(FOLDER / "unrelated.json")),
    }
    chosen = [make() for name, make in made.items() if name in sets]
    return [
        Repository(
            spec["name"],
            spec["language"],
            evaluation.root(spec),
            tuple(one for of_set in chosen for one in of_set.get(spec["name"], ())),
        )
        for spec in evaluation.specs
    ]


def everyday_repositories(
    trees: Path, sets: Iterable[str], questions: Path = EVERYDAY
) -> list[Repository]:
    """The repositories of the everyday questions whose trees exist, each at its root."""
    written = {path.stem: read_json(path) for path in sorted(questions.glob("*.json"))}
    queries = {
        name: [everyday(query, one["split"]) for query in one["queries"]]
        for name, one in written.items()
    }
    made: dict[str, Callable[[], Mapping[str, Sequence[EvalQuery]]]] = {
        "everyday": lambda: queries,
        "phrased": lambda: {
            name: [asked for query in one["queries"] for asked in phrased(query, one["split"])]
            for name, one in written.items()
        },
        "foreign": lambda: foreign(queries),
        "unrelated": lambda: unrelated(queries, read_json(FOLDER / "unrelated.json")),
    }
    chosen = [make() for name, make in made.items() if name in sets]
    roots = {name: tree_of(trees, name, one["root"]) for name, one in written.items()}
    return [
        Repository(
            name,
            written[name]["language"],
            root,
            tuple(one for of_set in chosen for one in of_set[name]),
        )
        for name, root in roots.items()
        if root is not None
    ]


def tree_of(trees: Path, name: str, root: str) -> Path | None:
    """The folder to index: ``root`` inside a tree, or the tree itself where it lacks that."""
    whole = trees / name
    if not whole.is_dir():
        return None
    inner = whole / root
    return (inner if inner.is_dir() else whole).resolve()


def everyday(query: Mapping[str, Any], split: str) -> EvalQuery:
    """A question of the everyday set; paths are relative to the root."""
    targets = tuple(
        Target(t["path"], frozenset([t["path"]]), (t["start_line"], t["end_line"]))
        for t in query["targets"]
    )
    return EvalQuery("everyday", query["query"], targets, split=split)


def phrased(query: Mapping[str, Any], split: str) -> Iterator[EvalQuery]:
    """A question of the everyday set as an agent asks it, where somebody has put it so."""
    if "sentence" in query:
        asked = everyday(query, split)
        for form, template in PHRASINGS.items():
            text = template.format_map(query)
            yield replace(asked, set="phrased", text=text, original=asked.text, form=form)


def unnamed(
    queries: Mapping[str, Sequence[EvalQuery]], written: Iterable[Mapping[str, str]]
) -> dict[str, list[EvalQuery]]:
    """The queries without the words of their targets' file names, where that makes sense."""
    known = {(name, one.text): one for name, some in queries.items() for one in some}
    made: defaultdict[str, list[EvalQuery]] = defaultdict(list)
    for entry in written:
        one = known.get((entry["repository"], entry["original"]))
        if one is not None:
            made[entry["repository"]].append(
                EvalQuery("unnamed", entry["query"], one.targets, one.text, category=one.category)
            )
    return made


def in_all_forms(queries: Mapping[str, Sequence[EvalQuery]]) -> dict[str, list[EvalQuery]]:
    """For each form the same number of queries that it changes, in turn from every repository."""
    made: defaultdict[str, list[EvalQuery]] = defaultdict(list)
    for form in FORMS:
        changed = {
            name: [
                EvalQuery("forms", text, one.targets, one.text, form, one.category)
                for one in some
                if (text := in_form(form, one.text)) != one.text
            ]
            for name, some in queries.items()
        }
        for name, one in in_turn(changed, random.Random(f"{SEED} {form}"))[:QUERIES_OF_A_FORM]:
            made[name].append(one)
    return made


def in_turn(
    groups: Mapping[str, Sequence[EvalQuery]], chance: random.Random
) -> list[tuple[str, EvalQuery]]:
    """One of each group, then another of each, drawn at random, until all are taken."""
    drawn = {name: chance.sample(group, len(group)) for name, group in groups.items()}
    longest = max(map(len, drawn.values()), default=0)
    return [
        (name, group[place])
        for place in range(longest)
        for name, group in drawn.items()
        if place < len(group)
    ]


def foreign(queries: Mapping[str, Sequence[EvalQuery]]) -> dict[str, list[EvalQuery]]:
    """For each repository some questions about the others, always the same."""
    return {
        name: [
            EvalQuery("foreign", one.text, category=other, split=one.split)
            for other, one in in_turn(
                {other: some for other, some in queries.items() if other != name},
                random.Random(f"{SEED} {name}"),
            )[:FOREIGN_QUERIES]
        ]
        for name in queries
    }


def unrelated(
    names: Iterable[str], written: Sequence[Mapping[str, Any]]
) -> dict[str, list[EvalQuery]]:
    """The questions about other things, but for the repositories that an entry excludes."""
    return {
        name: [
            EvalQuery("unrelated", entry["query"], category=entry["kind"], split=entry["split"])
            for entry in written
            if name not in entry.get("except", ())
        ]
        for name in names
    }


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
