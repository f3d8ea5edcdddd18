"""What does the evidence say of each file? Pure: numbers by file and kind of evidence, and reasons.

A column has a number for each file, 0 where that evidence says nothing of it. ``mixture.py`` makes
probabilities of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from posixpath import normpath

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codebase_mcp.changes.likely import plain_name
from codebase_mcp.context.task import Task, TaskPath
from codebase_mcp.model import FileKind
from codebase_mcp.search.exact import TextFile

Floats = NDArray[np.float32]
FileKey = tuple[int, str]
"""A file: the id of its snapshot, and its path."""

# The columns, in the order in which the mixture was fitted.
COLUMNS = (
    "title_rank", "title_score", "title_words", "title_meaning",
    "whole_rank", "whole_score", "whole_words", "whole_meaning",
    "changed_rank", "changed_words", "changed_meaning",
    "file_words", "file_words_mean",
    "comments", "folders", "definition", "expansion", "name_in_title", "name_in_whole",
    "named", "frame", "reported", "scope",
    "defines", "uses", "defines_changed", "uses_changed",
    "message", "same_lines",
    "commits", "best_commit", "recent", "churn",
    "together_given", "likely_given", "together_likely", "likely_likely",
    "uses_given", "used_by_given", "uses_likely", "used_by_likely",
    "uses_changed_given", "uses_changed_likely",
    "near_given", "near_likely",
    "name_of_given", "name_of_likely", "folder_of_given", "folder_of_likely",
    "is_code", "is_test", "is_docs", "is_config", "is_other", "main_language",
    "language_of_given",
    "has_given", "has_change", "has_trace", "has_only_library_frames", "words_of_task",
    "names_of_task_known",
)  # fmt: skip

# A reason that counts less than this share of the strongest is not told.
_TOLD_SHARE = 0.25
_MOST_REASONS = 2

# Folders in which packages are installed; below some of them a package has a folder of its own.
_PACKAGES = frozenset({"site-packages", "dist-packages", "node_modules", "gems"})

_HUNK_LEAD = 3


class FolderTree:
    """Folders, each with the numbers of those from the top down to it, and -1 behind."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._rows = {folder: row for row, folder in enumerate(folders)}
        parts = [folder.split("/") for folder in folders]
        self._depths = np.array([len(each) for each in parts], np.int64)
        numbers: dict[str, int] = {}
        self._above = np.full((len(folders), max(self._depths, default=0)), -1, np.int64)
        for row, names in enumerate(parts):
            for depth, path in enumerate(accumulate(names, "{}/{}".format)):
                self._above[row, depth] = numbers.setdefault(path, len(numbers))

    def nearness(self, folder: str) -> Floats:
        """How much of its path to the root each folder shares with one of them, 0 to 1."""
        row = self._rows[folder]
        own = self._above[row]
        shared = ((self._above == own) & (own >= 0)).sum(axis=1)
        nearness: Floats = (shared / np.maximum(self._depths, self._depths[row])).astype(np.float32)
        return nearness


class FileTable:
    """The files of some snapshots, numbered, and where each name, folder and text occurs.

    ``by_stem`` are the names without endings and words for tests. ``facts`` are the columns that
    hold for every task, ``folder_of`` the number of each file's folder, ``by_path`` the places of
    the files in the order of their paths. ``differing`` remembers the files that are not as a
    commit has them, by snapshot and commit.
    """

    def __init__(self, files: Iterable[TextFile]) -> None:
        self.files = tuple(files)
        self.differing: dict[tuple[int, str], list[int]] = {}
        self.rows: dict[FileKey, int] = {}
        self.by_text: defaultdict[int, list[int]] = defaultdict(list)
        self.by_name: defaultdict[str, list[int]] = defaultdict(list)
        self.by_stem: defaultdict[str, list[int]] = defaultdict(list)
        self.by_folder: defaultdict[str, list[int]] = defaultdict(list)
        for row, file in enumerate(self.files):
            folder, _, name = file.path.rpartition("/")
            self.rows[file.snapshot.id, file.path] = row
            self.by_name[name.lower()].append(row)
            self.by_stem[plain_name(name)].append(row)
            self.by_folder[folder].append(row)
            if file.text_id is not None:
                self.by_text[file.text_id].append(row)
        order = sorted(range(len(self.files)), key=lambda row: self.files[row].path)
        self.by_path = np.empty(len(order), np.int64)
        self.by_path[order] = np.arange(len(order))
        self.kinds = [FileKind(file.kind) for file in self.files]
        self.folders = FolderTree(list(self.by_folder))
        self.folder_of = np.empty(len(self.files), np.int64)
        for number, rows in enumerate(self.by_folder.values()):
            self.folder_of[rows] = number
        kinds = np.array(self.kinds)
        self.facts = {f"is_{kind}": kinds == kind for kind in ("code", "test", "docs", "config")}
        self.facts["is_other"] = ~np.logical_or.reduce(list(self.facts.values()))
        languages = [file.language for file in self.files]
        counts = Counter(f.language for f in self.files if f.kind == FileKind.CODE)
        main = counts.most_common(1)[0][0] if counts else ""
        self.facts["main_language"] = np.array(languages) == main


