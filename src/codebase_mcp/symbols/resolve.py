"""Which definitions may this use of a name mean? Pure: names, imports and places in.

Nothing is run, and no type is inferred; declared types are read. The rules are asked in order, the
surest first, and the first rule that finds a definition decides: scope, import, receiver, reach of
the language. The other definitions are possible by name alone; the reason says among how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from codebase_mcp.model import FIELD_KINDS, Reference, ReferenceKind, Symbol
from codebase_mcp.symbols.candidates import (
    BY_NAME,
    HANDED_ON,
    IMPORTED,
    LIKELY,
    NAMED_TYPE,
    NEIGHBOUR,
    PACKAGE,
    SCOPE,
    SURE,
    Candidates,
    can_be_used,
    fitting,
    in_order,
    shared,
)
from codebase_mcp.symbols.declared import DeclaredType, DeclaredTypes
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
from codebase_mcp.symbols.members import by_name, of_bases, own
from codebase_mcp.symbols.packages import PackageNames
from codebase_mcp.symbols.use_site import UseSite
from codebase_mcp.values import grouped

# How many files an import is followed through, as packages hand names on.
_MAX_STEPS = 4

_IMPORT = ReferenceKind.IMPORT
_NOTHING = Candidates()
_NO_SURROUNDINGS = Surroundings()
_NO_NAMES = PackageNames()


class Resolver:
    """Resolves uses of some names, of which all definitions and all imports are known.

    ``uses`` are the uses of these names: through the imports among them a package may hand a name
    on. ``around`` are the definitions around lines of texts; where it has no entry for the line of
    an import, the import counts in the whole file.
    """

    def __init__(
        self,
        definitions: Iterable[Definition],
        uses: Iterable[Use],
        surroundings: Mapping[int, Surroundings],
        around: Mapping[tuple[int, int], Sequence[Symbol]] | None = None,
        packages: Mapping[int, PackageNames] | None = None,
        *,
        declared: DeclaredTypes | None = None,
    ) -> None:
        self._named = grouped(
            ((definition.file.snapshot_id, definition.name), definition)
            for definition in definitions
            if definition.kind not in PROSE_KINDS
        )
        self._names = {name for _, name in self._named}
        self._packages = packages or {}
        self._declared = declared or DeclaredTypes()
        # By the last part of the file's paths too: a module that is a file ends in it.
        self._imports = grouped(
            ((use.file.snapshot_id, use.alias or use.name, end), use)
            for use in uses
            if use.kind is _IMPORT
            for end in self._ends(use)
        )
        self._surroundings = surroundings
        self._known: dict[tuple[object, ...], tuple[tuple[Candidate, ...], bool]] = {}
        self._around = around or {}
        self._groups: dict[tuple[object, ...], Candidates] = {}

    def _ends(self, use: Use) -> set[str]:
        """What modules that are the file of a use may end in; nothing is always among it."""
        rules = language_of(use.file.language)
        paths = self._names_of(use).paths(use.file.path, use.file.language)
        return {"", *(part for path in paths for part in parts_of(path, rules)[-1:])}

    def _names_of(self, use: Use) -> PackageNames:
        return self._packages.get(use.file.snapshot_id, _NO_NAMES)

    def resolve(self, use: Use, around: tuple[Symbol, ...]) -> ResolvedUse:
        """What a use may mean, best first."""
        scope = around[-1] if around else None
        declared = self._declared.of(use, around)
        key = use.file, use.name, use.kind, use.receiver, use.module, scope, declared
        if key not in self._known:
            self._known[key] = self._candidates(use, around, declared)
        return ResolvedUse(use, around, *self._known[key])

    def _candidates(
        self, use: Use, around: tuple[Symbol, ...], declared: tuple[DeclaredType, ...]
    ) -> tuple[tuple[Candidate, ...], bool]:
        """The definitions that a use may mean, and whether its meaning stays open."""
        surroundings = self._surroundings.get(use.file.blob_id, _NO_SURROUNDINGS)
        rules = language_of(use.file.language)
        imported = () if use.kind is _IMPORT or use.receiver else tuple(
            reference
            for reference in surroundings.local.get(use.name, ())
            if self._is_seen(reference, use, around)
        )  # fmt: skip
        site = UseSite(use, around, surroundings, rules, imported, self._names_of(use), declared)
        names = dict.fromkeys(reference.name for reference in imported if reference.name != "*")
        meant = tuple(names) or (use.name,)
        group = self._group(use, meant, rules)
        ranked = self._ranked(site, group)
        is_open = not ranked and not self._names.isdisjoint(meant) and _is_open(site, group)
        return in_order(ranked), is_open

    def _group(self, use: Use, names: tuple[str, ...], rules: Language) -> Candidates:
        """The definitions of some names that can be used in this way in this language."""
        key = use.file.snapshot_id, names, use.file.language, use.kind, bool(use.receiver)
        group = self._groups.get(key)
        if group is None:
            candidates = [
                definition
                for name in names
                for definition in self._named.get((use.file.snapshot_id, name), ())
                if language_of(definition.file.language).family == rules.family
                and can_be_used(use, definition, rules)
            ]
            group = self._groups[key] = Candidates(fitting(use.kind, candidates))
        return group

    def _is_seen(self, imported: Reference, use: Use, around: Sequence[Symbol]) -> bool:
        """Whether an import is not within a function that a use is outside of."""
        inside = self._around.get((use.file.blob_id, imported.line), ())
        return all(symbol in around for symbol in inside if symbol.kind in ("function", "method"))

    def _ranked(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """Those that a rule finds."""
        if not candidates:
            return []
        if site.use.kind is _IMPORT:
            imported = self._by_import(site, site.use.module, candidates)
            return imported or _included(site, candidates)
        if site.use.receiver:
            return self._of_receiver(site, candidates)
        return self._bare(site, candidates)

    def _bare(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """A name without a receiver: of the same file, imported, or in the language's reach."""
        inside = _in_scope(site, candidates)
        # "const a = require('a')" defines it as well
        lines = {reference.line for reference in site.imported}
        if inside and not lines.issuperset(candidate.definition.start_line for candidate in inside):
            return inside
        if site.imported:
            return [
                candidate
                for reference in site.imported
                for candidate in self._by_import(site, reference.module, candidates)
            ] or inside
        top = candidates.bare
        if top:
            return self._by_wildcard(site, top) or _in_reach(site, top)
        return self._by_wildcard(site, candidates) or _perhaps_inherited(site, candidates)

    def _by_wildcard(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """Those that an import of everything in a module brings."""
        for reference in site.surroundings.imports:
            if reference.name == "*" and not reference.alias:
                imported = self._by_import(site, reference.module, candidates)
                if imported:
                    return [
                        candidate.at_most(SURE, f"{candidate.reason} (*)") for candidate in imported
                    ]
        return []

    def _of_receiver(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """A member: of the own class, of a module or class that is named, or by its name."""
        receiver = site.use.receiver
        if receiver in SELF:
            return own(site, candidates)
        if receiver in SUPER:
            return of_bases(site, candidates) or by_name(site, candidates)
        return self._of_object(site, candidates)

    def _of_object(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """A member of something that the receiver names, or is declared to be."""
        declared = self._of_declared(site, candidates)
        if declared and site.rules.has_implicit_self:  # a base may have another overload
            keys = {candidate.definition.key for candidate in declared}
            others = by_name(site, candidates)
            declared += [each for each in others if each.definition.key not in keys]
        if any(candidate.confidence >= SURE for candidate in declared):
            return declared
        if named := self._of_named(site, candidates):
            return [
                # Python: "Box(size=1)"
                candidate.at_most(BY_NAME, "perhaps a parameter that sets it")
                if candidate.definition.kind == "attribute"
                else candidate
                for candidate in named
            ]
        if any(candidate.confidence >= LIKELY for candidate in declared):
            return declared
        if imports := site.local(site.use.receiver):  # an imported object: its members are unknown
            language = site.use.file.language
            if all(each.module and not is_standard(each.module, language) for each in imports):
                return by_name(site, candidates.fields)
            return []
        return by_name(site, candidates)

    def _of_declared(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """Members of the types that the receiver is declared to have."""
        members = []
        for file, name, confidence in site.declared:
            use = replace(site.use, file=file, receiver=name)
            surroundings = self._declared.surroundings.get(file.blob_id, _NO_SURROUNDINGS)
            rules = language_of(file.language)
            reader = UseSite(use, (), surroundings, rules, (), self._names_of(use))
            reason = f"{site.use.receiver} is a {name}"
            members += [
                candidate.at_most(round(confidence, 2), reason)
                for candidate in self._of_named(reader, candidates)
                if candidate.definition.holder == name
            ]
        # Java: a field and a method of a class may have one name.
        is_read = site.use.kind is ReferenceKind.USE
        alike = [each for each in members if (each.definition.kind in FIELD_KINDS) is is_read]
        return alike or members

    def _of_named(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """Candidates in the module or the type that the receiver names."""
        receiver = site.use.receiver
        named = []
        imports = site.local(receiver)
        for reference in imports:
            named += self._of_module(site, reference, candidates)
            members = candidates.held.get(reference.name, _NOTHING)
            for candidate in self._by_import(site, reference.module, members, reference.name):
                reason = f"member of {reference.name}, {candidate.reason}"
                named.append(Candidate(candidate.definition, candidate.confidence, reason))
        if named or imports:
            return named
        if package := self._of_package(site, candidates):
            return package
        members = candidates.held.get(receiver, _NOTHING)
        if own := [member for member in members if member.file == site.use.file]:
            return shared(own, SCOPE, f"member of {receiver} in the same file")
        if members and site.rules.reach is not Reach.FILE:
            near = members.in_directory.get(directory_of(site.use.file), _NOTHING)
            return shared(near or members, NEIGHBOUR if near else NAMED_TYPE, f"in {receiver}")
        if site.rules.modules is Modules.CRATE:
            inside = candidates.top_by_module.get((receiver,), _NOTHING)
            return shared(inside, NAMED_TYPE, f"in a module named {receiver}")
        return []

    def _of_package(self, site: UseSite, candidates: Candidates) -> list[Candidate]:
        """Definitions of a package that is named, or that the file imports a module of."""
        receiver = site.use.receiver
        if site.rules.modules is Modules.QUALIFIED and receiver not in candidates.held:
            top = candidates.top
            inside = [member for member in top if package_of(member.file.path)[-1:] == (receiver,)]
            return shared(inside, PACKAGE, f"in a package named {receiver}")
        if site.rules.modules is not Modules.DOTTED:
            return []
        if receiver not in site.surroundings.modules:
            return []
        imported = self._by_import(site, receiver, candidates.top)
        reason = f"perhaps of the package {receiver}"
        return [candidate.at_most(PACKAGE, reason) for candidate in imported]

    def _of_module(
        self, site: UseSite, reference: Reference, candidates: Candidates
    ) -> list[Candidate]:
        """Definitions at the top of the module that an import names."""
        if reference.name == "*":
            module = reference.module
        else:
            module = joined(reference.module, reference.name, site.use.file.language)
        imported = self._by_import(site, module, candidates.top)
        if not imported and reference.module and site.rules.modules is Modules.RELATIVE:
            imported = self._by_import(site, reference.module, candidates.top)
        return imported

    def _by_import(
        self, site: UseSite, module: str, candidates: Candidates, name: str = ""
    ) -> list[Candidate]:
        """Those that are in the module, or that the module imports itself, under a name."""
        if not module or not candidates:
            return []
        if site.rules.modules is Modules.QUALIFIED:
            return _by_package(site, module, candidates)
        fits = site.near(module, candidates)
        if exact := [definition for fit, definition in fits if fit is Fit.FILE]:
            return shared(exact, IMPORTED, f"imported from {module}")
        if handed := self._handed_on(site, module, candidates, name):
            return shared(handed, HANDED_ON, f"imported from {module}, which hands it on")
        below = [definition for fit, definition in fits if fit is Fit.PACKAGE]
        return shared(below, PACKAGE, f"perhaps imported from {module}")

    def _handed_on(
        self, site: UseSite, module: str, candidates: Candidates, name: str
    ) -> list[Definition]:
        """The candidates that the module itself imports, in up to some steps."""
        use, packages = site.use, site.packages
        names = {name} if name else candidates.names
        steps = [(use.file.language, use.file.path, module)]
        seen = set(steps)
        for _ in range(_MAX_STEPS):
            following = [
                (other.file.language, other.file.path, other.module)
                for each, step in product(names, steps)
                for other in self._imports.get((use.file.snapshot_id, each, last_part(step[2])), ())
                if packages.fit(*step, other.file.path) is Fit.FILE
            ]
            steps = [step for step in dict.fromkeys(following) if step not in seen]
            seen.update(steps)
            keys = {
                definition.key
                for step in steps
                for definition in candidates.near(step[2], step[0], packages.words)
                if packages.fit(*step, definition.file.path) is Fit.FILE
            }
            if keys or not steps:
                return [candidate for candidate in candidates if candidate.key in keys]
        return []


def _is_open(site: UseSite, candidates: Candidates) -> bool:
    """Whether a use that no rule resolves may mean a definition of its name all the same."""
    if site.use.kind is _IMPORT:
        modules = [site.use.module or site.use.receiver]
    elif site.use.receiver or site.imported:
        imports = site.imported or site.local(site.use.receiver)
        if not imports:  # an object of a type that is not known
            return site.use.kind is not ReferenceKind.USE or bool(candidates.members)
        modules = [reference.module or reference.name for reference in imports]
    elif not candidates:
        return False
    elif site.rules.has_implicit_self or site.rules.reach is Reach.PROJECT:
        return True
    else:
        imports = site.surroundings.imports
        modules = [reference.module for reference in imports if reference.name == "*"]
    return not all(is_standard(module, site.use.file.language) for module in modules)


def _in_scope(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Definitions of the same file that a bare name means: of the innermost scope."""
    own = candidates.in_file.get(site.use.file.path, ())
    scopes = [site.around[-1].qualified] if site.around else []
    while scopes and "." in scopes[-1]:
        scopes.append(scopes[-1].rpartition(".")[0])
    kinds = {symbol.qualified: symbol.kind for symbol in site.around}
    if not site.rules.has_implicit_self:  # "a.f = function () {}" is not within a
        scopes = [scope for scope in scopes if scope in kinds]
    for scope in scopes:
        inside = [definition for definition in own if definition.container == scope]
        if not inside:
            continue
        is_member = kinds.get(scope) in TYPE_KINDS or inside[0].kind == "method"
        if not is_member:
            return shared(inside, SCOPE, "same file")
        if site.rules.has_implicit_self or site.around[-1].qualified == scope:
            return shared(inside, SCOPE, "member of the enclosing class")
    if top := [definition for definition in own if not definition.container]:
        return shared(top, SCOPE, "same file")
    if types := [definition for definition in own if definition.is_type]:
        return shared(types, NAMED_TYPE, "same file")
    if site.rules.has_implicit_self:
        return of_bases(site, candidates)
    return []


def _in_reach(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Those that the language lets a file see which does not import them."""
    reach = site.rules.reach
    if reach is Reach.FILE:
        return []
    if site.rules.modules is Modules.INCLUDE and candidates.places == 1:
        return candidates.by_name_alone(SURE)
    if neighbours := candidates.in_directory.get(directory_of(site.use.file)):
        return shared(neighbours, NEIGHBOUR, "same package")
    if included := _included(site, candidates):
        return included
    if reach is Reach.DIRECTORY:
        return []
    return candidates.by_name_alone(SURE if candidates.places == 1 else BY_NAME)


def _perhaps_inherited(site: UseSite, methods: Candidates) -> list[Candidate]:
    """Methods that are called by their name alone, where the language allows it."""
    if not site.rules.has_implicit_self:
        return []
    is_sure = methods.places == 1 and site.rules.reach is Reach.PROJECT
    return methods.by_name_alone(SURE if is_sure else BY_NAME, "perhaps inherited")


def _included(site: UseSite, candidates: Candidates) -> list[Candidate]:
    """Those that a file which is included declares."""
    if site.rules.modules not in (Modules.INCLUDE, Modules.REQUIRE):
        return []
    for reference in site.surroundings.imports:
        module = joined(reference.module, reference.name, site.use.file.language)
        included = [
            definition for fit, definition in site.near(module, candidates) if fit is Fit.FILE
        ]
        if included:
            return shared(included, IMPORTED, f"{module} is included")
    return []


def _by_package(site: UseSite, module: str, candidates: Candidates) -> list[Candidate]:
    """Those whose directories agree best with the names of a package."""
    fits = site.near(module, candidates)
    for required, sure in ((Fit.FILE, IMPORTED), (Fit.PACKAGE, NAMED_TYPE)):
        if fitting_definitions := [definition for fit, definition in fits if fit is required]:
            return shared(fitting_definitions, sure, f"imported from {module}")
    if len(candidates) == 1 and site.rules.reach is Reach.PROJECT:
        return [Candidate(candidates[0], NAMED_TYPE, f"only definition, imported from {module}")]
    return []
