"""The names by which imports call the directories of a repository: build files give them.

Pure: paths and the texts of build files in, names out. Nothing is looked up outside of the index: a
repository that is a package itself, as its build file lies above it, is called like its directory.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any

from codebase_mcp.symbols.imports import Fit, module_fits, words_of_name
from codebase_mcp.symbols.languages import Language, Modules, language_of

# A file with this name makes its directory a package.
PACKAGE_FILE = "__init__.py"
# Reading TOML takes milliseconds, and the same files are asked for again.
_CACHED_TEXTS = 256
# Below these of its directories a package has its sources, and imports do not name them.
_SOURCES = ("src/", "lib/")
_GO_MODULE = re.compile(r'^module[ \t]+"?([^ \t\r\n"]+)', re.MULTILINE)
_SETUP_NAME = re.compile(r"^\[metadata\][^\[]*?^name[ \t]*=[ \t]*([\w.-]+)", re.MULTILINE)
_PYTHON_NAMES = (
    ("project", "name"),
    ("tool", "poetry", "name"),
    ("tool", "flit", "module", "name"),
    ("tool", "uv", "build-backend", "module-name"),
)
_OWN_NAMED = frozenset({Modules.DOTTED, Modules.RELATIVE, Modules.DIRECTORY, Modules.CRATE,
                        Modules.REQUIRE})  # fmt: skip

Paths = dict[str, bool]
"""The paths by which imports may mean a file, and whether each is sure."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a directory, its parts joined by slashes.

    ``is_sure`` if the directory is the package itself; the name of a project is often that of a
    directory below.
    """

    name: str
    directory: str
    is_sure: bool = True


class PackageNames:
    """The names that imports use for the directories of a state of a repository."""

    def __init__(self, root: str = "", build_files: Mapping[str, str] | None = None) -> None:
        """``root`` is where the repository is; the build files are texts, by their paths."""
        texts = build_files or {}
        own = PurePosixPath(root).name.removesuffix(".git")
        self._own = Name(own, "", PACKAGE_FILE in texts and own not in sys.stdlib_module_names)
        self._named: dict[tuple[str, str], list[Name]] = defaultdict(list)
        for path, text in texts.items():
            directory, _, file = path.rpartition("/")
            for package in names_in(file, text) if file in _READERS else ():
                inside = normpath(join(directory, package.directory))
                self._named[file, "" if inside == "." else inside].append(package)
        self._paths: dict[tuple[str, str], Paths] = {}
        names = [self._own, *(package for named in self._named.values() for package in named)]
        self.words = frozenset(word for name in names for word in words_of_name(name.name))

    def fit(self, language: str, importer: str, module: str, target: str) -> Fit:
        """Whether a module that a file imports is the file ``target``, by any of its paths."""
        best = Fit.NONE
        for path, is_sure in self.paths(target, language).items():
            fit = module_fits(language, importer, module, path)
            if not is_sure:
                fit = Fit.PACKAGE if fit is Fit.FILE else Fit.NONE
            best = max(best, fit)
        return best

    def paths(self, path: str, language: str) -> Paths:
        """A file's path, and its paths below the names of the directory that it is in.

        Those have a slash in front.
        """
        key = path, language
        if key not in self._paths:
            self._paths[key] = self._find_paths(path, language_of(language))
        return self._paths[key]

    def _find_paths(self, path: str, rules: Language) -> Paths:
        directory = path
        while directory:
            directory = directory.rpartition("/")[0]
            named = [
                package
                for file in rules.build_files
                for package in self._named.get((file, directory), ())
            ]
            is_own = not directory and (not named or rules.modules is Modules.DOTTED)
            if is_own and self._own.name and rules.modules in _OWN_NAMED:
                named.append(self._own)
            if named:
                below = path[len(directory) :].lstrip("/")
                by_path = {} if rules.modules is Modules.DIRECTORY else {path: True}
                for package in named:
                    paths = _paths_below(package, below, rules, is_own=package is self._own)
                    for each, is_sure in paths.items():
                        by_path[each] = by_path.get(each, False) or is_sure
                return by_path
        return {path: True}


def _paths_below(package: Name, below: str, rules: Language, *, is_own: bool) -> Paths:
    """The paths of a file of a directory with a name, and whether they are sure."""
    name = package.name.replace("-", "_") if rules.modules is Modules.CRATE else package.name
    inner = next((below[len(each) :] for each in _SOURCES if below.startswith(each)), below)
    whole, short = (f"/{name}/{each}" if name else f"/{each}" for each in (below, inner))
    if rules.modules is Modules.DIRECTORY:
        if is_own:  # a module's name has more parts, which are not known
            return {below: True, whole[1:]: True}
        _, vendor, copied = f"/{below}".rpartition("/vendor/")
        return {f"/{copied}" if vendor else whole: True}
    if rules.modules is Modules.CRATE:
        return {short: True} if below.startswith("src/") else {}
    if rules.modules is Modules.RELATIVE:
        return {whole: not is_own, short: not is_own}
    if rules.modules is Modules.DOTTED and not package.is_sure:
        is_inside = inner.startswith((f"{name}/", f"{name}."))
        return {f"/{inner}": True} if is_inside else {short: False}
    return {whole: True}


def build_files_for(files: Iterable[tuple[str, str]]) -> set[str]:
    """The paths of the build files that may name the directories around files of some languages."""
    build_files = set()
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for language, path in files:
        rules = language_of(language)
        if rules.modules is Modules.DOTTED:
            build_files.add(PACKAGE_FILE)
        directory = path
        while directory and (directory, rules.build_files) not in seen:
            seen.add((directory, rules.build_files))
            directory = directory.rpartition("/")[0]
            build_files.update(f"{directory}/{file}".lstrip("/") for file in rules.build_files)
    return build_files


@lru_cache(_CACHED_TEXTS)
def names_in(file: str, text: str) -> tuple[Name, ...]:
    """The names that a build file gives to its directory or to some below; none if it is broken."""
    try:
        return tuple(_READERS[file](text))
    except (ValueError, RecursionError):
        return ()


def _go_module(text: str) -> Iterator[Name]:
    match = _GO_MODULE.search(text)
    return _named(match and match[1])


def _named(name: Any) -> Iterator[Name]:
    if isinstance(name, str) and name:
        yield Name(name, "")


def _pyproject(text: str) -> Iterator[Name]:
    table = tomllib.loads(text)
    for keys in _PYTHON_NAMES:
        yield from _python_project(_at(table, *keys))
    stated = _at(table, "tool", "setuptools", "package-dir")
    for name, directory in stated.items() if isinstance(stated, dict) else ():
        if name and isinstance(directory, str):
            yield Name(name.replace(".", "/"), directory)
    packages = _at(table, "tool", "hatch", "build", "targets", "wheel", "packages")
    for path in packages if isinstance(packages, list) else ():
        if isinstance(path, str):
            yield Name(PurePosixPath(path).name, path)


def _setup_cfg(text: str) -> Iterator[Name]:
    match = _SETUP_NAME.search(text)
    yield from _python_project(match and match[1])


def _python_project(name: Any) -> Iterator[Name]:
    """The name of a project as its package is named: with underscores, or in a namespace."""
    if isinstance(name, str) and name:
        for mark in "_/":
            yield Name(re.sub(r"[-_.]+", mark, name.lower()), "", is_sure=False)


def _package_json(text: str) -> Iterator[Name]:
    return _named(_at(json.loads(text), "name"))


def _cargo(text: str) -> Iterator[Name]:
    table = tomllib.loads(text)
    return _named(_at(table, "lib", "name") or _at(table, "package", "name"))


def _composer(text: str) -> Iterator[Name]:
    table = json.loads(text)
    for part in ("autoload", "autoload-dev"):
        stated = _at(table, part, "psr-4")
        for name, directories in stated.items() if isinstance(stated, dict) else ():
            for directory in directories if isinstance(directories, list) else [directories]:
                if isinstance(directory, str):
                    yield Name(name.strip("\\").replace("\\", "/"), directory)


def _at(table: Any, *keys: str) -> Any:
    """The value under a path of keys in nested tables, or None."""
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


_READERS: Mapping[str, Callable[[str], Iterator[Name]]] = {
    "go.mod": _go_module,
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    "composer.json": _composer,
}
