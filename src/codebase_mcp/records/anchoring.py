"""Where is the code of an anchor after its repository changed? Pure: from texts and definitions.

An anchor keeps the hash of what was confirmed: git's hash of a file, or a hash of a definition's
lines. What it stands on is compared with that hash alone, so a change that is undone is forgotten.
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

AnchorState = Literal["current", "needs_review"]

MAX_ANCHORS = 10

# git calls a file renamed if half of its text is still there (diff --find-renames).
_ALIKE = 0.5

# How many new files are compared with a deleted one; if more have its extension, only those with
# its name are compared.
_COMPARED = 10
_MOST_NEW_FILES = 1_000

# How many places with the same text a reason lists.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CodeReference:
    """A reference to code from a client: at least one of file, symbol and commit."""

    file: str | None = None
    symbol: str | None = None
    commit: str | None = None
    repository_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class AnchorSpot:
    """The current position of an anchor, and what is known of it.

    ``hash`` is of what was confirmed, None as long as the place was never found. ``blob_id`` is
    the text in which it was last seen; ``is_missing`` says that it is not there now.
    """

    repository_id: UUID | None
    file: str | None
    symbol: str | None
    start_line: int | None = None
    end_line: int | None = None
    hash: bytes | None = None
    blob_id: int | None = None
    is_missing: bool = False
    state: AnchorState = "current"
    reason: str | None = None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A file of the index, its text, and git's hash of that."""

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
    """A definition as the index lists it: its name, and its lines."""

    name: str
    qualified: str
    start_line: int
    end_line: int


Span = tuple[int, int]


