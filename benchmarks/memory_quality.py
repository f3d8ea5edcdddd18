"""How well is memory found again?

    python benchmarks/memory_quality.py [--worst 15]

Stores the observations of ``benchmarks/memory`` in a new data directory and asks every question
with a limit of 10: as the tool does, by words only, by meaning only (these two without the floor).
Odd are the first, the third, … of the questions. Both halves were looked at while the ranking was
chosen, so neither is a blind test. Then it asks about other things, where nothing should be found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from codebase_mcp import App
from codebase_mcp.records.memory import ObservationText, prepare, store_observation
from codebase_mcp.records.memory_search import MemoryFilters, search_observations
from codebase_mcp.records.memory_search import ask as put
from codebase_mcp.search.relevance import FUSED, MEANING_ONLY, WORDS_ONLY, Weighing
from codebase_mcp.settings.loading import Settings

FOLDER = Path(__file__).parent / "memory"
WEIGHINGS = {"fused": FUSED, "words": WORDS_ONLY, "meaning": MEANING_ONLY}
LIMIT = 10
ELSEWHERE = (
    "how long should sourdough rise", "who won the chess championship", "capital of Australia",
    "best recipe for tomato soup", "how do I file my income tax", "symptoms of the flu",
    "how to tie a bowline knot", "train from Berlin to Prague", "rules of offside in football",
    "how to prune roses in spring", "boiling point of ethanol", "lyrics of a lullaby",
    "how do vaccines train the immune system", "which wine goes with fish", "dog does not eat",
    "learn the guitar chords of this song", "mortgage interest rates in Spain",
    "history of the roman empire", "how do birds migrate", "repair a bicycle tyre",
    "names for a baby girl", "how tall is mount everest", "when does the museum open",
    "training plan for a marathon", "who painted the ceiling of the chapel",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the place of its first answer (from 1, if it was found), and what came first."""

    question: Mapping[str, Any]
    place: int | None
    first: str

    @property
    def reciprocal(self) -> float:
        return 1 / self.place if self.place else 0.0


def lines_of(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def store(app: App) -> dict[str, str]:
    """Store all observations; the id that each content has in the set."""
    for line in lines_of("observations.jsonl"):
        model = await app.models.configured()
        [prepared] = await prepare(model, [ObservationText(line["content"], tuple(line["tags"]))])
        async with app.enter() as here:
            await store_observation(here.tx, model, prepared, line["type"], None)
    return {line["content"]: line["id"] for line in lines_of("observations.jsonl")}


async def ask(app: App, text: str, weighing: Weighing) -> list[str]:
    """The contents that are found."""
    question = await put(app.models, text)
    async with app.enter(readonly=True) as here:
        found = await search_observations(
            here.tx, question, MemoryFilters(), limit=LIMIT, weighing=weighing
        )
    return [observation.content for observation in found]


async def ask_all(app: App, ids: Mapping[str, str], weighing: Weighing) -> list[Asked]:
    asked = []
    for question in lines_of("questions.jsonl"):
        found = await ask(app, question["question"], weighing)
        places = [n for n, c in enumerate(found, 1) if ids[c] in question["answers"]]
        asked.append(Asked(question, min(places, default=None), found[0] if found else "nothing"))
    return asked


def mrr(asked: Sequence[Asked]) -> float:
    return mean(one.reciprocal for one in asked) if asked else float("nan")


def within(asked: Sequence[Asked], places: int) -> float:
    """The share of the questions whose answer is among the first ``places``."""
    return mean(one.place is not None and one.place <= places for one in asked)


def report(label: str, asked: Sequence[Asked]) -> None:
    kinds = dict.fromkeys(one.question["kind"] for one in asked)
    by_kind = {k: mrr([one for one in asked if one.question["kind"] == k]) for k in kinds}
    print(
        f"{label:8} MRR {mrr(asked):.3f} (odd {mrr(asked[::2]):.3f}, even {mrr(asked[1::2]):.3f})"
        f"  hits @1 {within(asked, 1):.2f} @3 {within(asked, 3):.2f} @10 {within(asked, 10):.2f}  "
        + "  ".join(f"{kind} {value:.3f}" for kind, value in by_kind.items())
    )


async def measure(data_dir: Path, worst: int) -> None:
    """Store, ask, print."""
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        ids = await store(app)
        asked = {name: await ask_all(app, ids, weighing) for name, weighing in WEIGHINGS.items()}
        for name, outcomes in asked.items():
            report(name, outcomes)
        for one in sorted(asked["fused"], key=lambda one: one.reciprocal)[:worst]:
            print(f"  {one.place or '-':>2}  {one.question['question']}\n        {one.first[:90]}")
        found = {text: await ask(app, text, FUSED) for text in ELSEWHERE}
        wrong = {text: contents for text, contents in found.items() if contents}
        print(f"about other things: {len(wrong)} of {len(found)} find anything")
        for text, contents in wrong.items():
            print(f"  {len(contents):2}  {text}\n        {contents[0][:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worst", type=int, default=15, help="how many of the worst to show")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        asyncio.run(measure(Path(folder, "data"), options.worst))


if __name__ == "__main__":
    main()
