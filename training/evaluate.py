"""How well does a table find code, by its vectors alone?

Three judges. The annotated queries of development repositories: chunks of about 750 characters, the
best chunk of each file, NDCG@10 over files, with and without the path's words. Paraphrases:
everyday questions against short snippets that share few words with them, mean reciprocal rank. And
everyday questions about whole repositories: mean reciprocal rank of the right file among ten, and
the share of questions whose best chunk holds lines of the answer.

    python training/evaluate.py --model src/codebase_mcp/embedding/builtin \\
        --annotations EVAL --repos-dir TREES --everyday-dir TREES --cache build/bags
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

import everyday_judge
import modelfile
from bags import Bags
from codebase_mcp.embedding.embedder import unit_rows
from cutting import chunk_texts, code_files

DEPTH = 10
EVERYDAY = Path(__file__).parents[1] / "benchmarks" / "quality" / "everyday"
PATH_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository's chunks and queries as bags of pieces."""

    name: str
    files: list[str]
    file_of_chunk: NDArray[np.int64]
    chunks: csr_matrix
    paths: csr_matrix
    queries: csr_matrix
    targets: list[list[frozenset[int]]]
    categories: list[str]


def resolve(target: str, files: Sequence[str], lead: str) -> frozenset[int]:
    """The files that an annotated path means: written from either root, whole components."""
    wanted = "/" + target.strip("/")
    return frozenset(i for i, path in enumerate(files) if f"/{lead}{path}".endswith(wanted))


def load_repository(bags: Bags, spec: dict[str, Any], annotations: Path, trees: Path) -> Repository:
    """Read, cut and count one repository and its queries."""
    lead = f"{spec['benchmark_root'].strip('/')}/" if spec.get("benchmark_root") else ""
    files: list[str] = []
    texts: list[str] = []
    owner: list[int] = []
    for path, text in code_files(trees / spec["name"] / lead):
        for chunk in chunk_texts(text):
            texts.append(chunk)
            owner.append(len(files))
        files.append(path)
    items = json.loads(
        (annotations / "annotations" / f"{spec['name']}.json").read_text(encoding="utf-8")
    )
    targets = []
    for item in items:
        raw = [*item.get("relevant", []), *item.get("secondary", [])]
        paths = [t if isinstance(t, str) else t["path"] for t in raw]
        targets.append([resolve(p, files, lead) for p in paths])
    return Repository(
        name=spec["name"],
        files=files,
        file_of_chunk=np.asarray(owner),
        chunks=bags.matrix(texts),
        paths=bags.matrix(files),
        queries=bags.matrix(item["query"] for item in items),
        targets=targets,
        categories=[item["category"] for item in items],
    )


def load_repositories(
    bags: Bags, annotations: Path, trees: Path, cache: Path | None, key: str
) -> list[Repository]:
    """All development repositories whose tree is there, from ``cache`` if one is given."""
    stored = cache / f"{key}.pickle" if cache else None
    if stored and stored.exists():
        found: list[Repository] = pickle.loads(stored.read_bytes())
        return found
    specs = {s["name"]: s for s in json.loads((annotations / "repos.json").read_text())}
    names = json.loads((annotations / "split.json").read_text())["dev"]
    found = [
        load_repository(bags, specs[name], annotations, trees)
        for name in sorted(names)
        if (trees / name).is_dir()
    ]
    if stored:
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_bytes(pickle.dumps(found))
    return found


def ndcg(ranks: Sequence[int], wanted: int) -> float:
    """Binary-gain NDCG@10 of the ranks (from 1) at which distinct targets were found."""
    gain = sum(1 / math.log2(r + 1) for r in set(ranks) if r <= DEPTH)
    return gain / sum(1 / math.log2(r + 1) for r in range(1, min(wanted, DEPTH) + 1))


