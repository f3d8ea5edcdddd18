"""Which definitions may this use of a name mean? Pure: names, imports and places in.

Nothing is run, and no type is inferred. The rules are asked in order, the surest first, and the
first one that finds a definition decides: scope, import, receiver, reach of the language. What is
left is possible by its name alone, and says among how many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from codebase_mcp.model import Reference, ReferenceKind, Symbol
from codebase_mcp.symbols.candidates import (
    BY_NAME,
    Candidates,
    can_be_used,
    fitting,
    in_order,
    is_member,
    shared,
)
from codebase_mcp.symbols.definition import (
    PROSE_KINDS,
    TYPE_KINDS,
    Candidate,
    Definition,
    ResolvedUse,
    Surroundings,
    Use,
)
from codebase_mcp.symbols.imports import (
    Fit,
    directory_of,
    is_standard,
    joined,
    last_part,
    package_of,
    parts_of,
)
from codebase_mcp.symbols.languages import SELF, SUPER, Language, Modules, Reach, language_of
from codebase_mcp.symbols.packages import PackageNames
from codebase_mcp.text.tokens import fold

# How sure each rule is; from SURE on a use counts as resolved.
SURE = 0.8
SCOPE = 0.95
IMPORTED = 0.95
HANDED_ON = 0.9
BASE = 0.85
NEIGHBOUR = 0.9
NAMED_TYPE = 0.8
PACKAGE = 0.6
TYPE_IN_FILE = 0.6
LIKE_ITS_TYPE = 0.6

# How many files an import is followed through, as packages hand names on.
_MAX_STEPS = 4

_IMPORT = ReferenceKind.IMPORT
_NOTHING = Candidates()


_NO_SURROUNDINGS = Surroundings()
_NO_NAMES = PackageNames()


@dataclass(frozen=True, slots=True)
class _Place:
    """A use with what is around it; ``name`` is the one that its definition has."""

    use: Use
    around: tuple[Symbol, ...]
    here: Surroundings
    rules: Language
    imported: tuple[Reference, ...]
    packages: PackageNames

    def near(self, module: str, candidates: Candidates) -> list[tuple[Fit, Definition]]:
        """The candidates that a module may mean, with how well each fits."""
        language, path, fit = self.use.language, self.use.path, self.packages.fit
        near = candidates.near(module, language, self.packages.words)
        return [(fit(language, path, module, one.path), one) for one in near]

    @property
    def directory(self) -> str:
        """The directory of its file, or its package."""
        return directory_of(self.use.path, self.use.language)

    def contains(self, definition: Definition) -> bool:
        """Whether a definition is in the same file."""
        return (definition.snapshot_id, definition.path) == (self.use.snapshot_id, self.use.path)

    def local(self, name: str) -> Sequence[Reference]:
        """The imports that a name in this file may stand for."""
        return self.here.local.get(name, ())


class Resolver:
    """Resolves uses of some names, of which all definitions and all imports are known.

    ``uses`` are the uses of these names: through the imports among them a package may hand a name
    on. ``around`` are the definitions around lines of texts; where it has no entry for the line of
    an import, the import counts in the whole file.
    """

    def __init__(
        self,
        definitions: Iterable[Definition],
        uses: Iterable[tuple[str, Use]],
        surroundings: Mapping[int, Surroundings],
        around: Mapping[tuple[int, int], Sequence[Symbol]] | None = None,
        packages: Mapping[int, PackageNames] | None = None,
    ) -> None:
        self._named: dict[tuple[int, str], list[Definition]] = defaultdict(list)
        for one in definitions:
            if one.kind not in PROSE_KINDS:
                self._named[one.snapshot_id, one.name].append(one)
        self._names = {name for _, name in self._named}
        self._packages = packages or {}
        # By the last part of the file's paths too: a module that is a file ends in it.
        self._imports: dict[tuple[int, str, str], list[Use]] = defaultdict(list)
        for name, use in uses:
            if use.kind is _IMPORT:
                for end in self._ends(use):
                    self._imports[use.snapshot_id, use.alias or name, end].append(use)
        self._surroundings = surroundings
        self._known: dict[tuple[object, ...], tuple[tuple[Candidate, ...], bool]] = {}
        self._around = around or {}
        self._groups: dict[tuple[object, ...], Candidates] = {}

    def _ends(self, use: Use) -> set[str]:
        """What modules that are the file of a use may end in; nothing is always among it."""
        rules = language_of(use.language)
        paths = self._names_of(use).paths(use.path, use.language)
        return {"", *(part for path in paths for part in parts_of(path, rules)[-1:])}

    def _names_of(self, use: Use) -> PackageNames:
        return self._packages.get(use.snapshot_id, _NO_NAMES)

    def resolve(self, name: str, use: Use, around: tuple[Symbol, ...]) -> ResolvedUse:
        """What a use of a name may mean, best first."""
        scope = around[-1] if around else None
        key = use.snapshot_id, use.path, name, use.kind, use.receiver, use.module, scope
        if key not in self._known:
            self._known[key] = self._candidates(name, use, around)
        return ResolvedUse(use, around, *self._known[key])

    def _candidates(
        self, name: str, use: Use, around: tuple[Symbol, ...]
    ) -> tuple[tuple[Candidate, ...], bool]:
        """What it may mean, and whether that is open."""
        here = self._surroundings.get(use.blob_id, _NO_SURROUNDINGS)
        rules = language_of(use.language)
        imported = () if use.kind is _IMPORT or use.receiver else tuple(
            one
            for one in here.local.get(name, ())
            if self._is_seen(one, use, around)
        )  # fmt: skip
        place = _Place(use, around, here, rules, imported, self._names_of(use))
        meant = tuple(dict.fromkeys(one.name for one in imported if one.name != "*")) or (name,)
        group = self._group(use, meant, rules)
        found = self._ranked(place, group)
        is_open = not found and not self._names.isdisjoint(meant) and _is_open(place, group)
        return (found if isinstance(found, tuple) else in_order(found)), is_open

    def _group(self, use: Use, names: tuple[str, ...], rules: Language) -> Candidates:
        """The definitions of some names that can be used in this way in this language."""
        key = use.snapshot_id, names, use.language, use.kind, bool(use.receiver)
        group = self._groups.get(key)
        if group is None:
            candidates = [
                one
                for name in names
                for one in self._named.get((use.snapshot_id, name), ())
                if language_of(one.language).family == rules.family and can_be_used(use, one, rules)
            ]
            group = self._groups[key] = Candidates(fitting(use.kind, candidates))
        return group

    def _is_seen(self, imported: Reference, use: Use, around: Sequence[Symbol]) -> bool:
        """Whether an import is not within a function that a use is outside of."""
        inside = self._around.get((use.blob_id, imported.line), ())
        return all(one in around for one in inside if one.kind in ("function", "method"))

    def _ranked(self, place: _Place, candidates: Candidates) -> Sequence[Candidate]:
        """Those that a rule finds; a tuple is in order already."""
        if not candidates:
            return ()
        if place.use.kind is _IMPORT:
            found = self._by_import(place, place.use.module, candidates)
            return found or _included(place, candidates)
        if place.use.receiver:
            return self._of_receiver(place, candidates)
        return self._bare(place, candidates)

    def _bare(self, place: _Place, candidates: Candidates) -> Sequence[Candidate]:
        """A name without a receiver: of the same file, imported, or in the language's reach."""
        inside = _in_scope(place, candidates)
        lines = {one.line for one in place.imported}  # "const a = require('a')" defines it as well
        if inside and not lines.issuperset(one.definition.start_line for one in inside):
            return inside
        if place.imported:
            return [
                one
                for reference in place.imported
                for one in self._by_import(place, reference.module, candidates)
            ] or inside
        top = candidates.bare
        if top:
            return self._by_wildcard(place, top) or _in_reach(place, top)
        return self._by_wildcard(place, candidates) or _perhaps_inherited(place, candidates)

    def _by_wildcard(self, place: _Place, candidates: Candidates) -> list[Candidate]:
        """Those that an import of everything in a module brings."""
        for reference in place.here.imports:
            if reference.name == "*" and not reference.alias:
                found = self._by_import(place, reference.module, candidates)
                if found:
                    return [
                        Candidate(one.definition, min(one.confidence, SURE), f"{one.reason} (*)")
                        for one in found
                    ]
        return []

    def _of_receiver(self, place: _Place, candidates: Candidates) -> Sequence[Candidate]:
        """A member: of the own class, of a module or class that is named, or by its name."""
        receiver = place.use.receiver
        if receiver in SELF:
            return _own(place, candidates)
        if receiver in SUPER:
            return _of_bases(place, candidates) or _by_name(place, candidates)
        if named := self._of_named(place, candidates):
            return named
        if place.local(receiver):  # of what is imported
            return []
        return _by_name(place, candidates)

    def _of_named(self, place: _Place, candidates: Candidates) -> list[Candidate]:
        """Candidates in the module or the type that the receiver names."""
        receiver = place.use.receiver
        found = []
        imports = place.local(receiver)
        for reference in imports:
            found += self._of_module(place, reference, candidates)
            members = candidates.held.get(reference.name, _NOTHING)
            for one in self._by_import(place, reference.module, members, reference.name):
                reason = f"method of {reference.name}, {one.reason}"
                found.append(Candidate(one.definition, one.confidence, reason))
        if found or imports:
            return found
        if package := self._of_package(place, candidates):
            return package
        members = candidates.held.get(receiver, _NOTHING)
        if own := [one for one in members if place.contains(one)]:
            return shared(own, SCOPE, f"member of {receiver} in the same file")
        if members and place.rules.reach is not Reach.FILE:
            near = members.in_directory.get(place.directory, _NOTHING)
            return shared(near or members, NEIGHBOUR if near else NAMED_TYPE, f"in {receiver}")
        if place.rules.modules is Modules.CRATE:
            inside = candidates.top_by_module.get((receiver,), _NOTHING)
            return shared(inside, NAMED_TYPE, f"in a module named {receiver}")
        return []

    def _of_package(self, place: _Place, candidates: Candidates) -> list[Candidate]:
        """Definitions of a package that is named, or that the file imports a module of."""
        receiver = place.use.receiver
        if place.rules.modules is Modules.QUALIFIED and receiver not in candidates.held:
            inside = [one for one in candidates.top if package_of(one.path)[-1:] == (receiver,)]
            return shared(inside, PACKAGE, f"in a package named {receiver}")
        if place.rules.modules is not Modules.DOTTED:
            return []
        if receiver not in place.here.modules:
            return []
        found = self._by_import(place, receiver, candidates.top)
        reason = f"perhaps of the package {receiver}"
        return [Candidate(one.definition, min(one.confidence, PACKAGE), reason) for one in found]

    def _of_module(
        self, place: _Place, reference: Reference, candidates: Candidates
    ) -> list[Candidate]:
        """Definitions at the top of the module that an import names."""
        if reference.name == "*":
            module = reference.module
        else:
            module = joined(reference.module, reference.name, place.use.language)
        found = self._by_import(place, module, candidates.top)
        if not found and reference.module and place.rules.modules is Modules.RELATIVE:
            found = self._by_import(place, reference.module, candidates.top)
        return found

    def _by_import(
        self, place: _Place, module: str, candidates: Candidates, name: str = ""
    ) -> list[Candidate]:
        """Those that are in the module, or that the module imports itself, under a name."""
        if not module or not candidates:
            return []
        if place.rules.modules is Modules.QUALIFIED:
            return _by_package(place, module, candidates)
        fits = place.near(module, candidates)
        if exact := [one for fit, one in fits if fit is Fit.FILE]:
            return shared(exact, IMPORTED, f"imported from {module}")
        if handed := self._handed_on(place, module, candidates, name):
            return shared(handed, HANDED_ON, f"imported from {module}, which hands it on")
        below = [one for fit, one in fits if fit is Fit.PACKAGE]
        return shared(below, PACKAGE, f"perhaps imported from {module}")

    def _handed_on(
        self, place: _Place, module: str, candidates: Candidates, name: str
    ) -> list[Definition]:
        """The candidates that the module itself imports, in up to some steps."""
        use, packages = place.use, place.packages
        wanted = {name} if name else candidates.names
        steps = [(use.language, use.path, module)]
        seen = set(steps)
        for _ in range(_MAX_STEPS):
            following = [
                (other.language, other.path, other.module)
                for each, step in product(wanted, steps)
                for other in self._imports.get((use.snapshot_id, each, last_part(step[2])), ())
                if packages.fit(*step, other.path) is Fit.FILE
            ]
            steps = [step for step in dict.fromkeys(following) if step not in seen]
            seen.update(steps)
            found = {
                one.key
                for step in steps
                for one in candidates.near(step[2], step[0], packages.words)
                if packages.fit(*step, one.path) is Fit.FILE
            }
            if found or not steps:
                return [one for one in candidates if one.key in found] if found else []
        return []


