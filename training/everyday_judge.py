"""Do everyday questions find the file, and the lines, that answer them, by vectors alone?

The questions of ``benchmarks/quality/everyday``, each with its targets in a public repository. The
half marked "tune" may guide choices; the other, "check", is looked at once, at the end.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from bags import Bags
from codebase_mcp.embedding.embedder import unit_rows
from cutting import chunk_texts, code_files

DEPTH = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """One repository's chunks and everyday questions as bags of pieces.

    ``lines`` [chunks, 2] are a chunk's first and last line; a target is (path, first, last).
    """

    name: str
    split: str
    files: list[str]
    file_of_chunk: NDArray[np.int64]
    lines: NDArray[np.int64]
    chunks: csr_matrix
    questions: csr_matrix
    targets: list[list[tuple[str, int, int]]]


@dataclass(frozen=True, slots=True)
class Answered:
    """``file_rank``: reciprocal rank of the first right file, 0 beyond ten; ``line_hit``: whether
    the best chunk of all holds a line of a target."""

    file_rank: float
    line_hit: bool


def load_asked(bags: Bags, judge: dict[str, Any], name: str, trees: Path) -> Asked:
    """Read, cut and count one repository and its questions."""
    root = trees / name / judge["root"]
    root = root if root.is_dir() else trees / name
    files: list[str] = []
    texts: list[str] = []
    owner: list[int] = []
    lines: list[tuple[int, int]] = []
    for path, text in code_files(root):
        first = 1
        for chunk in chunk_texts(text):
            after = first + len(chunk.splitlines())
            texts.append(chunk)
            owner.append(len(files))
            lines.append((first, after - 1))
            first = after
        files.append(path)
    queries = judge["queries"]
    targets = [[(t["path"], t["start_line"], t["end_line"]) for t in q["targets"]] for q in queries]
    return Asked(
        name=name,
        split=judge["split"],
        files=files,
        file_of_chunk=np.asarray(owner),
        lines=np.asarray(lines),
        chunks=bags.matrix(texts),
        questions=bags.matrix(q["query"] for q in queries),
        targets=targets,
    )


def load_all(bags: Bags, judges: Path, trees: Path, cache: Path | None, key: str) -> list[Asked]:
    """Every judge whose tree is there; cut and counted anew when the judges change."""
    found = []
    for path in sorted(judges.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        stored = (
            cache / f"{path.stem}-{sha256((text + key).encode()).hexdigest()[:16]}.pickle"
            if cache
            else None
        )
        if stored and stored.exists():
            found.append(pickle.loads(stored.read_bytes()))
            continue
        if not (trees / path.stem).is_dir():
            continue
        asked = load_asked(bags, json.loads(text), path.stem, trees)
        if stored:
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_bytes(pickle.dumps(asked))
        found.append(asked)
    return found


def answers(asked: Asked, table: NDArray[np.float32]) -> list[Answered]:
    """How each question fares, files ranked by their best chunk."""
    similarity = unit_rows(asked.chunks @ table) @ unit_rows(asked.questions @ table).T
    best = np.full((len(asked.files), similarity.shape[1]), -2, np.float32)
    np.maximum.at(best, asked.file_of_chunk, similarity)
    order = np.argsort(-best, axis=0, kind="stable")[:DEPTH]
    found = []
    for query, targets in enumerate(asked.targets):
        paths = {path for path, _, _ in targets}
        ranks = (r for r, f in enumerate(order[:, query], 1) if asked.files[f] in paths)
        chunk = int(np.argmax(similarity[:, query]))
        path, (first, last) = asked.files[asked.file_of_chunk[chunk]], asked.lines[chunk]
        hit = any(path == p and first <= end and start <= last for p, start, end in targets)
        found.append(Answered(1 / next(ranks, np.inf), hit))
    return found


def summary(asked: list[Asked], table: NDArray[np.float32], split: str) -> tuple[float, float, int]:
    """Mean reciprocal rank of the right file, share of line hits, and the number of questions."""
    found = [a for one in asked if one.split == split for a in answers(one, table)]
    if not found:
        return 0.0, 0.0, 0
    ranks = float(np.mean([a.file_rank for a in found]))
    return ranks, float(np.mean([a.line_hit for a in found])), len(found)
