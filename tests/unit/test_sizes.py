"""The code stays easy to read: sizes have limits, and files do not import each other in a ring.

Ruff limits the complexity of functions (``max-complexity``); what it does not count stands here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import codebase_mcp

PACKAGE = Path(codebase_mcp.__file__).parent
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_TOP_LEVEL_MODULES = 7


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed() -> dict[Path, ast.Module]:
    """Every module of the package."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def functions() -> Iterator[tuple[str, Function]]:
    """Every function, as ``module.py:name``."""
    for path, module in parsed().items():
        for node in ast.walk(module):
            if isinstance(node, Function):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node


def test_no_file_is_longer_than_the_limit() -> None:
    long = {
        str(path.relative_to(PACKAGE))
        for path in parsed()
        if len(path.read_text("utf-8").splitlines()) > MAX_FILE_LINES
    }
    assert not long


def test_no_function_is_longer_than_the_limit() -> None:
    long = {
        name
        for name, function in functions()
        if (function.end_lineno or 0) - function.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert not long


def test_the_top_of_the_package_is_small() -> None:
    modules = [path.name for path in PACKAGE.glob("*.py")]
    assert len(modules) <= MAX_TOP_LEVEL_MODULES, modules


def test_files_import_each_other_in_one_direction() -> None:
    names = {_name(path): path for path in parsed()}
    graph = {name: set(_imported(parsed()[path], names)) - {name} for name, path in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"an import cycle: {' -> '.join(error.args[1])}") from None


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: ast.Module, names: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that are imported when this one is."""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module in names:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in names else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
