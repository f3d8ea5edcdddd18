"""Source trees of a given number of real files, in many languages, always the same ones.

The files are those of the packages that ``packages.py`` fetches. A corpus holds each language in
the share that it has in all of them, and a smaller corpus is part of a larger one.

    python benchmarks/corpora.py COUNT TARGET [--skip COUNT] [--cache FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from packages import LANGUAGES, folders

SEED = b"codebase-mcp"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a corpus may hold: where it stands, where it goes, its language and size."""

    location: Path
    path: str
    language: str
    size: int


def collect(cache: Path | None = None) -> list[Source]:
    """Every file that can be had; packages that are not in the cache folder are fetched."""
    return [source for folder in folders(cache) for source in standing(folder)]


def choose(sources: Iterable[Source], count: int, skip: int = 0) -> list[Source]:
    """``count`` files, each language in its share, after the ``skip`` that come first.

    The files of a language are put in an order by chance, always the same, and spread evenly over
    the whole: so the first of any number are a fair choice.
    """
    by_language: defaultdict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_language[source.language].append(source)
    placed: list[tuple[float, str, Source]] = []
    for language, files in by_language.items():
        files.sort(key=lambda file: sha256(SEED + file.path.encode()).digest())
        share = 1 / len(files)
        placed += [((place + 0.5) * share, language, f) for place, f in enumerate(files)]
    placed.sort(key=lambda entry: entry[:2])
    return [source for _, _, source in placed[skip : skip + count]]


def write(files: Iterable[Source], target: Path) -> None:
    """Write a corpus as a plain tree, as hard links where the file system has them.

    Whoever edits a file of it must put another in its place.
    """
    made: set[Path] = set()
    for file in files:
        place = target / file.path
        if place.parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.add(place.parent)
        try:
            os.link(file.location, place)
        except OSError:
            shutil.copy2(file.location, place)


def megabytes(files: Sequence[Source]) -> float:
    """What they hold together."""
    return sum(file.size for file in files) / 1e6


def standing(folder: Path) -> Iterator[Source]:
    for place, _, names in os.walk(folder):
        for name in names:
            location = Path(place, name)
            if location.suffix in LANGUAGES:
                path = f"{folder.name}/{location.relative_to(folder).as_posix()}"
                language = LANGUAGES[location.suffix]
                yield Source(location, path, language, location.stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("target", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="number of packages to leave out first")
    parser.add_argument("--cache", type=Path, help="where packages are kept")
    options = parser.parse_args()
    files = choose(collect(options.cache), options.count, options.skip)
    write(files, options.target)
    print(f"{len(files)} files, {megabytes(files):.1f} MB")


if __name__ == "__main__":
    main()
