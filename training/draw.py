"""Which snippets should people ask everyday questions about?

Draws snippets from the mined pairs for writers of ``questions/*.jsonl``: evenly over the languages,
few of one package, at least half of them about things that people speak of (a password, a queue, a
picture). A snippet's id is the first twelve digits of the hash of its code, so a question finds
its code again after mining anew.

    python training/draw.py --pairs build/pairs.jsonl --out build/batches
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mine import DEFINED_NAME

LEAST_CHARS, MOST_CHARS, LEAST_LINES = 200, 900, 6
SNIPPETS_OF_ONE_PACKAGE = 10
SNIPPETS_OF_ONE_PROGRAM = 60  # repositories: mostly applications, which do everyday things
LOOKED_AT = 6_000  # of a language
SNIPPETS_IN_A_FILE = 40
LEAST_TOPICS = 4

# Parts of words for everyday things.
TOPICS = re.compile(
    r"user|login|passw|auth|session|cookie|token|permi|role|account|profile|mail|messag|notif|chat"
    r"|cache|retr(y|ie)|timeout|limit|throttl|queue|task|job|sched|cron|worker|thread|lock|wait"
    r"|file|folder|director|path|copy|move|renam|delet|remov|backup|upload|downloa|zip|compress"
    r"|image|pixel|colou?r|font|draw|render|page|click|button|menu|window|scroll|mouse|keyboard"
    r"|date|time|zone|calendar|age|price|pay|order|cart|invoice|tax|money|currency|total|balance"
    r"|search|sort|filter|find|match|count|sum|averag|chart|report|print|export|import|csv|excel"
    r"|connect|server|client|socket|request|respons|url|proxy|port|host|address|network|redirect"
    r"|crypt|hash|sign|cert|secret|key|random|token|valid|check|escape|sanit|encod|decod"
    r"|config|setting|option|default|log|warn|error|fail|crash|recover|undo|histor|version|updat"
    r"|database|table|row|query|transact|commit|save|load|store|insert|migrat|record|index"
    r"|translat|locale|languag|sound|audio|video|play|game|score|player|map|distance|locat|weather",
    re.IGNORECASE,
)
A_TEST = re.compile(r"\b(assert\w*|expect\w*|should\w*|describe|test\w*|mock\w*|fail)\b", re.I)
A_STEP = re.compile(r"\b(if|for|while|return|match|case|when|switch|try|raise|throw|yield)\b|<-|=>")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of code to ask about."""

    language: str
    package: str
    code: str
    id: str


def snippet_id(code: str) -> str:
    """What questions call this code by."""
    return blake2b(code.encode("utf-8", "replace")).hexdigest()[:12]


def is_askable(code: str) -> bool:
    """Whether it does something, and is neither a table of data nor a test."""
    lines = [line for line in code.splitlines() if line.strip()]
    if not LEAST_CHARS <= len(code) <= MOST_CHARS or len(lines) < LEAST_LINES:
        return False
    if not DEFINED_NAME.search(lines[0]) and not DEFINED_NAME.search(lines[1]):
        return False
    letters = sum(c.isalpha() for c in code) / len(code)
    steps = len(A_STEP.findall(code))
    words = {w.lower() for w in re.findall(r"[A-Za-z][a-z]{2,}", code)}
    return letters > 0.5 and steps >= 2 and len(words) >= 14 and not A_TEST.search(code)


def topics(code: str) -> int:
    """How many different everyday things are spoken of."""
    return len({found.group().lower() for found in TOPICS.finditer(code)})


def snippets(pairs: Path, rng: random.Random) -> list[Snippet]:
    """The askable code among some documented pairs of each language."""
    by_language: dict[str, list[Snippet]] = defaultdict(list)
    with pairs.open(encoding="utf-8") as lines:
        for line in lines:
            pair = json.loads(line)
            if pair["kind"] == "doc" and LEAST_CHARS <= len(pair["code"]) <= MOST_CHARS:
                code = pair["code"]
                snippet = Snippet(pair["language"], pair["package"], code, snippet_id(code))
                by_language[snippet.language].append(snippet)
    return [
        snippet
        for rows in by_language.values()
        for snippet in rng.sample(rows, min(LOOKED_AT, len(rows)))
        if is_askable(snippet.code)
    ]


def drawn(found: list[Snippet], wanted: int, rng: random.Random) -> list[Snippet]:
    """So many snippets, language after language in turn, the everyday ones first."""
    by_language: dict[str, list[Snippet]] = defaultdict(list)
    for snippet in found:
        by_language[snippet.language].append(snippet)
    waiting: dict[str, list[Snippet]] = {}
    for language, rows in by_language.items():
        rng.shuffle(rows)
        telling = [r for r in rows if topics(r.code) >= LEAST_TOPICS]
        others = [r for r in rows if topics(r.code) < LEAST_TOPICS]
        # Three telling ones, then one of the others; taken from the end.
        mixed: list[Snippet] = []
        while telling or others:
            mixed += [telling.pop() for _ in range(min(3, len(telling)))]
            mixed += [others.pop() for _ in range(min(1, len(others)))]
        waiting[language] = mixed[::-1]
    taken: list[Snippet] = []
    of_package: Counter[str] = Counter()
    while len(taken) < wanted and any(waiting.values()):
        for rows in waiting.values():
            while rows:
                snippet = rows.pop()
                is_program = "/" in snippet.package
                most = SNIPPETS_OF_ONE_PROGRAM if is_program else SNIPPETS_OF_ONE_PACKAGE
                if of_package[snippet.package] < most:
                    of_package[snippet.package] += 1
                    taken.append(snippet)
                    break
    return taken[:wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, required=True, help="what mine.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder for the batches")
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--files", type=int, default=25, help="for each writer")
    args = parser.parse_args()
    per_writer = args.files * SNIPPETS_IN_A_FILE
    rng = random.Random(0)
    chosen = drawn(snippets(args.pairs, rng), args.writers * per_writer, rng)
    rng.shuffle(chosen)
    for at in range(0, len(chosen), SNIPPETS_IN_A_FILE):
        number = at // SNIPPETS_IN_A_FILE
        folder = args.out / str(number % args.writers + 1)
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(
            f"### {s.id} {s.language}\n{s.code.rstrip()}\n"
            for s in chosen[at : at + SNIPPETS_IN_A_FILE]
        )
        (folder / f"{number // args.writers:03d}.txt").write_text(text, encoding="utf-8")
    counted = Counter(s.language for s in chosen)
    print(len(chosen), dict(counted.most_common()))


if __name__ == "__main__":
    main()
