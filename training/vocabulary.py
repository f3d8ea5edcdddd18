"""Which words of code deserve a row of their own?

The teacher's vocabulary was made for prose and cuts "mutex", "async" or "webhook" into pieces that
say little. Words that many packages use and that it cuts are added whole.

    python training/vocabulary.py --pairs build/pairs.jsonl --out build/words.txt
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

from tokenizers import Tokenizer

from codebase_mcp.text.tokens import split_word, words_of
from teacher import teacher_folder

ONE_LINE_IN = 6
LEAST_PACKAGES = 4
LEAST_CHARS, MOST_CHARS = 3, 16


def common_parts(pairs: Path) -> list[str]:
    """Parts of words in the order of how many packages use them, then how often."""
    times: Counter[str] = Counter()
    packages: dict[str, set[str]] = defaultdict(set)
    known: dict[str, tuple[str, ...]] = {}
    with pairs.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % ONE_LINE_IN:
                continue
            pair = json.loads(line)
            for word in {*words_of(pair["words"]), *words_of(pair["code"])}:
                parts = known.get(word)
                if parts is None:
                    parts = known[word] = tuple(
                        part
                        for part in split_word(word)
                        if LEAST_CHARS <= len(part) <= MOST_CHARS
                        and part.isascii()
                        and part.isalpha()
                    )
                for part in parts:
                    times[part] += 1
                    packages[part].add(pair["package"])
    kept = [part for part, using in packages.items() if len(using) >= LEAST_PACKAGES]
    return sorted(kept, key=lambda part: (-len(packages[part]), -times[part], part))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--words", type=int, default=8_000)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(teacher_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    cut = [
        part
        for part in common_parts(args.pairs)
        if len(tokenizer.encode(part, add_special_tokens=False).ids) > 1
    ]
    args.out.write_text("\n".join(cut[: args.words]) + "\n", encoding="utf-8")
    print(f"{len(cut)} words are cut; the first: {' '.join(cut[:40])}")


if __name__ == "__main__":
    main()
