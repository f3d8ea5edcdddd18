"""Answers a question about a name, a line or a path, in a single transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.errors import NotFound
from codebase_mcp.model import MOST_ITEMS, Symbol, extension_of
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.symbols.candidates import LEAST
from codebase_mcp.symbols.definition import Definition, File, FoundUse
from codebase_mcp.symbols.hierarchy import CallTree, Implementation, call_tree, implementations_of
from codebase_mcp.symbols.lookup import Place, at_place, definitions_named, file_at, resolve_uses
from codebase_mcp.symbols.paths import CallPaths, call_paths
from codebase_mcp.symbols.references import References, references_to
from codebase_mcp.symbols.storage import MOST_FILES, load_around, load_outlines, load_texts

Operation = Literal[
    "definition", "references", "callers", "callees", "path", "implementations", "outline"
]

# A name with more definitions is too common for a tree.
MAX_TARGETS = 20

# The filters name no repository: which ones are meant is decided before.
_ANY = UUID(int=0)

# More than the depth of any definition.
_DEEPEST = 100

# A decorated definition has its name within this number of lines.
_HEAD_LINES = 12


@dataclass(frozen=True, slots=True)
class SymbolQuestion:
    """A question about a name or a line; an outline is about a path.

    A question for a path of calls says where it leads to. Answers list what is in files that pass
    the filters; ``body`` asks for the text of definitions.
    """

    operation: Operation
    name: str | None = None
    place: Place | None = None
    path: str | None = None
    to: str | None = None
    to_place: Place | None = None
    ref: str | None = None
    depth: int = 1
    limit: int = 50
    body: bool = False
    filters: FileFilters = field(default_factory=FileFilters)

    @property
    def subject(self) -> str:
        """The name, ``path:line`` or path of the question, as the caller wrote it."""
        return _subject(self.name, self.place) or self.path or "."

    @property
    def to_subject(self) -> str:
        """The same of where a path leads to."""
        return _subject(self.to, self.to_place)

    def is_asked(self) -> Callable[[File], bool]:
        """A function that says whether the question is about a file."""
        if not self.filters.narrow:
            return lambda _: True
        passes = self.filters.test()
        return lambda file: passes(
            _ANY, file.path, extension_of(file.path), file.language, file.kind
        )


def _subject(name: str | None, place: Place | None) -> str:
    return f"{place.path}:{place.line}" if place else name or ""


@dataclass(frozen=True, slots=True)
class FileOutline:
    """The definitions of a file, by line; of a file in a directory those at its top."""

    file: File
    definitions: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class TreeOutline:
    """The files at or below a path with definitions, and the rest (``others``).

    ``is_cut`` says that the directory has more files than were read.
    """

    path: str
    files: tuple[FileOutline, ...]
    others: tuple[File, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class SymbolFacts:
    """The answer to a question; which fields are set depends on the operation.

    ``used`` are the names that the line of a place uses, and their definitions. ``unresolved``
    counts uses that may belong to the answer, ``elsewhere`` entries in files that are not asked
    about. ``texts`` has the lines of the texts shown, by blob.
    """

    definitions: tuple[Definition, ...] = ()
    used: tuple[FoundUse, ...] = ()
    references: References | None = None
    calls: CallTree | None = None
    paths: CallPaths | None = None
    implementations: tuple[Implementation, ...] = ()
    outline: TreeOutline | None = None
    unresolved: int = 0
    elsewhere: int = 0
    texts: Mapping[int, Sequence[str]] | None = None

    def signature(self, definition: Definition) -> str:
        """The line that names a definition, as it stands in its text."""
        return self.signature_at(definition.file.blob_id, definition)

    def signature_at(self, blob_id: int, definition: Symbol) -> str:
        """The line that names a definition of a text."""
        lines = (self.texts or {}).get(blob_id, ())[definition.start_line - 1 : definition.end_line]
        head = [line.strip() for line in lines[:_HEAD_LINES]]
        return next((line for line in head if definition.name in line), head[0] if head else "")

    def body(self, definition: Definition) -> Sequence[str]:
        """The lines of a definition."""
        lines = (self.texts or {}).get(definition.file.blob_id, ())
        return lines[definition.start_line - 1 : definition.end_line]

    def line(self, blob_id: int, number: int) -> str:
        """A line of a text."""
        lines = (self.texts or {}).get(blob_id, ())
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


async def answer(
    tx: Transaction, question: SymbolQuestion, snapshot_ids: Sequence[int]
) -> SymbolFacts:
    """The answer to a question, in some states.

    Raises:
        NotFound: nothing has such a name or path; the hint names the nearest.
        InvalidInput: the path of the place is a directory.
    """
    if question.operation == "outline":
        path = question.place.path if question.place else question.path or question.name or ""
        outline = await _outline(tx, path, snapshot_ids)
        blobs = {file.file.blob_id for file in outline.files[: question.limit]}
        return SymbolFacts(outline=outline, texts=await load_texts(tx, blobs))
    if question.operation == "references" and question.place is None:
        assert question.name is not None
        references = await references_to(
            tx, question.name, snapshot_ids, is_asked=question.is_asked()
        )
        return await _with_texts(tx, question, _facts_of(references))
    targets, used = await _targets(tx, question, snapshot_ids)
    if question.operation == "path":
        goal = replace(question, name=question.to, place=question.to_place)
        ends, _ = await _targets(tx, goal, snapshot_ids)
        paths = await call_paths(tx, targets, ends, snapshot_ids, question.is_asked())
        return await _with_texts(tx, question, SymbolFacts(tuple(targets), paths=paths))
    return await _with_texts(tx, question, await _facts(tx, question, snapshot_ids, targets, used))


async def _outline(tx: Transaction, path: str, snapshot_ids: Sequence[int]) -> TreeOutline:
    """The outline of a file, or of a directory.

    Raises:
        NotFound: no such file or directory is indexed.
    """
    files = await file_at(tx, path, snapshot_ids)
    is_file = all(file.path.endswith(path) for file in files) and path != ""
    definitions = await load_outlines(
        tx, {file.blob_id for file in files}, deepest=_DEEPEST if is_file else 0
    )
    outlines = [FileOutline(file, tuple(definitions.get(file.blob_id, ()))) for file in files]
    shown = [outline for outline in outlines if outline.definitions or is_file]
    others = [] if is_file else [outline.file for outline in outlines if not outline.definitions]
    return TreeOutline(path, tuple(shown), tuple(others), len(files) >= MOST_FILES)


async def _facts(
    tx: Transaction,
    question: SymbolQuestion,
    snapshot_ids: Sequence[int],
    targets: Sequence[Definition],
    used: tuple[FoundUse, ...],
) -> SymbolFacts:
    definitions = tuple(targets)
    few = targets[:MAX_TARGETS]
    is_asked = question.is_asked()
    if question.operation == "definition":
        asked = tuple(definition for definition in definitions if is_asked(definition.file))
        return SymbolFacts(asked, used, elsewhere=len(definitions) - len(asked))
    if question.operation == "references":
        references = await references_to(
            tx, targets[0].name, snapshot_ids, only=targets, is_asked=is_asked
        )
        return _facts_of(references)
    if question.operation == "implementations":
        implementations, unresolved = await implementations_of(
            tx, few, snapshot_ids, question.depth
        )
        return SymbolFacts(
            definitions,
            implementations=tuple(i for i in implementations if is_asked(i.file)),
            unresolved=unresolved,
            elsewhere=sum(not is_asked(i.file) for i in implementations),
        )
    is_up = question.operation == "callers"
    calls = await call_tree(tx, few, snapshot_ids, question.depth, is_up=is_up, is_asked=is_asked)
    calls = replace(calls, not_followed=calls.not_followed + len(targets) - len(few))
    return SymbolFacts(
        definitions, calls=calls, unresolved=calls.unresolved, elsewhere=calls.elsewhere
    )


def _facts_of(references: References) -> SymbolFacts:
    return SymbolFacts(
        references.definitions,
        references=references,
        unresolved=references.unresolved,
        elsewhere=references.elsewhere,
    )


async def _targets(
    tx: Transaction, question: SymbolQuestion, snapshot_ids: Sequence[int]
) -> tuple[list[Definition], tuple[FoundUse, ...]]:
    """The definitions that a question is about, and for ``definition`` what a line uses."""
    if question.place is None:
        assert question.name is not None
        return await definitions_named(tx, question.name, snapshot_ids), ()
    line = question.place.line
    around, used = await at_place(tx, question.place, snapshot_ids)
    is_head = any(meaning.start_line == line for meaning in around)
    if question.operation == "definition" and used and not is_head:
        meanings = [
            use.with_meaning(candidate)
            for use in await resolve_uses(tx, used, snapshot_ids)
            for candidate in use.candidates
            if candidate.confidence >= LEAST
        ]
        if meanings:
            meant = {
                meaning.definition.key: meaning.definition
                for meaning in meanings
                if meaning.definition
            }
            return list(meant.values()), tuple(meanings)
    if not around:
        raise NotFound(
            f"No definition holds {question.subject}",
            hint="Ask for the outline of the file.",
        )
    return around, ()


async def _with_items(tx: Transaction, references: References) -> References:
    """The references with the items around them; a definition with uses in many keeps these."""
    lines = {(match.use.file.blob_id, match.use.line) for match in references.uses}
    around = await load_around(tx, lines, items=True) if lines else {}
    inner: list[Symbol | None] = []
    for match in references.uses:
        items = around.get((match.use.file.blob_id, match.use.line), ())
        is_inside = items and (not match.around or items[-1].depth > match.around[-1].depth)
        inner.append(items[-1] if is_inside else None)
    holders = [(match.use.file, match.around[-1:]) for match in references.uses]
    used = {pair for pair in zip(holders, inner, strict=True) if pair[1] is not None}
    counts = Counter(holder for holder, _ in used)
    uses = (
        replace(match, around=(*match.around, item))
        if item is not None and counts[holder] <= MOST_ITEMS
        else match
        for match, holder, item in zip(references.uses, holders, inner, strict=True)
    )
    return replace(references, uses=tuple(uses))


async def _with_texts(tx: Transaction, question: SymbolQuestion, facts: SymbolFacts) -> SymbolFacts:
    """The facts with the texts of the entries within the limit."""
    blobs = {definition.file.blob_id for definition in facts.definitions[: question.limit]}
    if facts.references is not None:
        references = await _with_items(tx, facts.references)
        facts = replace(facts, references=references)
        blobs |= {match.use.file.blob_id for match in references.uses[: question.limit]}
    blobs |= {
        implementation.definition.file.blob_id
        for implementation in facts.implementations[: question.limit]
        if implementation.definition is not None
    }
    if facts.paths is not None:
        blobs |= {end.file.blob_id for end in facts.paths.ends[: question.limit]}
    return replace(facts, texts=await load_texts(tx, blobs))
