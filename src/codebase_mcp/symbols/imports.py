"""Does an import, as a file writes it, mean another file? Pure functions of paths and names.

No search path is read: a module means a file if the ends of their paths agree, and the rest of the
file's path may be a source root. A path with a slash in front begins with the name of its
package (`packages.py`): only the module of that very name means it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from posixpath import normpath

from codebase_mcp.symbols.definition import File
from codebase_mcp.symbols.languages import Language, Modules, language_of

# Directories that imports do not name.
_SOURCE_ROOTS = frozenset({"src", "lib", "source", "sources", "python", "app", "main", "Lib"})
_CACHED = 20_000
# The tests of a package are in another directory than the package.
_JVM_ROOT = re.compile(r"^(?:.*/)?src/\w+/(?:java|kotlin|scala|groovy)/")
_SEPARATORS = re.compile(r"[./\\]+|::")
_SEPARATOR: Mapping[Modules | None, str] = {
    Modules.DOTTED: ".",
    Modules.CRATE: "::",
    Modules.QUALIFIED: "\\",
}
# How a path of Rust begins that is not outside of the crate.
_OWN_CRATE = frozenset({"self", "super", "crate"})


class Fit(IntEnum):
    """How well a module fits a file."""

    NONE = 0
    PACKAGE = 1
    """The file is below the package that the module is, or it only may be the file."""
    FILE = 2


Parts = tuple[str, ...]


@lru_cache(_CACHED)
def module_fits(language: str, importer: str, module: str, target: str) -> Fit:
    """Whether a module that the file ``importer`` imports is the file ``target``."""
    rules = language_of(language)
    if rules.modules is None:
        return Fit.NONE
    if target.startswith("/"):
        return _below_name(module, target[1:], rules)
    return _FITS[rules.modules](importer, module, target, rules)


@lru_cache(_CACHED)
def parts_of(path: str, rules: Language) -> Parts:
    """The parts of a path as imports name them: without extension, an index is its directory."""
    *directories, file = path.split("/")
    stem = file.partition(".")[0] or file
    return (*directories, stem) if stem not in rules.index_files else tuple(directories)


@lru_cache(_CACHED)
def words_of_path(path: str) -> frozenset[str]:
    """The words that the name of a module has if it means this file; see `words_of_module`."""
    *directories, file = path.split("/")
    return words_of_name("/".join([*directories, file.partition(".")[0] or file]))


def words_of_module(module: str, rules: Language) -> frozenset[str]:
    """Words of which the path of each file that fits a module has at least one.

    Empty if a path may fit without a common word.
    """
    words = words_of_name(module)
    if ".." in module.lstrip("./") or words & rules.index_files:
        return frozenset()
    return words - _OWN_CRATE


def words_of_name(name: str) -> frozenset[str]:
    """What separators leave; a package can have a hyphen where its module has an underscore."""
    return frozenset(_SEPARATORS.split(name.lower().replace("-", "_"))) - {""}


@lru_cache(_CACHED)
def last_part(module: str) -> str:
    """What the path of the file that a module is ends in; empty where the module does not say."""
    last = _SEPARATORS.split(module.removesuffix(".js").removesuffix("/index"))[-1]
    return "" if last in _OWN_CRATE else last


def is_standard(module: str, language: str) -> bool:
    """Whether a module is known to be of the language itself."""
    is_python = language_of(language).modules is Modules.DOTTED
    return is_python and module.partition(".")[0] in sys.stdlib_module_names


def joined(module: str, name: str, language: str) -> str:
    """The module that an import of a name means, if the name is a module itself."""
    rules = language_of(language)
    if rules.modules is Modules.DOTTED:
        return f"{module}{name}" if not module or module.endswith(".") else f"{module}.{name}"
    if rules.modules is Modules.CRATE:
        return f"{module}::{name}" if module else name
    if rules.modules is Modules.QUALIFIED:
        separator = "\\" if "\\" in module else "."
        return f"{module}{separator}{name}" if module else name
    return f"{module}/{name}" if module else name


def _below_name(module: str, path: str, rules: Language) -> Fit:
    """The same of a path that begins with the name of its package."""
    separator = _SEPARATOR.get(rules.modules, "/")
    imported = tuple(module.strip("\\/").split(separator))
    target = parts_of(path, rules)
    if rules.modules is Modules.DIRECTORY:
        return Fit.FILE if imported == target[:-1] else Fit.NONE
    if rules.modules is Modules.QUALIFIED:
        return Fit.FILE if imported in (target, target[:-1]) else Fit.NONE
    stem = imported[-1].partition(".")[0]  # but the name of a package may have a dot
    short = imported[:-1] if stem in rules.index_files else (*imported[:-1], stem)
    return max(_within(imported, target), _within(short, target))


def _dotted(importer: str, module: str, path: str, rules: Language) -> Fit:
    target = parts_of(path, rules)
    directory = tuple(importer.split("/")[:-1])
    name = module.lstrip(".")
    imported = tuple(name.split(".")) if name else ()
    if imported and imported[-1] in rules.index_files:
        imported = imported[:-1]
    if dots := len(module) - len(name):
        above = len(directory) - dots + 1
        return Fit.NONE if above < 0 else _within((*directory[:above], *imported), target)
    if not imported:
        return Fit.NONE
    for start in range(len(target)):
        fit = _within(imported, target[start:])
        if fit and (root_fit := _root(target[:start], directory, imported[0])):
            return min(fit, root_fit)
    return Fit.NONE


def _root(root: Parts, directory: Parts, first: str) -> Fit:
    """Whether imports of a file in the directory ``here`` may start at a directory."""
    if not root or root[-1] in _SOURCE_ROOTS:
        return Fit.FILE
    if first in sys.stdlib_module_names:
        return Fit.NONE
    if root == directory:  # a script and its neighbour
        return Fit.PACKAGE
    return Fit.FILE if directory[: len(root)] == root else Fit.PACKAGE


def _relative(importer: str, module: str, path: str, rules: Language) -> Fit:
    target = parts_of(path, rules)
    module = module.removesuffix("/")
    if module.startswith("."):
        meant = normpath("/".join([*importer.split("/")[:-1], module]))
        imported = () if meant == "." else tuple(meant.split("/"))
        return _within(_without_extension(imported), target)
    alias, _, rest = module.partition("/")
    if alias in ("@", "~", "#", "src") and rest:
        return _ends(_without_extension(tuple(rest.split("/"))), target)
    # A package of the same workspace: @scope/name, or name/sub.
    parts = tuple(module.split("/"))
    name = parts[1] if module.startswith("@") and len(parts) > 1 else parts[0]
    return Fit.PACKAGE if name in target[:-1] and "packages" in target else Fit.NONE


def _without_extension(parts: Parts) -> Parts:
    if not parts:
        return parts
    stem = parts[-1].partition(".")[0]
    return parts[:-1] if stem == "index" else (*parts[:-1], stem)


@lru_cache(_CACHED)
def package_of(path: str) -> Parts:
    """A file's directory as packages are named: below the root of the sources."""
    return tuple(_JVM_ROOT.sub("", path).split("/")[:-1])