def body_of(
    lines: Sequence[str], spans: Sequence[Span], change: Callable[[str], str] = str
) -> Body:
    """The lines of one definition, all its overloads together.

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
    """The anchor without its code; the confirmed hash is kept, as the code may come back."""
    return replace(
        spot,
        start_line=None,
        end_line=None,
        is_missing=True,
        state="needs_review",
        reason=reason,
    )


def follow_file(
    spot: AnchorSpot, here: Content | None, copy: Content | None, move: Content | None
) -> AnchorSpot:
    """The anchor of a whole file after its repository changed.

    ``here`` is the file of its path, ``copy`` another with the confirmed text, and ``move`` what
    its file became: the same text as last seen, or a similar one.
    """
    if here is not None:
        return _on_file(spot, here, "the file changed")
    if copy is not None:
        return _on_file(spot, copy, None)
    if move is not None:
        return _on_file(spot, move, "the file was moved and changed")
    return missing(spot, "the file is gone")


def _on_file(spot: AnchorSpot, content: Content, otherwise: str | None) -> AnchorSpot:
    is_same = content.hash == spot.hash
    return replace(
        spot,
        file=content.path,
        blob_id=content.blob_id,
        is_missing=False,
        state="current" if is_same else "needs_review",
        reason=None if is_same else otherwise,
        moved_from=spot.moved_from if content.path == spot.file else spot.file,
    )


def follow_symbol(
    spot: AnchorSpot,
    here: Definition | None,
    *,
    elsewhere: Sequence[Definition] = (),
    renamed: Definition | None = None,
    moved_to: str | None = None,
    written: Collection[str] = (),
) -> AnchorSpot:
    """The anchor of a definition after its repository changed.

    ``here`` is the definition of its name in its file, ``elsewhere`` are others of the same last
    name, ``renamed`` is the same body under a new name. ``moved_to`` is what its file became, and
    ``written`` are the files that the run brought in or changed.
    """
    if here is not None:
        return on_symbol(spot, here, f"{spot.symbol} changed")
    same = _likeliest(
        [other for other in elsewhere if other.body.hash == spot.hash],
        lambda other: (
            other.path == moved_to,
            other.path == spot.file,
            other.qualified == spot.symbol,
            other.path in written,
        ),
    )
    if len(same) == 1:
        return on_symbol(spot, same[0], None)
    if renamed is not None:
        # What was confirmed is this body, under whichever name it has.
        return on_symbol(replace(spot, hash=renamed.body.hash), renamed, None)
    if same:
        places = sorted({other.path for other in same})
        named = ", ".join(places[:_NAMED]) + (", …" if len(places) > _NAMED else "")
        return missing(spot, f"{spot.symbol} is gone; the same text is in {named}")
    # A definition of its name that has been there all along is another one.
    changed = _likeliest(
        [
            other
            for other in elsewhere
            if other.qualified == spot.symbol and (other.path in written or other.path == moved_to)
        ],
        lambda other: (other.path == moved_to,),
    )
    if len(changed) == 1:
        return on_symbol(spot, changed[0], f"{spot.symbol} was moved and changed")
    return missing(spot, f"{spot.symbol} is gone")


def _likeliest(
    definitions: Sequence[Definition], likeness: Callable[[Definition], tuple[bool, ...]]
) -> list[Definition]:
    """Those of them that no other is likelier than."""
    graded = [(likeness(definition), definition) for definition in definitions]
    best = max((grade for grade, _ in graded), default=None)
    return [definition for grade, definition in graded if grade == best]


def on_symbol(spot: AnchorSpot, definition: Definition, otherwise: str | None) -> AnchorSpot:
    """The anchor on a definition; ``otherwise`` is the reason if it is not what was confirmed."""
    is_same = definition.body.hash == spot.hash
    return replace(
        spot,
        file=definition.path,
        symbol=definition.qualified,
        start_line=definition.body.start_line,
        end_line=definition.body.end_line,
        blob_id=definition.blob_id,
        is_missing=False,
        state="current" if is_same else "needs_review",
        reason=None if is_same else otherwise,
        moved_from=spot.moved_from if definition.path == spot.file else spot.file,
    )


def find_renamed(
    spot: AnchorSpot, before: Sequence[Named], now: Sequence[Named], lines: Sequence[str]
) -> tuple[str, Body] | None:
    """The one definition that is new in a file and, but for its name, what was confirmed."""
    old = next((named for named in before if named.qualified == spot.symbol), None)
    if old is None:
        return None
    parent = old.qualified.removesuffix(old.name)
    known = {named.qualified for named in before}
    spans: dict[Named, list[Span]] = {}
    for named in now:
        if named.qualified not in known and named.qualified == parent + named.name:
            spans.setdefault(replace(named, start_line=0, end_line=0), []).append(
                (named.start_line, named.end_line)
            )
    found = []
    for named, places in spans.items():
        if body_of(lines, places, _renaming(named.name, old.name)).hash == spot.hash:
            found.append((named.qualified, body_of(lines, places)))
    return found[0] if len(found) == 1 else None


def _renaming(name: str, other: str) -> Callable[[str], str]:
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return lambda text: word.sub(lambda _: other, text)


def nearest(path: str, others: Iterable[Content], written: Collection[str]) -> Content | None:
    """Of files of one text the likeliest to be a moved one: new, of like name, of like place."""

    def likeness(other: Content) -> tuple[bool, int, int]:
        steps, theirs = path.split("/"), other.path.split("/")
        return (
            other.path in written,
            _common(reversed(steps), reversed(theirs)),
            _common(steps, theirs),
        )

    candidates = sorted(others, key=lambda other: other.path)
    return max(candidates, key=likeness, default=None)


def _common(some: Iterable[str], others: Iterable[str]) -> int:
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def likely_moves(
    path: str, names: Collection[str], new_files: Mapping[str, Collection[str]]
) -> list[str]:
    """The new files that one which is gone may have become, likeliest first.

    ``names`` are those of its definitions, ``new_files`` maps paths to those of theirs. A file of
    another extension is another file, and so is one that shares neither name nor definitions.
    """
    file_name = path.rsplit("/", 1)[-1]
    extension = _extension(file_name)
    same_kind = {
        other: other.rsplit("/", 1)[-1] == file_name
        for other in new_files
        if _extension(other) == extension
    }
    is_much = len(same_kind) > _MOST_NEW_FILES
    wanted = set(names)
    scored = [
        (not has_name, 0 if is_much else -len(wanted.intersection(new_files[other])), other)
        for other, has_name in same_kind.items()
    ]
    likely = sorted(score for score in scored if not score[0] or score[1])
    return [other for _, _, other in likely[:_COMPARED]]


def _extension(path: str) -> str:
    _, dot, extension = path.rsplit("/", 1)[-1].rpartition(".")
    return extension.lower() if dot else ""


def most_alike(text: str, others: Mapping[str, str]) -> str | None:
    """The name of the other text that holds most of this one's lines, if that is half of it."""
    lines = _line_counts(text)
    best, best_share = None, 0.0
    for name, other in others.items():
        theirs = _line_counts(other)
        whole = max(_chars(lines), _chars(theirs), 1)
        share = _chars(lines & theirs) / whole
        if share >= _ALIKE and share > best_share:
            best, best_share = name, share
    return best


def _line_counts(text: str) -> Counter[str]:
    stripped = (line.strip() for line in split_lines(text))
    return Counter(line for line in stripped if line)


def _chars(lines: Counter[str]) -> int:
    return sum(len(line) * count for line, count in lines.items())
