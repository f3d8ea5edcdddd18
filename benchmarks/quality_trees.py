"""Lay out the trees of the everyday questions, from git checkouts.

    python benchmarks/quality_trees.py --checkouts DIR --to DIR

A checkout of ``owner/name`` is looked for as ``name``, ``owner/name`` or ``owner+name`` below
``--checkouts``, with its ``.git`` or bare, or bare in a folder ``repo``. Of the revision that the
questions were written for, the part that they ask about is written; links are left out.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from pathlib import Path

from quality_queries import EVERYDAY, read_json


def git_folder(checkouts: Path, repository: str) -> Path | None:
    """The git directory of a repository; None where there is no checkout."""
    owner, name = repository.split("/")
    for place in (name, f"{owner}/{name}", f"{owner}+{name}"):
        for inner in (".git", "", "repo", "repo/.git"):
            folder = checkouts / place / inner
            if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
                return folder
    return None


def lay_out(git_dir: Path, revision: str, root: str, target: Path) -> int:
    """Write the files of a revision below ``root``, with their whole paths; returns the number.

    Raises:
        RuntimeError: the repository lacks the revision or the folder.
    """
    command = ["git", f"--git-dir={git_dir}", "archive", "--format=tar", revision]
    done = subprocess.run(command + [root] * bool(root), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        # Python 3.11.4 and later refuse paths outside the target; git's archives have none.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target, files)
    return len(files)


def main() -> None:
    """Lay out the trees that do not exist yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    missing = 0
    for path in sorted(EVERYDAY.glob("*.json")):
        written, target = read_json(path), options.to / path.stem
        if target.is_dir():
            continue
        git_dir = git_folder(options.checkouts, written["repository"])
        try:
            if git_dir is None:
                raise RuntimeError(f"no checkout below {options.checkouts}")
            count = lay_out(git_dir, written["revision"], written["root"], target)
            print(f"{path.stem}: {count} files")
        except RuntimeError as error:
            missing += 1
            print(f"{written['repository']} {written['revision']}: {error}", file=sys.stderr)
    if missing:
        raise SystemExit(f"{missing} repositories are missing; the figures are without them.")


if __name__ == "__main__":
    main()