def _is_open(place: _Place, candidates: Candidates) -> bool:
    """Whether a use that no rule resolves may mean a definition of its name all the same."""
    if place.use.kind is _IMPORT:
        modules = [place.use.module or place.use.receiver]
    elif place.use.receiver or place.imported:
        imports = place.imported or place.local(place.use.receiver)
        if not imports:  # an object of a type that is not known
            return True
        modules = [one.module or one.name for one in imports]
    elif candidates and (place.rules.has_implicit_self or place.rules.reach is Reach.PROJECT):
        return True
    else:
        modules = [one.module for one in place.here.imports if one.name == "*" and candidates]
    return not all(is_standard(module, place.use.language) for module in modules)


def _in_scope(place: _Place, candidates: Candidates) -> list[Candidate]:
    """Definitions of the same file that a bare name means: of the innermost scope."""
    own = candidates.in_file.get(place.use.path, ())
    scopes = [place.around[-1].qualified] if place.around else []
    while scopes and "." in scopes[-1]:
        scopes.append(scopes[-1].rpartition(".")[0])
    kinds = {one.qualified: one.kind for one in place.around}
    if not place.rules.has_implicit_self:  # "a.f = function () {}" is not within a
        scopes = [scope for scope in scopes if scope in kinds]
    for scope in scopes:
        inside = [one for one in own if one.container == scope]
        if not inside:
            continue
        is_member = kinds.get(scope) in TYPE_KINDS or inside[0].kind == "method"
        if not is_member:
            return shared(inside, SCOPE, "same file")
        if place.rules.has_implicit_self or place.around[-1].qualified == scope:
            return shared(inside, SCOPE, "method of the enclosing class")
    if top := [one for one in own if not one.container]:
        return shared(top, SCOPE, "same file")
    if types := [one for one in own if one.is_type]:
        return shared(types, NAMED_TYPE, "same file")
    if place.rules.has_implicit_self:
        return _of_bases(place, candidates)
    return []


