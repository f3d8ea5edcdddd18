"""How do the hand-written concepts become what search can look up at once?

Packs ``concepts/*.jsonl`` into ``thesaurus.safetensors`` beside the model: the phrases as tokens of
the model, each concept's centre in four bits a number, what code calls it as tokens, and the
numbers of the stems that it lends to a question.
To be run again whenever the model or the concepts change.

    python training/thesaurus.py --model src/codebase_mcp/embedding/builtin
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import FILE, MADE_WITH, packed
from codebase_mcp.tokens import STOP_WORDS, split_word, term_id, word_stems, words_of
from everyday import judged, plain

HERE = Path(__file__).parent

# Shorter stems are parts of names that mean nothing alone.
LEAST_LETTERS = 3


@dataclass(frozen=True, slots=True)
class Concept:
    """What people say, and what code says for it."""

    say: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The different words of its names, in order."""
        parts = (p for name in self.code for word in words_of(name) for p in split_word(word))
        return tuple(dict.fromkeys(parts))

    @property
    def stems(self) -> tuple[str, ...]:
        """The different stems of its words of code."""
        stems = (stem for name in self.code for word in words_of(name) for stem in word_stems(word))
        kept = (s for s in stems if len(s) >= LEAST_LETTERS and s not in STOP_WORDS)
        return tuple(dict.fromkeys(kept))


def read_concepts(folder: Path) -> list[Concept]:
    """All concepts, in the order of the files, without phrases that a judge asks."""
    left_out = judged()
    return [
        Concept(
            tuple(p for p in concept["say"] if plain(p) not in left_out), tuple(concept["code"])
        )
        for file in sorted(folder.glob("*.jsonl"))
        for concept in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    ]


def bounds(lengths: Iterable[int]) -> NDArray[np.int32]:
    """Where each of some runs begins, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(list(lengths)))).astype(np.int32)


def tensors_of(
    concepts: Sequence[Concept], embedder: StaticEmbedder
) -> dict[str, NDArray[np.generic]]:
    """The tensors of the file."""
    said = [
        [tokens for phrase in concept.say if (tokens := sorted(set(embedder.pieces(phrase))))]
        for concept in concepts
    ]
    called = [embedder.pieces(" ".join(concept.words)) for concept in concepts]
    centres = np.array(
        [embedder.encode_query(" ".join((*c.say, *c.code))) for c in concepts], np.float32
    )
    lent = [[term_id(stem) for stem in concept.stems] for concept in concepts]
    stems, places = np.unique([term for terms in lent for term in terms], return_inverse=True)
    return {
        "centres": packed(centres),
        "phrases": bounds(map(len, said)),
        "starts": bounds(len(tokens) for phrases in said for tokens in phrases),
        "tokens": np.array([t for ps in said for tokens in ps for t in tokens], np.uint16),
        "lengths": np.array(
            [np.linalg.norm(embedder.rows(np.array(t)).sum(axis=0)) for ps in said for t in ps],
            np.float16,
        ),
        "calls": bounds(map(len, called)),
        "called": np.array([token for tokens in called for token in tokens], np.uint16),
        "lends": bounds(map(len, lent)),
        "lent": places.astype(np.int32),
        "stems": stems.astype(np.int32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    args = parser.parse_args()
    concepts = read_concepts(HERE / "concepts")
    embedder = StaticEmbedder.load(args.model)
    tensors = tensors_of(concepts, embedder)
    save_file(tensors, args.model / FILE, {MADE_WITH: embedder.fingerprint})
    size = (args.model / FILE).stat().st_size
    print(f"{len(concepts)} concepts, {len(tensors['starts']) - 1} phrases, {size:,} bytes")


if __name__ == "__main__":
    main()
