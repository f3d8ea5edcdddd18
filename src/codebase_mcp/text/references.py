"""How are the references of a text stored? As one text per name, short and readable.

Each line of it has a kind of use and its lines, and after tabs the receiver, or the module and the
alias of an import: ``c12,40<tab>self``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from codebase_mcp.model import Reference, ReferenceKind

_LETTERS: Mapping[ReferenceKind, str] = {
    ReferenceKind.CALL: "c",
    ReferenceKind.IMPORT: "i",
    ReferenceKind.INHERIT: "b",
    ReferenceKind.NEW: "n",
    ReferenceKind.TYPE: "t",
    ReferenceKind.USE: "u",
}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


def pack(references: Iterable[Reference]) -> dict[str, str]:
    """The uses of each name. Those on one line that do not differ count once."""
    names: dict[str, dict[tuple[str, str], list[str]]] = {}
    for line, name, kind, receiver, module, alias in references:
        detail = receiver
        if kind is ReferenceKind.IMPORT:
            detail = f"{_one_line(module)}\t{alias}" if alias else _one_line(module)
        lines = names.setdefault(name, {}).setdefault((_LETTERS[kind], detail), [])
        if not lines or lines[-1] != str(line):
            lines.append(str(line))
    return {
        name: "\n".join(
            f"{letter}{','.join(lines)}\t{detail}" if detail else f"{letter}{','.join(lines)}"
            for (letter, detail), lines in uses.items()
        )
        for name, uses in names.items()
    }


def unpack(name: str, packed: str) -> Iterator[Reference]:
    """The uses of a name that `pack` has packed."""
    for uses in packed.split("\n"):
        head, detail, alias = [*uses.split("\t"), "", ""][:3]
        kind = _KINDS[head[0]]
        is_import = kind is ReferenceKind.IMPORT
        for line in head[1:].split(","):
            yield Reference(
                int(line),
                name,
                kind,
                receiver="" if is_import else detail,
                module=detail if is_import else "",
                alias=alias,
            )


def _one_line(module: str) -> str:
    return " ".join(module.split())