def _in_reach(place: _Place, candidates: Candidates) -> Sequence[Candidate]:
    """Those that the language lets a file see which does not import them."""
    reach = place.rules.reach
    if reach is Reach.FILE:
        return []
    if place.rules.modules is Modules.INCLUDE and candidates.places == 1:
        return candidates.by_name_alone(SURE, "")
    if neighbours := candidates.in_directory.get(place.directory):
        return shared(neighbours, NEIGHBOUR, "same package")
    if included := _included(place, candidates):
        return included
    if reach is Reach.DIRECTORY:
        return []
    return candidates.by_name_alone(SURE if candidates.places == 1 else BY_NAME, "")


def _perhaps_inherited(place: _Place, methods: Candidates) -> Sequence[Candidate]:
    """Methods that are called by their name alone, where the language allows it."""
    if not place.rules.has_implicit_self:
        return []
    is_sure = methods.places == 1 and place.rules.reach is Reach.PROJECT
    return methods.by_name_alone(SURE if is_sure else BY_NAME, "perhaps inherited")


def _own(place: _Place, candidates: Candidates) -> Sequence[Candidate]:
    """A member of the class around a use, or of its bases."""
    scope = place.around[-1].qualified if place.around else ""
    in_file = candidates.in_file.get(place.use.path, ())
    while scope:
        inside = [one for one in in_file if one.container == scope]
        if inside:
            return shared(inside, SCOPE, "method of the enclosing class")
        scope = scope.rpartition(".")[0]
    if found := _of_bases(place, candidates):
        return found
    members = candidates.members
    classes = {one.qualified.rpartition(".")[0] for one in place.around} & members.containers
    if classes:  # one type in several files
        parts = [one for one in members if one.container in classes]
        near = [one for one in parts if directory_of(one.path, one.language) == place.directory]
        if near:
            return shared(near, NEIGHBOUR, "method of a class of this name, same directory")
        return shared(parts, NAMED_TYPE, "method of a class of this name")
    return members.by_name_alone(BY_NAME, "perhaps inherited")


