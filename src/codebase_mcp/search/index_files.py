"""Memory indexes as files that every process of a machine maps.

A file holds the arrays of an index one after the other, and before its end their names, types and
shapes. It is a copy that can be made from the database at any time: a missing or damaged file costs
time, never an answer.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from math import prod
from typing import IO, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.search.memory_index import MemoryIndex

# The first bytes of a file; another number for each change of what it holds.
_MARK = b"codebase-mcp index 3\n"
_ALIGNMENT = 64

Array = NDArray[Any]


def mapped_index(content: mmap.mmap) -> MemoryIndex:
    """The index in a mapped file. Raises ValueError or KeyError if the file is damaged."""
    index: MemoryIndex = _built(MemoryIndex, "", _read(content))
    return index


def write_index(file: IO[bytes], index: MemoryIndex) -> None:
    """Write an index to a file."""
    file.write(_MARK)
    listed = []
    for name, array in _arrays(index):
        file.write(bytes(-file.tell() % _ALIGNMENT))
        listed.append((name, array.dtype.str, array.shape, file.tell()))
        file.write(np.ascontiguousarray(array).data)
    start = file.tell()
    file.write(json.dumps(listed).encode())
    file.write(start.to_bytes(8, "little"))


def _arrays(value: Any, prefix: str = "") -> Iterator[tuple[str, Array]]:
    """The arrays of an index, and of its parts, by name."""
    for each in fields(value):
        part = getattr(value, each.name)
        if isinstance(part, np.ndarray):
            yield prefix + each.name, part
        elif is_dataclass(part):
            yield from _arrays(part, f"{prefix}{each.name}.")


def _built(kind: Any, prefix: str, arrays: dict[str, Array]) -> Any:
    """An index, or a part of one, of its arrays."""
    hints = get_type_hints(kind)
    return kind(**{
        each.name: _built(hints[each.name], f"{prefix}{each.name}.", arrays)
        if is_dataclass(hints[each.name])
        else arrays[prefix + each.name]
        for each in fields(kind)
        if each.init and not each.name.startswith("_")
    })  # fmt: skip


def _read(content: mmap.mmap) -> dict[str, Array]:
    """Raises ValueError if the content is not that of a file of ours."""
    start = int.from_bytes(content[-8:], "little")
    if content[: len(_MARK)] != _MARK:
        raise ValueError("Another kind of file")
    return {
        name: np.frombuffer(content, dtype, prod(shape), offset).reshape(shape)
        for name, dtype, shape, offset in json.loads(content[start:-8])
    }
