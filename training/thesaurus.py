"""How is the thesaurus of hand-written concepts packed for search?

Packs ``concepts/*.jsonl`` into ``thesaurus.safetensors`` beside the model: phrases and names as
token ids, the centroid of each concept in four bits a component, and the numbers of the terms that
it expands a query with. Run it again whenever the model or the concepts change.

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
from codebase_mcp.embedding.thesaurus import FILE_NAME, MODEL_KEY, quantized
from codebase_mcp.text.tokens import STOP_WORDS, split_word, term_id, word_stems, words_of
from everyday import judged, plain

HERE = Path(__file__).parent

# Shorter stems are parts of names that mean nothing alone.
MIN_STEM_CHARS = 3


@dataclass(frozen=True, slots=True)
class Concept:
    """Everyday phrases (``say``) and the names that code uses for the same thing (``code``)."""

    say: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words of its names, in order."""
        parts = (p for name in self.code for word in words_of(name) for p in split_word(word))
        return tuple(dict.fromkeys(parts))

    @property
    def stems(self) -> tuple[str, ...]:
        """The distinct stems of its names, in order."""
        stems = (stem for name in self.code for word in words_of(name) for stem in word_stems(word))
        kept = (s for s in stems if len(s) >= MIN_STEM_CHARS and s not in STOP_WORDS)
        return tuple(dict.fromkeys(kept))


def read_concepts(folder: Path) -> list[Concept]:
    """All concepts in the order of the files, without phrases that are evaluation queries."""
    left_out = judged()
    return [
        Concept(
            tuple(p for p in concept["say"] if plain(p) not in left_out), tuple(concept["code"])
        )
        for file in sorted(folder.glob("*.jsonl"))
        for concept in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    ]


def counts(lists: Iterable[Sequence[object]]) -> NDArray[np.uint8]:
    """The length of each list.

    Raises:
        OverflowError: one is longer than 255.
    """
    return np.array([len(one) for one in lists], np.uint8)


def tensors_of(
    concepts: Sequence[Concept], embedder: StaticEmbedder
) -> dict[str, NDArray[np.generic]]:
    """The tensors of the file; their names are its format (see `thesaurus_of`)."""
    phrases = [
        [tokens for phrase in concept.say if (tokens := sorted(set(embedder.token_ids(phrase))))]
        for concept in concepts
    ]
    names = [embedder.token_ids(" ".join(concept.words)) for concept in concepts]
    centroids = np.array(
        [embedder.encode_query(" ".join((*c.say, *c.code))) for c in concepts], np.float32
    )
    concept_terms = [[term_id(stem) for stem in concept.stems] for concept in concepts]
    terms, indexes = np.unique(
        [term for terms in concept_terms for term in terms], return_inverse=True
    )
    every = [tokens for own in phrases for tokens in own]
    norms = [np.linalg.norm(embedder.token_vectors(np.array(t)).sum(axis=0)) for t in every]
    return {
        "centroids": quantized(centroids),
        "phrase_counts": counts(phrases),
        "token_counts": counts(every),
        "phrase_tokens": np.concatenate(every).astype(np.uint16),
        "phrase_norms": np.array(norms, np.float16),
        "name_counts": counts(names),
        "name_tokens": np.concatenate(names).astype(np.uint16),
        "term_counts": counts(concept_terms),
        "concept_terms": indexes.astype(np.int32),
        "terms": terms.astype(np.int32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    args = parser.parse_args()
    concepts = read_concepts(HERE / "concepts")
    embedder = StaticEmbedder.load(args.model)
    tensors = tensors_of(concepts, embedder)
    save_file(tensors, args.model / FILE_NAME, {MODEL_KEY: embedder.fingerprint})
    size = (args.model / FILE_NAME).stat().st_size
    print(f"{len(concepts)} concepts, {len(tensors['token_counts'])} phrases, {size:,} bytes")


if __name__ == "__main__":
    main()
