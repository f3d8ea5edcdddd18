"""Which files that a change left alone does it probably concern? Pure: evidence in, files out.

A file is likely by what usually changes together, by what uses the change, and by its name. Each
piece of evidence takes a share of the doubt that the others leave: 1 - (1 - p1)(1 - p2)… The shares
were chosen by `make bench-impact` on two repositories, and measured on others (docs/git.md).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from codebase_mcp.changes.users import User

# As if each changed file had been touched by this many commits more, which touched another file as
# often as all commits do: of few commits a share says little.
_PRIOR_COMMITS = 4
# The share of doubt that a certain use takes, one of a definition that is gone, a name, a folder.
_USED, _BROKEN, _NAMED, _NEAR = 0.3, 0.9, 0.4, 0.01
# A less likely file is not named.
LEAST = 0.03

_TEST_WORDS = ("test", "tests", "spec", "bench")
_TEST_WORD = re.compile(r"^tests?_|[_-](?:tests?|spec|bench)$|tests?$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file of the index that a change left alone, as the stored history knows it.

    ``share`` of all commits touched it. ``support`` of the ``commits`` that touched
    ``changed_file`` touched it too; 0 where they never changed together.
    """

    path: str
    share: float
    changed_file: str = ""
    support: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class LikelyFile:
    """A file to look at: how likely, the candidate that says most, its surest use, and its name's
    likeness to that of a changed file."""

    score: float
    candidate: Candidate
    user: User | None
    named_like: str | None

    @property
    def path(self) -> str:
        """Relative to the root."""
        return self.candidate.path

    @property
    def why(self) -> str:
        """The evidence, in a line."""
        found = []
        if self.user is not None:
            what = "which is gone" if self.user.is_removed else "which changed"
            how = f"{self.user.confidence:.2f} {self.user.reason}"
            found.append(f"uses {self.user.symbol}, {what} ({how})")
        one = self.candidate
        if one.support:
            commits = f"{one.support} of the {one.commits} commits that touched {one.changed_file}"
            found.append(f"changed in {commits}")
        if self.named_like is not None:
            found.append(f"named like {self.named_like}")
        return "; ".join(found) or f"changed in {one.share:.0%} of all commits"


def likely_files(
    changed: Collection[str], candidates: Iterable[Candidate], users: Sequence[User]
) -> list[LikelyFile]:
    """The files that are likely enough, the likeliest first."""
    of_file: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        of_file[candidate.path].append(candidate)
    first_user: dict[str, User] = {}
    for one in sorted(users, key=lambda one: -_weight(one)):
        first_user.setdefault(one.path, one)
    names = {plain_name(path): path for path in sorted(changed, reverse=True)}
    folders = {_folder(path) for path in changed}
    found = []
    for path in {*of_file, *first_user} - set(changed):
        known = max(of_file.get(path, [Candidate(path, 0.0)]), key=_together)
        using = first_user.get(path)
        named_like = names.get(plain_name(path))
        doubt = 1 - _together(known)
        doubt *= 1 - (0.0 if using is None else _weight(using))
        doubt *= 1 - (0.0 if named_like is None else _NAMED)
        doubt *= 1 - (_NEAR if _folder(path) in folders else 0.0)
        if 1 - doubt >= LEAST:
            found.append(LikelyFile(round(1 - doubt, 2), known, using, named_like))
    return sorted(found, key=lambda one: (-one.score, one.path))


def plain_name(path: str) -> str:
    """The name of a file without endings and words for tests: one for ``a.py``, ``test_a.py``."""
    name = path.rpartition("/")[2].partition(".")[0].lower()
    return _TEST_WORD.sub("", name) or name


def same_names(paths: Iterable[str]) -> list[str]:
    """The names without endings, in lower case, that files named like these may have."""
    found = set()
    for name in map(plain_name, paths):
        found |= {name, f"test_{name}", f"tests_{name}"}
        found |= {f"{name}{joint}{word}" for joint in ("_", "-", "") for word in _TEST_WORDS}
    return sorted(found)


def folders_of(paths: Iterable[str]) -> list[str]:
    """The folders of some files, each with a slash at its end unless it is the root."""
    return sorted({_folder(path) for path in paths})


def _together(one: Candidate) -> float:
    return (one.support + _PRIOR_COMMITS * one.share) / (one.commits + _PRIOR_COMMITS)


def _weight(one: User) -> float:
    """What uses a definition that is gone breaks, unless the name means another thing there."""
    return _BROKEN if one.is_removed else _USED * one.confidence


def _folder(path: str) -> str:
    return path[: path.rfind("/") + 1]
