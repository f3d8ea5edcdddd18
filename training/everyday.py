"""Everyday language: what people say who do not know the programmer's word.

There are three sources, written by hand. ``concepts/*.jsonl`` pairs phrases with the identifiers
and terms that mean the same in code. ``questions/*.jsonl`` has questions about snippets of the
mined pairs. ``everyday.json`` has phrases without code, and verbs, objects and endings to compose
more from; the teacher says which code they resemble.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draw import snippet_id

HERE = Path(__file__).parent
JUDGES = HERE.parent / "benchmarks" / "quality" / "everyday"
COMPOSED = 12_000
# Whole phrases are written with more thought than composed ones, so they are repeated more often.
TIMES_WHOLE = 6


@dataclass(frozen=True, slots=True)
class Item:
    """Phrases that all ask for the same code.

    ``code`` are a concept's identifiers and terms, or one snippet; ``comment`` is what the
    snippet's programmer wrote about it.
    """

    phrases: tuple[str, ...]
    code: tuple[str, ...]
    comment: str = ""


def plain(phrase: str) -> str:
    """A phrase as it is compared with others."""
    return phrase.lower().strip(" ?.!")


def judged() -> frozenset[str]:
    """The judges' questions. Who wrote the phrases has not read them, but some ask the same."""
    asked = [p["question"] for p in json.loads((HERE / "paraphrases.json").read_text("utf-8"))]
    for path in JUDGES.glob("*.json"):
        asked += [q["query"] for q in json.loads(path.read_text("utf-8"))["queries"]]
    return frozenset(map(plain, asked))


def phrases(path: Path) -> list[str]:
    """The whole phrases, repeated, and composed ones; the same in every run."""
    parts = json.loads(path.read_text(encoding="utf-8"))
    rng = random.Random(0)
    composed = {
        " ".join(
            (rng.choice(parts["verbs"]), rng.choice(parts["objects"]), rng.choice(parts["endings"]))
        ).strip()
        for _ in range(COMPOSED)
    }
    return [*parts["phrases"] * TIMES_WHOLE, *sorted(composed)]


def items(folder: Path, pairs: Path) -> list[Item]:
    """The concepts, and the questions with the snippets they are about, package by package."""
    left_out = judged()

    def kept(said: list[str]) -> tuple[str, ...]:
        return tuple(phrase for phrase in said if plain(phrase) not in left_out)

    concepts = [Item(kept(c["say"]), tuple(c["code"])) for c in _lines(folder / "concepts")]
    asked: dict[str, tuple[str, ...]] = {}
    for question in _lines(folder / "questions"):
        asked[question["id"]] = asked.get(question["id"], ()) + kept(question["ask"])
    found: dict[str, Item] = {}
    with pairs.open(encoding="utf-8") as lines:
        for line in lines if asked else ():
            pair = json.loads(line)
            key = snippet_id(pair["code"]) if pair["kind"] == "doc" else ""
            if key in asked:
                found[key] = Item(asked[key], (pair["code"],), pair["words"])
    if len(found) < len(asked):
        print(f"{len(asked) - len(found)} questions are about snippets that were not mined")
    return concepts + list(found.values())


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield json.loads(line)