class Features:
    """The columns of all files of a table, and the reasons for each.

    ``guess`` is a first guess of how likely a task needs a file; NaN where none was made.
    """

    def __init__(self, table: FileTable) -> None:
        self.table = table
        self.files, self.rows, self.by_text = table.files, table.rows, table.by_text
        self._numbers = np.zeros((len(COLUMNS), len(self.files)), np.float32)
        self.columns = dict(zip(COLUMNS, self._numbers, strict=True))
        self.guess = np.full(len(self.files), np.nan)
        for name, facts in table.facts.items():
            self.columns[name][:] = facts
        self._reasons: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def put(self, column: str, row: int, value: float, reason: str = "", weight: float = 0) -> None:
        """Set a number unless it is higher already; ``weight`` is that of the reason, 0 to 1."""
        numbers = self.columns[column]
        numbers[row] = max(numbers[row], value)
        if reason:
            reasons = self._reasons[row]
            reasons[reason] = max(reasons.get(reason, 0.0), weight)

    def put_all(self, column: str, rows: ArrayLike, values: ArrayLike) -> None:
        """Set the numbers of some files, each unless it is higher already."""
        numbers = np.asarray(values, np.float32)
        np.maximum.at(self.columns[column], np.asarray(rows, np.int64), numbers)

    def reasons(self, row: int) -> tuple[str, ...]:
        """Why a file is needed, the strongest reason first."""
        reasons = self._reasons.get(row, {})
        least = _TOLD_SHARE * max(reasons.values(), default=0.0)
        told = sorted(reasons, key=lambda text: -reasons[text])[:_MOST_REASONS]
        return tuple(text for text in told if reasons[text] >= least)

    def matrix(self, rows: Sequence[int]) -> Floats:
        """The numbers of some files: a row for each, the columns in their order."""
        return np.ascontiguousarray(self._numbers[:, rows].T)

    def kind(self, row: int) -> FileKind:
        """What a file is for."""
        return self.table.kinds[row]


@dataclass(frozen=True, slots=True)
class Seed:
    """A file from which others are reached, and how much it counts, 0 to 1."""

    row: int
    weight: float


def add_facts(features: Features, task: Task, given: Collection[int]) -> None:
    """What holds for all files of a task, and which have the language of a given file."""
    columns = features.columns
    languages = {features.files[row].language for row in given}
    if languages:
        columns["language_of_given"][:] = [file.language in languages for file in features.files]
    frames = [path for path in task.paths if path.origin == "trace"]
    columns["has_given"][:] = len(given) > 0
    columns["has_change"][:] = bool(task.changed)
    columns["has_trace"][:] = any(path.origin in ("trace", "test") for path in task.paths)
    columns["has_only_library_frames"][:] = bool(frames) and all(f.is_library for f in frames)
    columns["words_of_task"][:] = np.log1p(sum(len(text.split()) for text in task.sentences))
    columns["names_of_task_known"][:] = 1


def add_paths(features: Features, task: Task) -> dict[int, list[int]]:
    """The files that a task names: in a trace, in what a compiler says, or in its text.

    Returns the lines that it names, by file.
    """
    lines: defaultdict[int, list[int]] = defaultdict(list)
    own = [path for path in task.paths if not path.is_library or _is_installed(features, path)]
    frames = sorted({path.frame for path in own if path.frame is not None})
    for path in own:
        matches = list(_matching(features, path.path))
        for row, share in matches:
            line = f":{path.line}" if path.line else ""
            if path.line:  # a hunk begins with lines that it does not change
                lines[row].append(path.line + (_HUNK_LEAD if path.origin == "change" else 0))
            if path.origin == "trace" and path.frame is not None:
                number = frames.index(path.frame) + 1
                reason = f"in the trace{line}, frame {path.frame}"
                features.put("frame", row, share / number, reason, share)
            elif path.origin in ("compiler", "test", "trace"):
                features.put("reported", row, share, f"reported{line}", share)
            elif path.origin == "change":
                features.put("named", row, share, "in the diff", share)
            else:
                features.put("named", row, share, f"named in the task{line}", share)
    return lines


