"""Encodes rows in PostgreSQL's binary COPY format.

Creating a Python object per value is slow for tens of thousands of rows, so vectors and term lists
are converted from numpy arrays to bytes at once. Formats: "COPY" (Binary Format) in
PostgreSQL's manual; ``array_send``, pgvector's ``halfvec_send`` and ``sparsevec_send``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.text.tokens import TERM_SPACE

HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)
NULL = struct.pack(">i", -1)

_INT4_OID = 23
_TEXT_OID = 25


def row(*fields: bytes) -> bytes:
    return struct.pack(">h", len(fields)) + b"".join(fields)


def extended(shorter: bytes, *fields: bytes) -> bytes:
    """A row with more fields at its end."""
    (count,) = struct.unpack_from(">h", shorter)
    return struct.pack(">h", count + len(fields)) + shorter[2:] + b"".join(fields)


def payload(rows: Iterable[bytes]) -> bytes:
    """A whole COPY stream of rows."""
    return b"".join([HEADER, *rows, TRAILER])


def int2(value: int) -> bytes:
    return struct.pack(">ih", 2, value)


def int4(value: int) -> bytes:
    return struct.pack(">ii", 4, value)


def int8(value: int) -> bytes:
    return struct.pack(">iq", 8, value)


def binary(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def uuid(value: UUID | None) -> bytes:
    return NULL if value is None else binary(value.bytes)


def text(value: str | None) -> bytes:
    return NULL if value is None else binary(value.encode())


def int4_array(values: NDArray[np.int64]) -> bytes:
    """An integer[]; each element carries its length before its value."""
    if not len(values):
        return binary(struct.pack(">iii", 0, 0, _INT4_OID))
    elements = np.empty((len(values), 2), ">i4")
    elements[:, 0] = 4
    elements[:, 1] = values
    return binary(struct.pack(">iiiii", 1, 0, _INT4_OID, len(values), 1) + elements.tobytes())


def text_array(values: Collection[str]) -> bytes:
    if not values:
        return binary(struct.pack(">iii", 0, 0, _TEXT_OID))
    head = struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1)
    return binary(head + b"".join(map(text, values)))


def sparse_vector(positions: NDArray[np.int64], weights: NDArray[np.float32]) -> bytes:
    """A sparsevec over the term space; positions ascending, 0-based."""
    head = struct.pack(">iii", TERM_SPACE, len(positions), 0)
    return binary(head + positions.astype(">i4").tobytes() + weights.astype(">f4").tobytes())


def half_vectors(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each row of a matrix as a halfvec field."""
    size, width = vectors.shape
    head = struct.pack(">ihh", 4 + 2 * width, width, 0)
    flat = vectors.astype(">f2").tobytes()
    return [head + flat[i * 2 * width : (i + 1) * 2 * width] for i in range(size)]