def directory_of(file: File) -> str:
    """The directory whose files a file sees without an import, in many languages: its package."""
    if language_of(file.language).modules is Modules.QUALIFIED:
        return "/".join(package_of(file.path))
    return file.path.rpartition("/")[0]


def _directory(_importer: str, module: str, path: str, _rules: Language) -> Fit:
    target = tuple(path.split("/")[:-1])
    imported = tuple(module.split("/"))
    if imported == target:
        return Fit.FILE
    shared = _shared_end(imported, target)
    if len(imported) < 2 or not target or not shared:
        return Fit.NONE
    if shared == len(target) or shared >= 2:
        return Fit.FILE
    return Fit.NONE


def _qualified(_importer: str, module: str, path: str, rules: Language) -> Fit:
    target = parts_of(path, rules)
    imported = tuple(part.lower() for part in module.replace("\\", ".").split(".") if part)
    lower = tuple(part.lower() for part in target)
    if not imported:
        return Fit.NONE
    if "/java/" in path and (package := package_of(path)) != target[:-1]:
        inside = (*package, target[-1])  # there the directories are the whole package
        exact = tuple(module.split("."))
        is_there = exact == package or exact[: len(inside)] == inside
        return Fit.FILE if is_there else Fit.NONE
    # A module is a package, which is a directory, or a type, which is a file.
    shared = max(_shared_end(imported, lower[:-1]), _shared_end(imported, lower))
    if shared == len(imported):
        return Fit.FILE
    if shared:
        return Fit.PACKAGE
    return Fit.PACKAGE if imported[-1] in lower else Fit.NONE


