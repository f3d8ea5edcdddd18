"""Which files define or use the names of a task, and which are linked to given files by names?

A link from a file to another is a name that the one uses and the other defines; it counts less the
more files define or use that name, and in proportion to the file from which it is followed. It is
followed in both directions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from codebase_mcp.context.features import Features, Seed
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.text.tokens import fold

_SQL = load_queries("codebase_mcp.context", "context.sql")

_MOST_NAMES = 150
_MOST_ROWS = 3_000
_MOST_SUM = 3.0

# A name that more texts define or use, or that more definitions have, links nothing.
_MOST_DEFINERS = 4
_MOST_DEFINITIONS = 60
_MOST_USERS = 60
_LINK_NAMES = 150


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that a task names (lines 1-based, inclusive)."""

    name: str
    start_line: int
    end_line: int


async def add_names(
    tx: Transaction, features: Features, names: Sequence[str], column: str, weight: float
) -> dict[int, list[Definition]]:
    """The files that define or use some names; returns the definitions by file.

    ``column`` is ``""`` for the names of the task and ``_changed`` for those in its diff.
    """
    last = {_last(name): name for name in reversed(names[:_MOST_NAMES]) if len(_last(name)) > 2}
    if not last:
        return {}
    folded = {fold(name): name for name in last}
    defined, using = await tx.fetch_many([
        (_SQL["defined"], {"folded": list(folded), "most": _MOST_ROWS}),
        (_SQL["using"], {"names": list(last), "most": _MOST_USERS + 1}),
    ])  # fmt: skip
    definers: defaultdict[str, dict[int, list[Definition]]] = defaultdict(dict)
    for blob_id, name, _, qualified, start, end in defined:
        for row in features.by_text.get(blob_id, ()):
            definers[name].setdefault(row, []).append(Definition(qualified, start, end))
    users: defaultdict[str, list[int]] = defaultdict(list)
    for name, blob_id in using:
        users[name] += features.by_text.get(blob_id, ())
    if not column:
        known = sum(name in definers or bool(users[last]) for name, last in folded.items())
        features.columns["names_of_task_known"][:] = known / len(folded)
    found: defaultdict[int, list[Definition]] = defaultdict(list)
    for rows_of_name in definers.values():
        for row, definitions in rows_of_name.items():
            found[row] += definitions[:2]
    defining = {folded[name]: list(rows) for name, rows in definers.items()}
    few_users = {name: rows for name, rows in users.items() if len(rows) <= _MOST_USERS}
    _add_shares(features, f"defines{column}", "defines", defining, weight=weight, power=1.0)
    _add_shares(features, f"uses{column}", "uses", few_users, weight=0.7 * weight, power=0.5)
    return found


def _add_shares(
    features: Features,
    column: str,
    verb: str,
    rows_of: Mapping[str, Sequence[int]],
    *,
    weight: float,
    power: float,
) -> None:
    """Add for each name a share that is less the more files there are."""
    sums: defaultdict[int, float] = defaultdict(float)
    for name, rows in rows_of.items():
        for row in rows:
            sums[row] += 1 / len(rows) ** power
            features.put(column, row, 0, f"{verb} {name}", weight / len(rows) ** 0.5)
    for row, total in sums.items():
        features.put(column, row, min(total, _MOST_SUM))


async def add_links(
    tx: Transaction,
    features: Features,
    seeds: Sequence[Seed],
    name: str,
    changed: Collection[str] = (),
) -> None:
    """The files that use what some files define, and that define what these use.

    ``name`` is of the columns, ``changed`` are words of a diff.
    """
    of_text = {
        text_id: seed for seed in seeds if (text_id := features.files[seed.row].text_id) is not None
    }
    if not of_text:
        return
    own = {seed.row for seed in seeds}
    blobs = array_literal(of_text)
    using, defining = await tx.fetch_many([
        (_SQL["used_in"], {"blobs": blobs}), (_SQL["defined_in"], {"blobs": blobs})
    ])  # fmt: skip
    of_texts = {word for _, words in using for word in words if len(word) > 2}
    few = await _definers(tx, of_texts.union(word for _, word in defining))
    backward = await _users_of(tx, defining, few, changed)
    for column, links, reason in (
        (f"used_by_{name}", _used_by(using, few), "{path} uses its {name}"),
        (f"uses_{name}", backward, "uses {name} of {path}"),
        (f"uses_changed_{name}", [link for link in backward if link[2] in changed],
         "uses {name} of {path}, which the diff changes"),
    ):  # fmt: skip
        sums: defaultdict[int, float] = defaultdict(float)
        for text_id, target, used, share in links:
            seed = of_text[text_id]
            path = features.files[seed.row].path.rpartition("/")[2]
            value = share * seed.weight
            for row in features.by_text.get(target, ()):
                if row not in own:
                    sums[row] += value
                    told = reason.format(path=path, name=used)
                    features.put(column, row, 0, told, 0.9 * value)
        for row, total in sums.items():
            features.put(column, row, min(total, _MOST_SUM))


Link = tuple[int, int, str, float]
"""From the text of a seed to another text: the name, and how much it counts."""


def _used_by(rows: Sequence[Row], few: Mapping[str, Sequence[int]]) -> list[Link]:
    """The texts that define what some texts use."""
    return [
        (blob_id, target, name, 1 / len(few[name]))
        for blob_id, names in rows
        for name in names
        for target in few.get(name, ())
        if target != blob_id
    ]


async def _definers(tx: Transaction, names: Collection[str]) -> dict[str, list[int]]:
    """The texts that define some names, of names that few define."""
    found = await tx.fetch_all(
        _SQL["definers"],
        names=list(names),
        folded=list(map(fold, names)),
        most=_MOST_DEFINERS,
        most_rows=_MOST_DEFINITIONS,
    )
    return dict(found)


async def _users_of(
    tx: Transaction,
    rows: Sequence[Row],
    few: Mapping[str, Sequence[int]],
    first: Collection[str],
) -> list[Link]:
    """The texts that use what some texts define; of too many names the ``first`` are kept."""
    names = sorted(dict.fromkeys(name for _, name in rows if name in few),
                   key=lambda name: name not in first)[:_LINK_NAMES]  # fmt: skip
    users: defaultdict[str, list[int]] = defaultdict(list)
    for name, blob_id in await tx.fetch_all(_SQL["using"], names=names, most=_MOST_USERS + 1):
        users[name].append(blob_id)
    return [
        (blob_id, target, name, 1 / (len(few[name]) * log2(1 + len(users[name]))))
        for blob_id, name in rows
        if name in few and 0 < len(users[name]) <= _MOST_USERS
        for target in users[name]
        if target != blob_id
    ]


def _last(name: str) -> str:
    """The last part of a qualified name."""
    for joint in ("::", ".", "->", "#", "/"):
        name = name.rpartition(joint)[2] or name
    return name.rstrip("()!?")
