"""What clang says of every name of a project in C or C++. JSON in, JSON out; see ``references.py``.

Nothing is configured or built: every directory with a header is searched for headers, and what is
generated is missing. Code that another platform compiles is not seen. A unit of C++ modules is left
out: without the modules that it imports, its headers are read as something else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from ctypes import POINTER, byref, c_uint
from pathlib import Path

from clang.cindex import (
    Cursor,
    CursorKind,
    File,
    Index,
    SourceLocation,
    c_object_p,
    conf,
)

SOURCES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}
HEADERS = frozenset({".h", ".hpp", ".hh", ".hxx"})
KEEP_GOING = 0x200
USES = frozenset({
    CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.TYPE_REF,
    CursorKind.TEMPLATE_REF, CursorKind.MEMBER_REF, CursorKind.OVERLOADED_DECL_REF,
})  # fmt: skip
DEFINITIONS = frozenset({
    CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL,
    CursorKind.UNION_DECL, CursorKind.ENUM_DECL, CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL, CursorKind.TYPE_ALIAS_TEMPLATE_DECL, CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, CursorKind.FUNCTION_TEMPLATE,
})  # fmt: skip

_MODULE = re.compile(r"^(?:export )?module\b", re.MULTILINE)
_RECEIVER = re.compile(r"(?:(this)\s*->|(::)|\.|->)\s*(?:template\s+)?$")


class Project:
    """All that is defined and used in a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.definitions: set[tuple[str, int, str, str]] = set()
        self.uses: set[tuple[str, int, str, str, str]] = set()
        self._seen: set[str] = set()
        self._lines: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}

    def read(self, path: Path, arguments: list[str]) -> None:
        """What a source says, and of the headers that it includes those that are new."""
        unit = Index.create().parse(str(path), arguments, options=KEEP_GOING)
        new: set[str] = set()
        for top in unit.cursor.get_children():
            where, _, _ = self._place(top)
            if where and where not in self._seen:
                new.add(where)
                for cursor in top.walk_preorder():
                    self._tell(cursor)
        self._seen |= new

    def _tell(self, cursor: Cursor) -> None:
        is_use = cursor.kind in USES
        if not is_use and cursor.kind not in DEFINITIONS:
            return
        path, line, column = self._place(cursor)
        if not path:
            return
        if not is_use:
            self.definitions.add((path, line, cursor.spelling, _id(cursor)))
            return
        for meant in self._meant(cursor):
            name, known = meant.spelling, _id(meant)
            text = self._line(path, line).encode()
            if text[column - 1 :].startswith(name.encode()):  # or it is written in a macro
                if not self._place(meant)[0]:
                    known = ""
                before = text[: column - 1].decode("utf-8", "replace")
                self.uses.add((path, line, name, known, _reach(before)))

    def _meant(self, cursor: Cursor) -> Iterator[Cursor]:
        if cursor.kind is CursorKind.OVERLOADED_DECL_REF:
            for number in range(conf.lib.clang_getNumOverloadedDecls(cursor)):
                yield conf.lib.clang_getOverloadedDecl(cursor, number)
        elif cursor.referenced is not None:
            meant = cursor.referenced
            template = conf.lib.clang_getSpecializedCursorTemplate(meant)
            yield template or meant

    def _place(self, cursor: Cursor) -> tuple[str, int, int]:
        """Where a name is written; within the project alone."""
        file, line, column, offset = c_object_p(), c_uint(), c_uint(), c_uint()
        conf.lib.clang_getFileLocation(
            cursor.location, byref(file), byref(line), byref(column), byref(offset)
        )
        if not file:
            return "", 0, 0
        name = File(file).name
        if name not in self._paths:
            path = Path(name).resolve()
            inside = path.is_relative_to(self.root)
            self._paths[name] = path.relative_to(self.root).as_posix() if inside else ""
        return self._paths[name], line.value, column.value

    def _line(self, path: str, number: int) -> str:
        if path not in self._lines:
            self._lines[path] = (self.root / path).read_text("utf-8", "replace").split("\n")
        return self._lines[path][number - 1]


def _id(cursor: Cursor) -> str:
    """What tells a definition from others; "typedef struct a a;" is one with the structure."""
    if cursor.kind is CursorKind.TYPEDEF_DECL:
        below = cursor.underlying_typedef_type.get_declaration()
        if below.spelling == cursor.spelling:
            return str(below.get_usr())
    return str(cursor.get_usr())


def _reach(before: str) -> str:
    found = _RECEIVER.search(before)
    if found is None:
        return "plain"
    return "own" if found[1] else "named" if found[2] else "object"


def main() -> None:
    """Answer what is asked on standard input."""
    root = Path(json.load(sys.stdin)["root"]).resolve()
    conf.lib.clang_getFileLocation.argtypes = [
        SourceLocation, POINTER(c_object_p), POINTER(c_uint), POINTER(c_uint), POINTER(c_uint)
    ]  # fmt: skip
    files = sorted(path for path in root.rglob("*") if path.suffix in {*SOURCES, *HEADERS})
    folders = dict.fromkeys(path.parent for path in files if path.suffix in HEADERS)
    above = dict.fromkeys(parent for one in folders for parent in one.parents if parent != root)
    folders |= {one: None for one in above if one.is_relative_to(root)}
    own = subprocess.run(
        ["gcc", "-print-file-name=include"], check=True, text=True, stdout=subprocess.PIPE
    )
    project = Project(root)
    for path in files:
        language = SOURCES.get(path.suffix)
        if language is None or _MODULE.search(path.read_text("utf-8", "replace")):
            continue
        standard = "-std=gnu17" if language == "c" else "-std=gnu++20"
        ways = ["-x", language, standard, "-D_GNU_SOURCE", f"-I{path.parent}", f"-I{root}"]
        ways += [f"-I{one}" for one in folders] + ["-isystem", own.stdout.strip()]
        project.read(path, ways)
    json.dump({"definitions": list(project.definitions), "uses": list(project.uses)}, sys.stdout)


if __name__ == "__main__":
    main()