def repository_scores(
    repo: Repository, table: NDArray[np.float32], path_share: float
) -> list[float]:
    """NDCG@10 of each query, files ranked by their best chunk."""
    chunks = unit_rows(repo.chunks @ table)
    if path_share:
        chunks = unit_rows(chunks + path_share * unit_rows(repo.paths @ table)[repo.file_of_chunk])
    similarity = chunks @ unit_rows(repo.queries @ table).T
    best = np.full((len(repo.files), similarity.shape[1]), -2, np.float32)
    np.maximum.at(best, repo.file_of_chunk, similarity)
    order = np.argsort(-best, axis=0, kind="stable")[:DEPTH]
    scores = []
    for query, targets in enumerate(repo.targets):
        ranks = [
            rank
            for files in targets
            for rank in [next((r for r, f in enumerate(order[:, query], 1) if f in files), None)]
            if rank is not None
        ]
        scores.append(ndcg(ranks, len(targets)))
    return scores


def mean_over_repositories(
    repos: Sequence[Repository], table: NDArray[np.float32], path_share: float = 0
) -> dict[str, float]:
    """The headline, and the mean for each kind of query."""
    rows = [(r, repository_scores(r, table, path_share)) for r in repos]
    result = {"all": float(np.mean([np.mean(scores) for _, scores in rows]))}
    for kind in ("semantic", "architecture", "symbol"):
        kept = [
            [s for s, c in zip(scores, repo.categories, strict=True) if c == kind]
            for repo, scores in rows
        ]
        result[kind] = float(np.mean([np.mean(k) for k in kept if k]))
    return result


def paraphrase_ranks(bags: Bags, table: NDArray[np.float32], path: Path) -> list[tuple[str, int]]:
    """Each everyday question and the rank of its snippet among all snippets of the set."""
    items = json.loads(path.read_text(encoding="utf-8"))
    questions = unit_rows(bags.matrix(i["question"] for i in items) @ table)
    snippets = unit_rows(bags.matrix(i["code"] for i in items) @ table)
    similarity = questions @ snippets.T
    own = np.diagonal(similarity)[:, None]
    ranks = 1 + (similarity > own).sum(axis=1)
    return [(i["question"], int(r)) for i, r in zip(items, ranks, strict=True)]


def mean_reciprocal_rank(ranks: Sequence[tuple[str, int]]) -> float:
    """The mean of 1 / rank."""
    return float(np.mean([1 / rank for _, rank in ranks]))


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, action="append", help="repeatable")
    parser.add_argument("--annotations", type=Path, help="folder with repos.json, annotations/")
    parser.add_argument("--repos-dir", type=Path, help="the repositories' trees")
    parser.add_argument("--paraphrases", type=Path, default=here / "paraphrases.json")
    parser.add_argument("--everyday", type=Path, default=EVERYDAY)
    parser.add_argument("--everyday-dir", type=Path, help="the everyday questions' trees")
    parser.add_argument("--check", action="store_true", help="the questions kept for the end, too")
    parser.add_argument("--cache", type=Path, help="folder for the counted repositories")
    parser.add_argument("--misses", type=int, default=0, help="show the worst paraphrases")
    args = parser.parse_args()
    for folder in args.model:
        table, tokenizer = modelfile.read(folder)
        bags = Bags(tokenizer)
        ranks = paraphrase_ranks(bags, table, args.paraphrases)
        print(f"{folder}: paraphrases MRR {mean_reciprocal_rank(ranks):.3f} ({len(ranks)})")
        for question, rank in sorted(ranks, key=lambda r: -r[1])[: args.misses]:
            print(f"    rank {rank:3d}  {question}")
        key = hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()[:16]
        if args.everyday_dir:
            asked = everyday_judge.load_all(bags, args.everyday, args.everyday_dir, args.cache, key)
            for split in ("tune", "check") if args.check else ("tune",):
                found, hits, count = everyday_judge.summary(asked, table, split)
                print(f"    everyday {split}: MRR {found:.3f}, lines {hits:.3f} ({count})")
        if args.annotations and args.repos_dir:
            repos = load_repositories(bags, args.annotations, args.repos_dir, args.cache, key)
            for label, share in (("raw", 0.0), ("raw + path", PATH_SHARE)):
                score = mean_over_repositories(repos, table, share)
                print(f"    {label:10}  " + "  ".join(f"{k} {v:.3f}" for k, v in score.items()))


if __name__ == "__main__":
    main()
