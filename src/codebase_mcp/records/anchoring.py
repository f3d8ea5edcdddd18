"""Finds the code of an anchor after its repository changed. Pure: from texts and definitions.

An anchor stores the confirmed hash: git's hash of a file, or a hash of the lines of a definition.
Its current code is compared with that hash alone, so after an undone change it is current again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from typing import Literal
from uuid import UUID

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.model import extension_of
from codebase_mcp.values import grouped

AnchorState = Literal["current", "needs_review"]

MAX_ANCHORS = 10

# git calls a file renamed if half of its text is still there (diff --find-renames).
_ALIKE = 0.5

# How many new files are compared with a deleted one; if more have its extension, only those with
# its name are compared.
_COMPARED = 10
_MOST_NEW_FILES = 1_000

# How many files with the same text a reason lists.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CodeReference:
    """A reference to code from a client: at least one of file, symbol and commit."""

    file: str | None = None
    symbol: str | None = None
    commit: str | None = None
    repository_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The current location of the code that a record is about. Lines are 1-based and inclusive.

    ``reason`` says why it needs review; ``moved_from`` is its previous file.
    """

    repository_id: UUID | None
    file: str | None
    symbol: str | None
    commit: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    state: AnchorState = "current"
    reason: str | None = None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class AnchorSpot(Anchor):
    """An anchor with the facts that it is followed by.

    ``hash`` is the confirmed hash, None until the code was in the index. ``blob_id`` is the text
    that contained the code last; ``is_missing`` says that the index does not contain it now.
    """

    hash: bytes | None = None
    blob_id: int | None = None
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """A file of the index; ``hash`` is git's hash of its text."""

    path: str
    blob_id: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """The lines of a definition (1-based, inclusive) and their hash."""

    start_line: int
    end_line: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition in a file of the index."""

    path: str
    blob_id: int
    qualified: str
    body: Body


@dataclass(frozen=True, slots=True)
class Named:
    """The name and the lines of a definition."""

    name: str
    qualified: str
    start_line: int
    end_line: int


Span = tuple[int, int]


def body_of(
    lines: Sequence[str], spans: Sequence[Span], change: Callable[[str], str] = str
) -> Body:
    """The body of a definition, all its overloads together.

    White space at the end of lines and the indentation of the first line do not count, so moving a
    function into a class changes nothing. ``change`` is applied to the text before it is hashed.
    """
    text = "\n".join(_unindented(lines[first - 1 : last]) for first, last in spans)
    digest = sha256(change(text).encode()).digest()
    return Body(min(first for first, _ in spans), max(last for _, last in spans), digest)


def _unindented(lines: Sequence[str]) -> str:
    first = lines[0] if lines else ""
    margin = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(margin).rstrip() for line in lines)


def missing(spot: AnchorSpot, reason: str) -> AnchorSpot:
    """The anchor without its code; it keeps the confirmed hash, as the code may come back."""
    return replace(
        spot,
        start_line=None,
        end_line=None,
        is_missing=True,
        state="needs_review",
        reason=reason,
    )


def follow_file(
    spot: AnchorSpot, current: Content | None, copy: Content | None, move: Content | None
) -> AnchorSpot:
    """The anchor of a whole file after its repository changed.

    ``current`` is the file at its path, ``copy`` a file with the confirmed text, and ``move`` the
    file that its file became: with the last seen text, or with a similar text.
    """
    for content, reason in (
        (current, "the file changed"),
        (copy, None),
        (move, "the file was moved and changed"),
    ):
        if content is not None:
            return _at(spot, content.path, content.blob_id, content.hash, reason)
    return missing(spot, "the file is gone")


def _at(
    spot: AnchorSpot, path: str, blob_id: int, found_hash: bytes, reason: str | None
) -> AnchorSpot:
    """The anchor at another location; ``reason`` applies if the hash is not the confirmed hash."""
    is_same = found_hash == spot.hash
    return replace(
        spot,
        file=path,
        blob_id=blob_id,
        is_missing=False,
        state="current" if is_same else "needs_review",
        reason=None if is_same else reason,
        moved_from=spot.moved_from if path == spot.file else spot.file,
    )


def follow_symbol(
    spot: AnchorSpot,
    current: Definition | None,
    *,
    elsewhere: Sequence[Definition] = (),
    renamed: Definition | None = None,
    moved_to: str | None = None,
    written: Collection[str] = (),
) -> AnchorSpot:
    """The anchor of a definition after its repository changed.

    ``current`` is the definition of its name in its file, ``elsewhere`` are definitions with the
    same last name, ``renamed`` has the same body under a new name. ``moved_to`` is the new path of
    its file, and ``written`` are the files that the run added or changed.
    """
    if current is not None:
        return _on_symbol(spot, current, f"{spot.symbol} changed")
    same = _likeliest(
        [each for each in elsewhere if each.body.hash == spot.hash],
        lambda each: (
            each.path == moved_to,
            each.path == spot.file,
            each.qualified == spot.symbol,
            each.path in written,
        ),
    )
    if len(same) == 1:
        return _on_symbol(spot, same[0], None)
    if renamed is not None:
        # the hash depends on the name of the definition
        return _on_symbol(replace(spot, hash=renamed.body.hash), renamed, None)
    if same:
        paths = sorted({each.path for each in same})
        shown = ", ".join(paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "")
        return missing(spot, f"{spot.symbol} is gone; the same text is in {shown}")
    # A definition of this name in a file that did not change is a different definition.
    changed = _likeliest(
        [
            each
            for each in elsewhere
            if each.qualified == spot.symbol and (each.path in written or each.path == moved_to)
        ],
        lambda each: (each.path == moved_to,),
    )
    if len(changed) == 1:
        return _on_symbol(spot, changed[0], f"{spot.symbol} was moved and changed")
    return missing(spot, f"{spot.symbol} is gone")


def _likeliest(
    definitions: Sequence[Definition], likeness: Callable[[Definition], tuple[bool, ...]]
) -> list[Definition]:
    """The definitions with the greatest likeness."""
    graded = [(likeness(definition), definition) for definition in definitions]
    best = max((grade for grade, _ in graded), default=None)
    return [definition for grade, definition in graded if grade == best]


def _on_symbol(spot: AnchorSpot, definition: Definition, reason: str | None) -> AnchorSpot:
    body = definition.body
    return replace(
        _at(spot, definition.path, definition.blob_id, body.hash, reason),
        symbol=definition.qualified,
        start_line=body.start_line,
        end_line=body.end_line,
    )


def find_renamed(
    spot: AnchorSpot, before: Sequence[Named], now: Sequence[Named], lines: Sequence[str]
) -> tuple[str, Body] | None:
    """The only new definition of a file whose body, except for its name, has the confirmed hash."""
    old = next((named for named in before if named.qualified == spot.symbol), None)
    if old is None:
        return None
    parent = old.qualified.removesuffix(old.name)
    existing = {named.qualified for named in before}
    spans = grouped(
        (named.name, (named.start_line, named.end_line))
        for named in now
        if named.qualified not in existing and named.qualified == parent + named.name
    )
    renamed = [
        (parent + name, body_of(lines, of_name))
        for name, of_name in spans.items()
        if body_of(lines, of_name, _renaming(name, old.name)).hash == spot.hash
    ]
    return renamed[0] if len(renamed) == 1 else None


def _renaming(name: str, new_name: str) -> Callable[[str], str]:
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return lambda text: word.sub(lambda _: new_name, text)


def nearest(path: str, files: Iterable[Content], written: Collection[str]) -> Content | None:
    """The file to which a file with the same text was most likely moved.

    Files that the run wrote come first, then similar names, then similar folders.
    """

    def likeness(file: Content) -> tuple[bool, int, int]:
        steps, theirs = path.split("/"), file.path.split("/")
        return (
            file.path in written,
            _common(reversed(steps), reversed(theirs)),
            _common(steps, theirs),
        )

    return max(sorted(files, key=lambda file: file.path), key=likeness, default=None)


def _common(left: Iterable[str], right: Iterable[str]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def likely_moves(
    path: str, names: Collection[str], new_files: Mapping[str, Collection[str]]
) -> list[str]:
    """The new files that a deleted file may have become, the likeliest first.

    ``names`` are the names of its definitions; ``new_files`` are the names by path. Candidates have
    the same extension, and the same file name or common definitions.
    """
    file_name = path.rsplit("/", 1)[-1]
    same_kind = [new for new in new_files if extension_of(new) == extension_of(path)]
    ignores_names = len(same_kind) > _MOST_NEW_FILES
    distinct = set(names)
    scored = [
        (
            new.rsplit("/", 1)[-1] != file_name,
            0 if ignores_names else -len(distinct.intersection(new_files[new])),
            new,
        )
        for new in same_kind
    ]
    likely = sorted(score for score in scored if not score[0] or score[1])
    return [new for _, _, new in likely[:_COMPARED]]


def most_alike(text: str, candidates: Mapping[str, str]) -> str | None:
    """The name of the text that shares most lines with a text, if they are half of both."""
    lines = _line_counts(text)
    best, best_share = None, 0.0
    for name, candidate in candidates.items():
        theirs = _line_counts(candidate)
        share = _chars(lines & theirs) / max(_chars(lines), _chars(theirs), 1)
        if share >= _ALIKE and share > best_share:
            best, best_share = name, share
    return best


def _line_counts(text: str) -> Counter[str]:
    stripped = (line.strip() for line in split_lines(text))
    return Counter(line for line in stripped if line)


def _chars(lines: Counter[str]) -> int:
    return sum(len(line) * count for line, count in lines.items())
