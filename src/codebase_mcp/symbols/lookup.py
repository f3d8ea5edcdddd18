"""Which definitions does a written name or ``path:line`` mean?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.transaction import Statement
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.model import FIELD_KINDS, ReferenceKind, Symbol
from codebase_mcp.search.literal import exact_text
from codebase_mcp.search.vocabulary import edit_distance
from codebase_mcp.symbols.declared import declared_types
from codebase_mcp.symbols.definition import (
    PROSE_KINDS,
    Definition,
    File,
    ResolvedUse,
    Surroundings,
    Use,
)
from codebase_mcp.symbols.languages import language_of
from codebase_mcp.symbols.resolve import Resolver
from codebase_mcp.symbols.storage import (
    Line,
    aside,
    build_files,
    load_definitions,
    load_files,
    load_names,
    load_outlines,
    load_surroundings,
    load_uses,
    nearest_names,
    package_names,
    references_of,
)
from codebase_mcp.text.tokens import fold

_SEPARATORS = re.compile(r"::|->|[.#\\/]+")
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?:[-:]\d+)?")
_MAX_HINTS = 5
_DEEPEST = 100
# With more classes that have a method of a name, the imports of a file do not tell them apart.
_MAX_HOLDERS = 50


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, as somebody writes it: ``src/pay.py:12``."""

    path: str
    line: int


def parse_place(text: str) -> Place | None:
    """The place that a text names, or None."""
    match = _PLACE.fullmatch(text.strip())
    return Place(clean_path(match["path"]), int(match["line"])) if match else None


