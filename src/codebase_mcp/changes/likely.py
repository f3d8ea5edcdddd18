"""Which files that a change left alone does it probably concern? Pure: evidence in, files out.

A file is likely by what earlier commits like this change touched, by what uses the change, and by
its name and folder. Each piece of evidence takes a share of the doubt that the others leave:
1 - (1 - p1)(1 - p2)… The shares were chosen on some repositories and measured on others by
`make bench-impact` (docs/git.md).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from codebase_mcp.model import FileKind
from codebase_mcp.values import grouped

# The number of commits after which the weight of a commit halves.
_HALF_LIFE = 300
# All commits together weigh as much as this in what those like the change say.
_PRIOR_WEIGHT = 8.0
# The share of doubt that uses take, names and folders, divided among the files they speak for …
_USED, _NAMED, _NEAR = 0.3, 0.1, 0.1
# … and what breaks, as it uses a definition that is gone.
_BROKEN = 0.9
# A less likely file is not named.
LEAST = 0.01

# Two files that changed together once, or seldom, did so by chance.
MIN_SUPPORT = 2
MIN_CONFIDENCE = 0.1
_MAX_PAIRS = 200

_TEST_PREFIXES = ("test", "tests", "spec")
_TEST_WORDS = ("test", "tests", "spec", "bench")
_TEST_WORD = re.compile(r"^(?:tests?|spec)_|[_-](?:tests?|spec|bench)$|tests?$")


@dataclass(frozen=True, slots=True)
class User:
    """A place that uses a changed definition, how sure that is (0 to 1), and why."""

    path: str
    line: int
    enclosing: str | None
    symbol: str
    is_removed: bool
    is_test: bool
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that changes together with ``changed_file``.

    ``support`` of the ``commits`` to ``changed_file`` touched it too.
    """

    path: str
    changed_file: str
    support: int
    commits: int
    is_test: bool = False

    @property
    def confidence(self) -> float:
        """The share of the commits."""
        return self.support / self.commits


@dataclass(frozen=True, slots=True)
class LikelyFile:
    """A file to look at, how likely it is, and the evidence.

    ``share`` of all commits touched it. ``together`` is the changed file that it follows most
    reliably, ``user`` its surest use, ``named_like`` a changed file of the same name.
    """

    path: str
    score: float
    share: float
    together: Companion | None
    user: User | None
    named_like: str | None

    @property
    def why(self) -> str:
        """The evidence, in a line."""
        parts = []
        if self.user is not None:
            gone = ", which is gone" if self.user.is_removed else ""
            how = f"{self.user.confidence:.2f} {self.user.reason}"
            parts.append(f"uses {self.user.symbol}{gone} ({how})")
        if together := self.together:
            parts.append(
                f"in {together.support} of {together.commits} commits to {together.changed_file}"
            )
        if self.named_like is not None:
            parts.append(f"named like {self.named_like}")
        return "; ".join(parts) or f"in {self.share:.0%} of all commits"


