"""A table: how languages import names, and how far a name is visible without an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from codebase_mcp.symbols.definition import TYPE_KINDS

# What a method calls its own object, and its base class.
SELF = frozenset({"self", "this", "cls", "Self", "static", "$this", "@"})
SUPER = frozenset({"super", "super()", "parent", "base"})


class Reach(Enum):
    """How far a name is seen without an import."""

    FILE = 1
    DIRECTORY = 2
    PROJECT = 3


class Modules(Enum):
    """How an import says where a name is from."""

    DOTTED = 1  # Python: dots; leading dots are relative
    RELATIVE = 2  # JavaScript: a path relative to the file, or a package
    DIRECTORY = 3  # Go: the path of a directory
    QUALIFIED = 4  # Java: the names of packages, usually directories, and of a type
    CRATE = 5  # Rust: crate::, super::, self::, or the name of a crate
    INCLUDE = 6  # C: the path of a file
    REQUIRE = 7  # Ruby: the path of a file without its extension


@dataclass(frozen=True, slots=True)
class Language:
    """The rules of a language.

    Names of one ``family`` can be used by each other's files. ``index_files`` stand for their
    directory. With ``has_implicit_self`` a method is called by its name alone within its class, and
    with ``has_types_apart`` a value and a type may have one name, and an interface is no value.
    ``calls_fields`` if a field can hold a function that is called like a method.
    A bare name that is handed on means no definition of the kinds ``never_handed_on``. Its
    ``build_files`` name the packages of their directories.
    """

    family: str
    modules: Modules | None
    reach: Reach
    has_implicit_self: bool = False
    has_types_apart: bool = False
    never_handed_on: frozenset[str] = frozenset()
    calls_fields: bool = True
    index_files: frozenset[str] = field(default_factory=frozenset)
    build_files: tuple[str, ...] = ()

    @property
    def imports_files(self) -> bool:
        """Whether an import names a file instead of names in it."""
        return self.modules in (Modules.INCLUDE, Modules.REQUIRE)


_PYTHON = Language(
    "python",
    Modules.DOTTED,
    Reach.FILE,
    index_files=frozenset({"__init__", "__main__"}),
    build_files=("pyproject.toml", "setup.cfg"),
)
_SCRIPT = Language(
    "javascript",
    Modules.RELATIVE,
    Reach.FILE,
    has_types_apart=True,
    index_files=frozenset({"index"}),
    build_files=("package.json",),
)
_JVM = Language("jvm", Modules.QUALIFIED, Reach.DIRECTORY, has_implicit_self=True)
_C = Language("c", Modules.INCLUDE, Reach.PROJECT, has_implicit_self=True)

LANGUAGES: Mapping[str, Language] = {
    "python": _PYTHON,
    **dict.fromkeys(("javascript", "typescript", "tsx", "jsx", "vue", "svelte"), _SCRIPT),
    "go": Language(
        "go",
        Modules.DIRECTORY,
        Reach.DIRECTORY,
        never_handed_on=TYPE_KINDS,
        build_files=("go.mod",),
    ),
    **dict.fromkeys(("kotlin", "scala", "groovy"), _JVM),
    "java": replace(_JVM, never_handed_on=frozenset({"method"}), calls_fields=False),
    "csharp": Language("csharp", Modules.QUALIFIED, Reach.PROJECT, has_implicit_self=True),
    "php": Language(
        "php", Modules.QUALIFIED, Reach.PROJECT, calls_fields=False, build_files=("composer.json",)
    ),
    "rust": Language(
        "rust",
        Modules.CRATE,
        Reach.FILE,
        index_files=frozenset({"mod", "lib", "main"}),
        build_files=("Cargo.toml",),
    ),
    **dict.fromkeys(("c", "cpp", "objc", "cuda"), _C),
    "ruby": Language("ruby", Modules.REQUIRE, Reach.PROJECT, has_implicit_self=True),
    "swift": Language("swift", None, Reach.PROJECT, has_implicit_self=True),
}


def language_of(name: str) -> Language:
    """The rules of a language; without a row in the table its names reach the whole project."""
    return LANGUAGES.get(name) or Language(name, None, Reach.PROJECT, has_implicit_self=True)