def clean_path(path: str) -> str:
    """A path relative to the root, as the index has it."""
    return path.strip().removeprefix("./").strip("/")


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name, however its language joins them: ``Shop::sell``, ``shop.Shop.sell``."""
    name = name.strip().removesuffix("()")
    return tuple(part for part in _SEPARATORS.split(name) if part) or (name,)


async def definitions_named(
    tx: Transaction, name: str, snapshot_ids: Sequence[int]
) -> list[Definition]:
    """The definitions of a simple or qualified name, best first.

    Raises:
        NotFound: there are none; with the nearest names.
    """
    parts = name_parts(name)
    candidates = await load_definitions(tx, parts[-1:], snapshot_ids)
    if meant := named(candidates, parts):
        return meant
    raise await not_defined(tx, name, candidates, snapshot_ids)


def named(definitions: Iterable[Definition], parts: Sequence[str]) -> list[Definition]:
    """Those that a name means, best first: as written, or else in another case."""
    in_code = [
        definition for definition in definitions if definition.kind not in PROSE_KINDS
    ] or list(definitions)
    exact = [definition for definition in in_code if definition.name == parts[-1]] or in_code
    qualifiers = tuple(parts[:-1])
    for is_meant in (_is_inside, _is_below, _is_among):
        if meant := [definition for definition in exact if is_meant(definition, qualifiers)]:
            return in_order(meant)
    return []


def _is_inside(definition: Definition, qualifiers: tuple[str, ...]) -> bool:
    """Whether the definitions that enclose it end in these names."""
    return (
        not qualifiers or tuple(definition.container.split("."))[-len(qualifiers) :] == qualifiers
    )


def _is_below(definition: Definition, qualifiers: tuple[str, ...]) -> bool:
    """Whether its path and the definitions around it end so, in any case."""
    names = [fold(part) for part in qualifiers]
    return _held_in(definition)[-len(names) :] == names


def _is_among(definition: Definition, qualifiers: tuple[str, ...]) -> bool:
    """Whether these names are among those, in their order."""
    held = _held_in(definition)
    try:
        for part in reversed(qualifiers):
            while held.pop() != fold(part):
                pass
    except IndexError:
        return False
    return True


def _held_in(definition: Definition) -> list[str]:
    """The directories, the file and the definitions that enclose a definition."""
    *directories, file = definition.file.path.split("/")
    parts = [*directories, file.partition(".")[0], *definition.container.split(".")]
    return [fold(part) for part in parts if part]


def in_order(definitions: Iterable[Definition]) -> list[Definition]:
    """Code of the product first, types before their members, then by path and line."""
    return sorted(
        definitions,
        key=lambda definition: (
            definition.file.rank,
            definition.depth,
            definition.file.path,
            definition.start_line,
            definition.file.snapshot_id,
        ),
    )


async def not_defined(
    tx: Transaction, name: str, same: Iterable[Definition], snapshot_ids: Sequence[int]
) -> NotFound:
    """The error that a name is not defined, with the nearest names."""
    simple = name_parts(name)[-1]
    near = [definition.qualified for definition in in_order(same)]
    if not near:
        most = max(1, len(simple) // 3)
        others = await nearest_names(tx, simple, snapshot_ids)
        ranked = sorted((edit_distance(fold(simple), fold(other)), other) for other in others)
        near = [near_name for distance, near_name in ranked if distance <= most]
        near += [near_name for _, near_name in ranked if fold(simple) in fold(near_name)]
    near = list(dict.fromkeys(near))[:_MAX_HINTS]
    hint = f"Nearest names: {', '.join(near)}." if near else "search_code finds it by what it does."
    if exact_text(name):
        hint += " find_text finds it as text."
    return NotFound(
        f"No definition of {name[:200]!r} is indexed", hint=hint, details={"nearest": near}
    )


async def file_at(tx: Transaction, path: str, snapshot_ids: Sequence[int]) -> list[File]:
    """The files that a path means: itself, those below it, or those whose path ends in it.

    Raises:
        NotFound: there are none.
    """
    files = await load_files(tx, path, snapshot_ids)
    if not files:
        raise NotFound(
            f"No file or directory {path[:200]!r} is indexed",
            hint="Give the path as search_code shows it, relative to the repository's root.",
        )
    return files


async def at_place(
    tx: Transaction, position: Place, snapshot_ids: Sequence[int]
) -> tuple[list[Definition], list[Use]]:
    """The innermost definition around a line in each file of the path, and the uses in the line.

    Raises:
        NotFound: there is no such file.
    """
    files = await file_at(tx, position.path, snapshot_ids)
    if not any(file.path.endswith(position.path) for file in files):
        raise InvalidInput.of(
            "place",
            f"{position.path}:{position.line}",
            f"{position.path} is a directory",
            rule="PATH:LINE",
        )
    blobs = {file.blob_id for file in files}
    outlines = await load_outlines(tx, blobs, deepest=_DEEPEST, fields=True)
    references = await references_of(tx, blobs)
    definitions, uses = [], []
    for file in files:
        around = [
            outline
            for outline in outlines.get(file.blob_id, ())
            if outline.start_line <= position.line <= outline.end_line
            and (outline.kind not in FIELD_KINDS or _is_declared_at(outline, position.line))
        ]
        if around:
            innermost = max(around, key=lambda symbol: (symbol.depth, symbol.start_line))
            definitions.append(Definition.of(file, innermost))
        uses += [
            Use(file, *reference)
            for reference in references.get(file.blob_id, ())
            if reference.line == position.line
        ]
    return definitions, uses


def _is_declared_at(field: Symbol, line: int) -> bool:
    """Whether a line is about a field: a method that assigns an attribute is about itself."""
    return field.kind != "attribute" and field.start_line == line


async def resolve_names(
    tx: Transaction,
    names: Sequence[str],
    snapshot_ids: Sequence[int],
    kinds: Collection[ReferenceKind] = frozenset(ReferenceKind),
    *,
    most_uses: int | None = None,
) -> tuple[list[Definition], list[ResolvedUse]]:
    """The definitions of some names, and all uses of these in some ways, also under aliases.

    Names with more than ``most_uses`` uses are left out.
    """
    definitions, uses = await load_names(tx, names, snapshot_ids)
    if most_uses is not None:
        counts = Counter(use.name for use in uses if use.kind in kinds)
        uses = [use for use in uses if counts[use.name] <= most_uses]
    return definitions, await resolve_loaded(tx, definitions, uses, snapshot_ids, kinds)


async def resolve_loaded(
    tx: Transaction,
    definitions: Sequence[Definition],
    uses: Sequence[Use],
    snapshot_ids: Sequence[int],
    kinds: Collection[ReferenceKind],
    *,
    reads_types: bool = True,
) -> list[ResolvedUse]:
    """The meanings of the uses of some kinds, also under aliases.

    ``definitions`` are all definitions of the names; imports among the uses are followed. With
    ``reads_types`` declared types are read, which takes five statements more.
    """
    needed = {*kinds, ReferenceKind.IMPORT}
    all_uses = [*uses, *await _under_other_names(tx, uses, snapshot_ids)]
    all_uses = [use for use in all_uses if use.kind in needed]
    return await resolve_uses(
        tx, all_uses, snapshot_ids, definitions, kinds, reads_types=reads_types
    )


async def _under_other_names(
    tx: Transaction, uses: Sequence[Use], snapshot_ids: Sequence[int]
) -> list[Use]:
    """The uses of aliases in the texts that import a name under them."""
    aliases = {(use.file.blob_id, use.alias) for use in uses if use.alias and use.alias != use.name}
    if not aliases:
        return []
    alias_uses = await load_uses(
        tx, {alias for _, alias in aliases}, snapshot_ids, {blob for blob, _ in aliases}
    )
    return [
        use
        for use in alias_uses
        if (use.file.blob_id, use.name) in aliases
        and not use.receiver
        and use.kind is not ReferenceKind.IMPORT
    ]


async def resolve_uses(
    tx: Transaction,
    uses: Sequence[Use],
    snapshot_ids: Sequence[int],
    definitions: Sequence[Definition] | None = None,
    kinds: Collection[ReferenceKind] = frozenset(ReferenceKind),
    *,
    reads_types: bool = True,
) -> list[ResolvedUse]:
    """What each use of some kinds may mean among some definitions, or all of its name."""
    if not uses:
        return []
    count = len(uses)
    lines, imported_names, whole = await aside(count, _needed, uses, definitions or ())
    # With the definitions the build files are known too; imports hardly ever add any.
    early = None if definitions is None else _build_files(definitions, uses, snapshot_ids)
    surroundings, around, packages = await load_surroundings(
        tx, lines, imported_names, whole, early
    )
    names, receivers = await aside(count, _imported, uses, surroundings)
    handed_on: set[str] = set()
    if definitions is None:
        used = {use.name for use in uses}
        definitions = await load_definitions(tx, used | names, snapshot_ids, without=PROSE_KINDS)
        handed_on = names & {definition.name for definition in definitions}
    asked = [use for use in uses if use.kind in kinds]
    typed = asked if reads_types else ()
    declared = await declared_types(tx, typed, definitions, snapshot_ids)
    handed_on |= (receivers | declared.names) & (
        {definition.holder for definition in definitions} - {""}
    )
    imports = []
    if handed_on:
        imports = await load_uses(tx, handed_on, snapshot_ids, only_imports=True)
    if early is None or imports:
        asked_late = _build_files(definitions, [*uses, *imports], snapshot_ids)
        packages = package_names(*await tx.fetch_many([asked_late]))

    def resolved() -> list[ResolvedUse]:
        resolver = Resolver(
            definitions, [*uses, *imports], surroundings, around, packages, declared=declared
        )
        return [
            resolver.resolve(use, around.get((use.file.blob_id, use.line), ())) for use in asked
        ]

    return await aside(count, resolved)


def _build_files(
    definitions: Iterable[Definition], uses: Iterable[Use], snapshot_ids: Sequence[int]
) -> Statement:
    """The statement for the build files around definitions and around what imports them."""
    importing = (use.file for use in uses if use.kind is ReferenceKind.IMPORT)
    files = chain((definition.file for definition in definitions), importing)
    return build_files({(file.language, file.path) for file in files}, snapshot_ids)


def _needed(
    uses: Iterable[Use], definitions: Iterable[Definition]
) -> tuple[set[Line], set[str], set[int]]:
    """The lines of uses, the names whose imports matter there, and the texts where all do."""
    lines, names, whole = set(), {"*"}, set()
    for use in uses:
        lines.add((use.file.blob_id, use.line))
        names |= {use.name, use.receiver}
        if language_of(use.file.language).imports_files:
            whole.add(use.file.blob_id)
    holders = {definition.holder for definition in definitions}
    if whole or len(holders) <= _MAX_HOLDERS:
        names |= holders
    return lines, names, whole


def _imported(
    uses: Iterable[Use], surroundings: Mapping[int, Surroundings]
) -> tuple[set[str], set[str]]:
    """The names from elsewhere that uses stand for, and those that their receivers do."""
    names: set[str] = set()
    receivers: set[str] = set()
    for use in uses:
        nearby = surroundings.get(use.file.blob_id)
        if nearby and (imports := nearby.local.get(use.receiver or use.name)):
            (receivers if use.receiver else names).add(imports[-1].name)
    return names, receivers
