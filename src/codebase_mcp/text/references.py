"""How are the references of a text stored? As a short text per name.

Each line has, separated by tabs, a letter for the kind of use, the receiver, or the module and
alias of an import, and line numbers: ``c self 12,40``. The letter ``d`` is for what is declared to
have the type of that name: ``d price 12`` says so of ``price``.
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
_DECLARED = "d"


def pack(references: Iterable[Reference]) -> dict[str, str]:
    """Pack the uses of each name; equal uses on the same line count once."""
    names: dict[str, dict[str, list[str]]] = {}
    for line, name, kind, receiver, module, alias in references:
        head = _LETTERS[kind]
        if kind is ReferenceKind.IMPORT and (module or alias):
            head = f"{head}\t{' '.join(module.split())}\t{alias}"
        elif receiver:
            head = f"{head}\t{receiver}"
        heads = [head]
        if kind is not ReferenceKind.IMPORT and alias:
            heads.append(f"{_DECLARED}\t{alias}")
        number = str(line)
        for each in heads:
            lines = names.setdefault(name, {}).setdefault(each, [])
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
        kind = _KINDS.get(uses[0])
        if kind is None or kind not in kinds:
            continue
        _, *details, lines = uses.split("\t")
        if kind is ReferenceKind.IMPORT:
            details = ["", *details]
        for line in lines.split(","):
            yield Reference(int(line), name, kind, *details)


def declarations(packed: str) -> Iterator[tuple[int, str]]:
    """The lines that declare something to have the type of a name, and what, from `pack`.

    A function is ``name()``, an attribute of an object ``.name``; ``name=`` gets the result of a
    call of the name.
    """
    for uses in packed.split("\n"):
        if uses[0] == _DECLARED:
            _, declared, lines = uses.split("\t")
            for line in lines.split(","):
                yield int(line), declared
