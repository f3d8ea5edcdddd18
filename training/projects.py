"""Lays out whole projects with the questions that were written about their snippets.

    python training/projects.py --archives build/sources --checkouts build/sources/github \
        --exclude EVAL/excluded-from-training.json --out build/projects

Each project becomes a tree below ``OUT/trees``, and its questions a file in ``OUT/questions``, in
the form of ``benchmarks/quality/everyday``. So ``benchmarks/quality.py --questions`` can index the
one and ask the other. A question's snippet is found again by the hash of its code; code elsewhere
in the project that has nearly the same words is right, too. Questions that fit many places are left
out.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from draw import snippet_id
from mine import (
    ARCHIVE,
    FOREIGN_FOLDER,
    LANGUAGES,
    MAX_FILE_BYTES,
    excluded_folder,
    excluded_names,
    pairs_of,
)

LEAST_QUESTIONS = 6
MOST_SNIPPETS = 30  # of a project
LEAST_FILES, MOST_FILES = 25, 1_200

# Snippets that share this much of their words are the same code; with more of them than this, the
# question fits any.
SAME_CODE = 0.6
MOST_PLACES = 3

WORD = re.compile(r"[A-Za-z_]\w+")


@dataclass(frozen=True, slots=True)
class Place:
    """Documented code in a file, with its lines (1-based, inclusive)."""

    id: str
    path: str
    language: str
    first: int
    last: int
    words: frozenset[str]


def archived(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a wheel or tar archive, size permitting."""
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if not entry.is_dir() and entry.file_size <= MAX_FILE_BYTES:
                    yield entry.filename, wheel.read(entry)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            handle = tar.extractfile(member) if member.isfile() else None
            if handle and member.size <= MAX_FILE_BYTES:
                yield member.name.split("/", 1)[-1], handle.read()


def committed(git_dir: Path, revision: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of a revision, or of the present one without it."""
    git = ["git", f"--git-dir={git_dir}", "archive", "--format=tar"]
    for asked in (revision, "HEAD"):
        done = subprocess.run([*git, asked], capture_output=True, check=False)
        if done.returncode == 0:
            break
    else:
        return
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            handle = tar.extractfile(member) if member.isfile() else None
            if handle and member.size <= MAX_FILE_BYTES:
                yield member.name, handle.read()


def places_in(path: str, text: str, language: str) -> Iterator[Place]:
    """The documented code of a file."""
    lines = [line.rstrip() for line in text.splitlines()]
    for pair in pairs_of(text, language, ""):
        if pair.kind != "doc":
            continue
        span = lines_of(pair.code, lines)
        if span:
            words = frozenset(WORD.findall(pair.code))
            yield Place(snippet_id(pair.code), path, language, *span, words)


def lines_of(code: str, lines: Sequence[str]) -> tuple[int, int] | None:
    """Where code stands that may lack its docstring and the end of its last line."""
    wanted = [line.rstrip() for line in code.splitlines()]
    if len(wanted) > 1 and len(code) > 900:
        wanted = wanted[:-1]
    best, begun = 0, -1
    for at, line in enumerate(lines):
        if line != wanted[0]:
            continue
        same = 0
        while same < len(wanted) and at + same < len(lines) and wanted[same] == lines[at + same]:
            same += 1
        if same > best:
            best, begun = same, at
    if begun < 0:
        return None
    end = begun
    for line in wanted[1:]:
        if line in lines[end + 1 : end + 80]:
            end = lines.index(line, end + 1)
    return begun + 1, end + 1


def alike(place: Place, other: Place) -> bool:
    """Whether two places hold nearly the same code."""
    shared = len(place.words & other.words)
    return shared >= SAME_CODE * len(place.words | other.words)


def read_questions(folder: Path) -> dict[str, list[str]]:
    """The questions about each snippet."""
    asked: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            asked.setdefault(entry["id"], []).extend(entry["ask"])
    return asked


def described(
    places: Sequence[Place], asked: Mapping[str, Sequence[str]], seed: str
) -> list[dict[str, object]]:
    """Questions about the places, each with all places that answer it."""
    named = {place.id: place for place in places if place.id in asked}
    chosen = random.Random(seed).sample(sorted(named), min(len(named), MOST_SNIPPETS))
    queries = []
    for name in chosen:
        right = [place for place in places if place.id == name or alike(named[name], place)]
        if len({place.path for place in right}) > MOST_PLACES:
            continue
        targets = [{"path": p.path, "start_line": p.first, "end_line": p.last} for p in right]
        queries += [{"query": text, "targets": targets} for text in asked[name]]
    return queries


def projects(
    archives: Path, checkouts: Path, sources: Path, excluded: Sequence[str]
) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """The files of each archive, and of each listed repository that has a checkout."""
    bare = {name.split("/")[1].lower() for name in excluded}
    for archive in sorted(file for file in archives.rglob("*") if ARCHIVE.search(file.name)):
        name = re.split(r"[-_]v?\d", archive.name)[0]
        if name.lower() not in bare:
            yield name, list(archived(archive))
    listed = json.loads(sources.read_text(encoding="utf-8"))["github"]
    for name, facts in listed.items():
        checkout = checkouts / name.replace("/", "+")
        git_dir = checkout / "repo" if (checkout / "repo").is_dir() else checkout
        if name.split("/")[1].lower() not in bare and git_dir.is_dir():
            yield name.replace("/", "+"), list(committed(git_dir, facts["revision"]))


def lay_out(
    name: str,
    files: Sequence[tuple[str, bytes]],
    asked: Mapping[str, Sequence[str]],
    excluded: re.Pattern[str],
    out: Path,
) -> str:
    """Write a project's tree and questions, if it has enough; returns what was done."""
    sources = [
        (path, content.decode("utf-8", "replace"))
        for path, content in files
        if Path(path).suffix in LANGUAGES and b"\0" not in content[:4096]
    ]
    own = [(p, t) for p, t in sources if not FOREIGN_FOLDER.search(p) and not excluded.search(p)]
    if len(own) < LEAST_FILES or len(sources) > MOST_FILES:
        return f"{len(sources)} files, {len(own)} of its own: left out"
    places = [p for path, text in own for p in places_in(path, text, LANGUAGES[Path(path).suffix])]
    queries = described(places, asked, name)
    if len(queries) < LEAST_QUESTIONS:
        return f"{len(queries)} questions: left out"
    for path, text in sources:
        target = (out / "trees" / name / path).resolve()
        if target.is_relative_to((out / "trees" / name).resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    languages = [place.language for place in places]
    written = {
        "repository": name,
        "root": "",
        "language": max(sorted(set(languages)), key=languages.count),
        "split": "tune",
        "queries": queries,
    }
    target = out / "questions" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return f"{len(sources)} files, {len(queries)} questions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parent
    parser.add_argument("--archives", type=Path, required=True)
    parser.add_argument("--checkouts", type=Path, required=True, help="git repositories OWNER+NAME")
    parser.add_argument("--sources", type=Path, default=here / "sources.json")
    parser.add_argument("--exclude", type=Path, required=True, help="JSON list of owner/name")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    names = excluded_names(args.exclude)
    asked = read_questions(here / "questions")
    for name, files in projects(args.archives, args.checkouts, args.sources, names):
        done = lay_out(name, files, asked, excluded_folder(names), args.out)
        print(f"{name}: {done}", flush=True)


if __name__ == "__main__":
    main()