def _is_installed(features: Features, path: TaskPath) -> bool:
    """Whether a path among installed packages is that of an installed copy of a file."""
    parts = _parts(path.path)
    shared = max(_shared_ends(features, parts).values(), default=0)
    return shared > 1 and not _PACKAGES.isdisjoint(parts[:-shared][-2:])


def add_scopes(features: Features, task: Task) -> None:
    """The files whose name, or the name of whose folder, is a component that the title names."""
    for scope in task.scopes:
        name = scope.lower().rpartition("/")[2]
        inside = [
            row
            for folder, rows in features.table.by_folder.items()
            if name in folder.lower().split("/")
            for row in rows
        ]
        for most, rows in ((1.0, features.table.by_stem.get(name, ())), (0.5, inside)):
            for row in rows:
                share = most / len(rows) ** 0.5
                features.put("scope", row, share, f"in {scope}", 0.5 * share)


def rows_of_path(features: Features, path: str) -> list[int]:
    """The files that a path means, which may be from another machine: those with the longest
    common end."""
    return [row for row, _ in _matching(features, path)]


def _matching(features: Features, path: str) -> Iterator[tuple[int, float]]:
    """The files that share the longest end with a path, with how sure that is."""
    shared = _shared_ends(features, _parts(path))
    longest = max(shared.values(), default=0)
    best = [row for row, count in shared.items() if count == longest]
    for row in best:
        yield row, 1 / len(best)


def _parts(path: str) -> list[str]:
    """The folders and the name of a path that may be from another machine."""
    return normpath(path.replace("\\", "/").lower()).split("/")


def _shared_ends(features: Features, parts: Sequence[str]) -> dict[int, int]:
    """The files of the same name, each with how many parts from the end on are equal."""
    return {
        row: _common_end(features.files[row].path.lower().split("/"), parts)
        for row in features.table.by_name.get(parts[-1], ())
    }


def _common_end(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for one, other in zip(reversed(a), reversed(b), strict=False):
        if one != other:
            break
        count += 1
    return count


def add_neighbours(features: Features, seeds: Sequence[Seed], name: str) -> None:
    """The files named like some files, and those in their folders; ``name`` is of the columns."""
    stems: defaultdict[str, float] = defaultdict(float)
    folders: defaultdict[str, float] = defaultdict(float)
    originals: dict[str, str] = {}
    for seed in seeds:
        path = features.files[seed.row].path
        stem = plain_name(path)
        stems[stem] = max(stems[stem], seed.weight)
        originals.setdefault(stem, path)
        folders[path.rpartition("/")[0]] += seed.weight
    own = {seed.row for seed in seeds}
    for stem, weight in stems.items():
        others = [row for row in features.table.by_stem[stem] if row not in own]
        original = originals[stem].rpartition("/")[2]
        share = weight / max(len(others), 1) ** 0.5
        for row in others:
            is_test = features.files[row].kind == FileKind.TEST
            reason = f"test named after {original}" if is_test else f"named like {original}"
            features.put(f"name_of_{name}", row, share, reason, 0.6 * share)
    for folder, weight in folders.items():
        rows = features.table.by_folder[folder]
        for row in rows:
            if row not in own:
                features.put(f"folder_of_{name}", row, weight / len(rows) ** 0.5)
    add_nearness(features, seeds, name)


def add_nearness(features: Features, seeds: Sequence[Seed], name: str) -> None:
    """How much of its path to the root each folder shares with that of the nearest seed."""
    table = features.table
    numbers = features.columns[f"near_{name}"]
    near = np.zeros(len(table.by_folder), np.float32)
    for seed in seeds:
        folder = features.files[seed.row].path.rpartition("/")[0]
        near = np.maximum(near, seed.weight * table.folders.nearness(folder))
    numbers[:] = near[table.folder_of]
