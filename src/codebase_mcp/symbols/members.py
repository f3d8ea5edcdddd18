"""Which members of classes may a use mean: of the own class, of its bases, or by the name alone?"""

from __future__ import annotations

from collections.abc import Iterable

from codebase_mcp.model import FIELD_KINDS, ReferenceKind
from codebase_mcp.symbols.candidates import (
    BASE,
    BY_NAME,
    LIKE_ITS_TYPE,
    NAMED_TYPE,
    NEIGHBOUR,
    SCOPE,
    TYPE_IN_FILE,
    Candidates,
    is_member,
    shared,
)
from codebase_mcp.symbols.definition import TYPE_KINDS, Candidate
from codebase_mcp.symbols.imports import directory_of
from codebase_mcp.symbols.languages import Modules
from codebase_mcp.symbols.use_site import UseSite
from codebase_mcp.text.tokens import fold

_NOTHING = Candidates()


def own(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """A member of the class around a use, or of its bases."""
    scope = site.around[-1].qualified if site.around else ""
    in_file = candidates.in_file.get(site.use.file.path, ())
    # A constant may have the name of an interface.
    no_types = {symbol.qualified for symbol in site.around if symbol.kind not in TYPE_KINDS}
    while scope:
        inside = [
            definition
            for definition in in_file
            if definition.container == scope
            and not (scope in no_types and definition.kind in FIELD_KINDS)
        ]
        if inside:
            return shared(inside, SCOPE, "member of the enclosing class")
        scope = scope.rpartition(".")[0]
    if inherited := of_bases(site, candidates):
        return inherited
    members = candidates.members
    classes = {symbol.qualified.rpartition(".")[0] for symbol in site.around} & members.containers
    if classes:  # a type in several files
        parts = [member for member in members if member.container in classes]
        directory = directory_of(site.use.file)
        near = [part for part in parts if directory_of(part.file) == directory]
        if near:
            return shared(near, NEIGHBOUR, "member of a class of this name, same directory")
        return shared(parts, NAMED_TYPE, "member of a class of this name")
    return members.by_name_alone(BY_NAME, "perhaps inherited")


def of_bases(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Members of the classes that the class around a use names as its bases."""
    if not site.around:
        return []
    types = [symbol for symbol in site.around if symbol.kind in TYPE_KINDS]
    outer = types[-1] if types else site.around[0]
    bases = [
        inherit.name
        for inherit in site.surroundings.inherits
        if outer.start_line <= inherit.line <= outer.end_line
    ]
    for base in bases:
        if members := candidates.held.get(base):
            near = [member for member in members if member.file == site.use.file] or members
            return shared(near, BASE, f"member of the base class {base}")
    return []


def by_name(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Members of an object whose type is not known."""
    receiver = fold(site.use.receiver.strip("_$@"))
    if receiver and (like := candidates.members_by_folded_holder.get(receiver)):
        return shared(like, LIKE_ITS_TYPE, "the object is named like its class")
    modules = _of_module_named(site, candidates)
    if not candidates.members:
        return modules
    imported_types = site.surroundings.local.keys() & candidates.held.keys()
    typed = [m for name in imported_types for m in candidates.held[name] if is_member(m)]
    if site.use.kind is ReferenceKind.CALL:  # fields are seldom called
        methods = Candidates(m for m in candidates.members if m.kind not in FIELD_KINDS)
        alone = methods.by_name_alone(BY_NAME)
        alone += candidates.fields.by_name_alone(BY_NAME / 2 if methods else BY_NAME, "a field")
    else:
        alone = candidates.members.by_name_alone(BY_NAME)
    if len({member.container for member in typed}) == 1 and len(candidates.members) > 1:
        near = shared(typed, TYPE_IN_FILE, f"this file imports {typed[0].holder}")
        alone = [other for other in alone if other.definition.kind in FIELD_KINDS]
        modules = []
    else:
        near = _near(site, candidates, imported_types)
    closer = {candidate.definition.key for candidate in near}
    return [*near, *(each for each in alone if each.definition.key not in closer), *modules]


def _near(site: UseSite, candidates: Candidates, imported_types: Iterable[str]) -> list[Candidate]:
    """Of the members of many classes, those of the classes that the file defines or imports."""
    imported = (member for name in imported_types for member in candidates.held[name])
    in_file = candidates.in_file.get(site.use.file.path, ())
    in_directory = candidates.in_directory.get(directory_of(site.use.file), ())
    for near in ((*in_file, *imported), in_directory):
        members = list(dict.fromkeys(member for member in near if is_member(member)))
        if members and len(members) < len(candidates.members):
            return shared(members, BY_NAME, "of a class that is defined near, or imported")
    return []


def _of_module_named(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Definitions of a module that is named like the object: "import a", then "a.b.name"."""
    if site.rules.modules is not Modules.DOTTED:
        return []
    inside = candidates.top_by_module.get((site.use.receiver,), _NOTHING)
    return shared(inside, BY_NAME, "the object is named like the module")