class History:
    """What the stored commits, the newest first, say about files that change together.

    A commit is like a change by the rarity of the changed files that it touched, squared, and less
    so the more else it touched.
    """

    def __init__(self, changed: Collection[str], commits: Sequence[Sequence[str]]) -> None:
        self._touched = Counter(path for paths in commits for path in paths)
        self._commits = len(commits)
        rarity = {path: log((len(commits) + 1) / (self._touched[path] + 0.5)) for path in changed}
        self._changed = frozenset(changed)
        self._all: dict[str, float] = defaultdict(float)
        self._like: dict[str, float] = defaultdict(float)
        self._together: dict[str, Counter[str]] = defaultdict(Counter)
        self._all_weight = self._like_weight = 0.0
        for age, paths in enumerate(commits):
            weight = 0.5 ** (age / _HALF_LIFE)
            shared = [path for path in paths if path in rarity]
            likeness = sum(rarity[path] for path in shared) ** 2 / max(len(paths), 1) * weight
            self._all_weight += weight
            self._like_weight += likeness
            for path in paths:
                self._all[path] += weight
                if shared:
                    self._like[path] += likeness
                    self._together[path].update(shared)

    def paths(self, most: int) -> set[str]:
        """The files that changed with the change's, and those that changed most of all."""
        busiest = sorted(self._all, key=lambda path: (-self._all[path], path))
        return {*self._like, *busiest[:most]}

    def likelihood(self, path: str) -> float:
        """The share of commits that touched a file: of those like the change, helped by all."""
        if not self._all_weight:
            return 0.0
        usual = self._all.get(path, 0.0) / self._all_weight
        like = self._like.get(path, 0.0)
        return (like + _PRIOR_WEIGHT * usual) / (self._like_weight + _PRIOR_WEIGHT)

    def share(self, path: str) -> float:
        """The share of all commits that touched a file."""
        return self._touched[path] / max(self._commits, 1)

    def together(self, path: str) -> Companion | None:
        """A file with the changed file that it follows most; two of two are less than 20 of 20."""
        return max(
            self._pairs(path),
            key=lambda pair: (pair.support / (pair.commits + 4), pair.changed_file),
            default=None,
        )

    def companions(self, kinds: Mapping[str, str]) -> list[Companion]:
        """The unchanged files that often change together with a changed file, by confidence.

        ``kinds`` gives the kind of each file to consider.
        """
        pairs = [
            replace(pair, is_test=kind == FileKind.TEST)
            for path, kind in kinds.items()
            if path not in self._changed
            for pair in self._pairs(path)
            if pair.support >= max(MIN_SUPPORT, MIN_CONFIDENCE * pair.commits)
        ]
        pairs.sort(key=lambda pair: (-pair.confidence, -pair.support, pair.path, pair.changed_file))
        best: dict[str, Companion] = {}
        for pair in pairs[:_MAX_PAIRS]:
            best.setdefault(pair.path, pair)
        return list(best.values())

    def _pairs(self, path: str) -> Iterator[Companion]:
        for changed, support in self._together.get(path, {}).items():
            yield Companion(path, changed, support, self._touched[changed])


def likely_files(
    changed: Collection[str], files: Iterable[str], history: History, users: Sequence[User]
) -> list[LikelyFile]:
    """Which of some files are likely enough, the likeliest first."""
    left_alone = sorted({*files, *(user.path for user in users)} - set(changed))
    first_user: dict[str, User] = {}
    for using in sorted(users, key=lambda using: (-using.is_removed, -using.confidence)):
        first_user.setdefault(using.path, using)
    named = _alike(changed, left_alone, plain_name)
    near = _alike(changed, left_alone, _folder)
    likely = []
    for path in left_alone:
        doubt = 1 - history.likelihood(path)
        if user := first_user.get(path):
            doubt *= 1 - _weight(user, len(first_user))
        for share, alike in ((_NAMED, named), (_NEAR, near)):
            if original := alike.get(path):
                doubt *= 1 - share / original.count
        if 1 - doubt >= LEAST:
            like = named[path].changed_file if path in named else None
            share, together = history.share(path), history.together(path)
            likely.append(LikelyFile(path, 1 - doubt, share, together, user, like))
    return sorted(likely, key=lambda file: (-file.score, file.path))


def _weight(user: User, files: int) -> float:
    """A use of a removed definition breaks; of many files that use a changed one few change."""
    return _BROKEN if user.is_removed else max(_USED * user.confidence / files, LEAST)


@dataclass(frozen=True, slots=True)
class _Alike:
    """A changed file that a file is like, and how many are."""

    changed_file: str
    count: int


def _alike(
    changed: Iterable[str], files: Iterable[str], key: Callable[[str], str]
) -> dict[str, _Alike]:
    """For each file a changed file with the same key, and how many files have the key."""
    groups = grouped((key(path), path) for path in files)
    return {
        path: _Alike(original, len(groups[key(original)]))
        for original in sorted(changed, reverse=True)
        for path in groups.get(key(original), ())
    }


def plain_name(path: str) -> str:
    """The name of a file without endings and words for tests: ``a`` of ``test_a.py``."""
    name = path.rpartition("/")[2].partition(".")[0].lower()
    return _TEST_WORD.sub("", name) or name


def same_names(paths: Iterable[str]) -> list[str]:
    """The names without endings, in lower case, that files named like these may have."""
    names = set()
    for name in map(plain_name, paths):
        names |= {name, *(f"{word}_{name}" for word in _TEST_PREFIXES)}
        names |= {f"{name}{joint}{word}" for joint in ("_", "-", "") for word in _TEST_WORDS}
    return sorted(names)


def folders_of(paths: Iterable[str]) -> list[str]:
    """The folders of some files, each with a slash at its end unless it is the root."""
    return sorted({_folder(path) for path in paths})


def _folder(path: str) -> str:
    return path[: path.rfind("/") + 1]