def _crate(importer: str, module: str, path: str, rules: Language) -> Fit:
    target = parts_of(path, rules)
    first, *rest = [part for part in module.split("::") if part] or [""]
    importing = parts_of(importer, rules)
    root = _source_root(importing)
    if first == "crate":
        return _within((*importing[:root], *rest), target)
    if first == "self":
        return _within((*importing, *rest), target)
    if first == "super":
        above = len(importing) - 1
        while rest and rest[0] == "super":
            rest, above = rest[1:], above - 1
        return _within((*importing[:above], *rest), target)
    if fit := _within((*importing, first, *rest), target):  # a module declared in this file
        return fit
    own = _source_root(target)
    crate = target[own - 2] if own >= 2 else ""
    if crate.replace("-", "_") == first:
        return _within(tuple(rest), target[own:])
    return Fit.NONE


def _source_root(parts: Parts) -> int:
    """How many parts lead to the root of the crate."""
    return len(parts) - parts[::-1].index("src") if "src" in parts else 0


def _include(importer: str, module: str, path: str, _rules: Language) -> Fit:
    imported = module.split("/")
    directory = importer.split("/")[:-1]
    exact = normpath("/".join([*directory, module])).split("/")
    ends = path.split("/")
    if ends == exact or ends[-len(imported) :] == imported:
        return Fit.FILE
    # What a header declares is defined in a file of the same name.
    stem = imported[-1].partition(".")[0]
    return Fit.FILE if ends[-1].partition(".")[0] == stem else Fit.NONE


def _require(importer: str, module: str, path: str, rules: Language) -> Fit:
    target = parts_of(path, rules)
    name = module.removesuffix(".rb")
    if name.startswith("."):
        meant = normpath("/".join([*importer.split("/")[:-1], name]))
        return _within(tuple(meant.split("/")), target)
    return _ends(tuple(part for part in name.split("/") if part), target)


def _within(imported: Parts, target: Parts) -> Fit:
    """Whether a file is the module, or below the package that the module is."""
    if imported == target:
        return Fit.FILE
    return Fit.PACKAGE if target[: len(imported)] == imported else Fit.NONE


def _ends(imported: Parts, target: Parts) -> Fit:
    if imported and target[-len(imported) :] == imported:
        return Fit.FILE
    if any(
        target[at : at + len(imported)] == imported for at in range(len(target) - len(imported))
    ):
        return Fit.PACKAGE
    return Fit.NONE


def _shared_end(first: Parts, second: Parts) -> int:
    """How many parts two paths have in common, counted from their ends."""
    count = 0
    for part, other in zip(reversed(first), reversed(second), strict=False):
        if part != other:
            break
        count += 1
    return count


_FITS: Mapping[Modules, Callable[[str, str, str, Language], Fit]] = {
    Modules.DOTTED: _dotted,
    Modules.RELATIVE: _relative,
    Modules.DIRECTORY: _directory,
    Modules.QUALIFIED: _qualified,
    Modules.CRATE: _crate,
    Modules.INCLUDE: _include,
    Modules.REQUIRE: _require,
}
