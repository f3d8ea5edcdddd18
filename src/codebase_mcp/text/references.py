"""How are the references of a text stored? As a short text per name.

Each line has, separated by tabs, a letter for the kind of use, the receiver, or the module and
alias of an import, and line numbers: ``c self 12,40``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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
    """Pack the uses of each name; equal uses on the same line count once."""
    names: dict[str, dict[str, list[str]]] = {}
    for line, name, kind, receiver, module, alias in references:
        head = _LETTERS[kind]
        if module or alias:
            head = f"{head}\t{_one_line(module)}\t{alias}"
        elif receiver:
            head = f"{head}\t{receiver}"
        lines = names.setdefault(name, {}).setdefault(head, [])
        number = str(line)
        if not lines or lines[-1] != number:
            lines.append(number)
    return {
        name: "\n".join([f"{head}\t{','.join(lines)}" for head, lines in uses.items()])
        for name, uses in names.items()
    }


def unpack(
    name: str, packed: str, kinds: Collection[ReferenceKind] = frozenset(ReferenceKind)
) -> Iterator[Reference]:
    """The uses of a name of some kinds, from the result of `pack`."""
    for uses in packed.split("\n"):
        kind = _KINDS[uses[0]]
        if kind not in kinds:
            continue
        _, *details, lines = uses.split("\t")
        if kind is ReferenceKind.IMPORT:
            details = ["", *details]
        for line in lines.split(","):
            yield Reference(int(line), name, kind, *details)


def _one_line(module: str) -> str:
    return " ".join(module.split())
