"""What would people say who do not know the programmer's word?

``everyday.json`` holds whole phrases, and verbs, objects and endings to compose more from. They
have no code of their own: the teacher says which code they resemble.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

COMPOSED = 12_000
# Whole phrases are written with more thought than composed ones, so they are heard more often.
TIMES_WHOLE = 6


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