def _of_bases(place: _Place, candidates: Candidates) -> list[Candidate]:
    """Members of the classes that the class around a use names as its bases."""
    if not place.around:
        return []
    types = [one for one in place.around if one.kind in TYPE_KINDS]
    outer = types[-1] if types else place.around[0]
    bases = [
        one.name for one in place.here.inherits if outer.start_line <= one.line <= outer.end_line
    ]
    for base in bases:
        if members := candidates.held.get(base):
            near = [one for one in members if place.contains(one)] or members
            return shared(near, BASE, f"method of the base class {base}")
    return []


def _included(place: _Place, candidates: Candidates) -> list[Candidate]:
    """Those that a file which is included declares."""
    if place.rules.modules not in (Modules.INCLUDE, Modules.REQUIRE):
        return []
    for reference in place.here.imports:
        module = joined(reference.module, reference.name, place.use.language)
        found = [one for fit, one in place.near(module, candidates) if fit is Fit.FILE]
        if found:
            return shared(found, IMPORTED, f"{module} is included")
    return []


def _by_package(place: _Place, module: str, candidates: Candidates) -> list[Candidate]:
    """Those whose directories agree best with the names of a package."""
    fits = place.near(module, candidates)
    for wanted, sure in ((Fit.FILE, IMPORTED), (Fit.PACKAGE, NAMED_TYPE)):
        if found := [one for fit, one in fits if fit is wanted]:
            return shared(found, sure, f"imported from {module}")
    if len(candidates) == 1 and place.rules.reach is Reach.PROJECT:
        return [Candidate(candidates[0], NAMED_TYPE, f"only definition, imported from {module}")]
    return []


def _by_name(place: _Place, candidates: Candidates) -> Sequence[Candidate]:
    """Members of an object whose type is not known."""
    receiver = fold(place.use.receiver.strip("_$@"))
    if receiver and (like := candidates.members_by_folded_holder.get(receiver)):
        return like.shared(LIKE_ITS_TYPE, "the object is named like its class")
    modules = _of_module_named(place, candidates)
    if not candidates.members:
        return modules
    known = place.here.local.keys() & candidates.held.keys()
    typed = [one for name in known for one in candidates.held[name] if is_member(one)]
    if typed and len({one.container for one in typed}) == 1 and len(candidates.members) > 1:
        return shared(typed, TYPE_IN_FILE, f"this file imports {typed[0].holder}")
    alone = candidates.members.by_name_alone(BY_NAME, "")
    return [*alone, *modules] if modules else alone


def _of_module_named(place: _Place, candidates: Candidates) -> Sequence[Candidate]:
    """Definitions of a module that is named like the object: "import a", then "a.b.name"."""
    if place.rules.modules is not Modules.DOTTED:
        return []
    inside = candidates.top_by_module.get((place.use.receiver,), _NOTHING)
    return inside.shared(BY_NAME, "the object is named like the module")
