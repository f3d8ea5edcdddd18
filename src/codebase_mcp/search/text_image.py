"""Texts of a snapshot in a file that every process maps: compressed blocks and their trigrams.

A block holds some texts, one after the other. Three bytes in a row are a trigram; a bit for each of
65,536 hashes says whether a block may hold such a trigram, and a pattern is tested on the blocks
alone that may hold the texts which it requires (Russ Cox, "Regular Expression Matching with a
Trigram Index", 2012). Letters are folded to lower case in trigrams, and the bits of all blocks are
stored by hash, so a question reads few pages.

The file is a copy that is made from the database when it is needed: a missing or damaged file costs
time, never an answer. A text never changes under its id, so an image stays right; texts that it
lacks, as after an edit, are read from the database until there are many of them.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO
from uuid import UUID

import lz4.block
import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.search.image_folder import ImageFolder
from codebase_mcp.search.text_pattern import OTHER_CASES, Spans, TextMatcher

_SQL = load_queries("codebase_mcp.search", "search.sql")
_log = logging.getLogger(__name__)

# The end of a file: this mark, the offset of its arrays, the number of texts and of blocks.
_MARK = 0xC0DEB45F
_FOOTER = np.dtype([("mark", "<u8"), ("arrays", "<u8"), ("texts", "<u8"), ("blocks", "<u8")])

# A block holds whole texts, and at least this many bytes unless it is the last.
_BLOCK_BYTES = 1 << 16

_HASHES = 1 << 16
_GROUP_BLOCKS = 256
_LOWER = np.arange(256, dtype=np.uint32)
_LOWER[ord("A") : ord("Z") + 1] += 32

# Texts beside the image are read with each question; with more of them the image is made anew.
_MOST_BESIDE = 500
_MOST_BESIDE_BYTES = 4 << 20

_BATCH_TEXTS = 500
_PIECE_BLOCKS = 32
_SCANNERS = os.cpu_count() or 1

Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]
Flags = NDArray[np.bool_]


class TextImage:
    """A mapped file with texts.

    ``starts`` are their offsets in all blocks together, and the end of the last; ``firsts`` are the
    positions of the first text of each block, and the number of texts.
    """

    def __init__(self, content: mmap.mmap) -> None:
        """Raises ValueError if the content is damaged."""
        self._map = content
        footer = np.frombuffer(content, _FOOTER, 1, len(content) - _FOOTER.itemsize)[0]
        texts, blocks = int(footer["texts"]), int(footer["blocks"])
        if footer["mark"] != _MARK or max(texts, blocks) > len(content):
            raise ValueError("The image is damaged")
        offset = int(footer["arrays"])
        sizes = (texts, texts + 1, blocks + 1, blocks + 1)
        groups = [
            -(-min(_GROUP_BLOCKS, blocks - first) // 8) for first in range(0, blocks, _GROUP_BLOCKS)
        ]
        size = offset + 8 * sum(sizes) + _HASHES * sum(groups) + _FOOTER.itemsize
        if len(content) != size:
            raise ValueError("The image is damaged")
        arrays = [
            np.frombuffer(content, np.int64, count, offset + 8 * sum(sizes[:number]))
            for number, count in enumerate(sizes)
        ]
        self.ids, self.starts, self.firsts, self._offsets = arrays
        offset += 8 * sum(sizes)
        self._groups: list[Bits] = []
        for width in groups:
            bits = np.frombuffer(content, np.uint8, _HASHES * width, offset)
            self._groups.append(bits.reshape(_HASHES, width))
            offset += bits.size
        self._order = np.argsort(self.ids)
        self._sorted = self.ids[self._order]

    def positions(self, ids: Collection[int]) -> Ints:
        """The positions of texts, ascending; ids that the image lacks are left out."""
        asked = np.fromiter(ids, np.int64, len(ids))
        if not len(self.ids) or not len(asked):
            return np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(self._sorted, asked), len(self.ids) - 1)
        return np.sort(self._order[at[self._sorted[at] == asked]])

    def block(self, number: int) -> bytes:
        """The texts of a block."""
        first, last = self._offsets[number : number + 2].tolist()
        content: bytes = lz4.block.decompress(self._map[first:last])
        return content

    def text(self, position: int) -> bytes:
        """The text at a position, with a line end behind its last line."""
        number = int(np.searchsorted(self.firsts, position, "right")) - 1
        start, end = (
            self.starts[position : position + 2] - self.starts[self.firsts[number]]
        ).tolist()
        return self.block(number)[start:end]

    def may_match(self, required: Sequence[Collection[str]]) -> Ints:
        """The numbers of the blocks that may hold a text of each set."""
        held = np.ones(len(self.firsts) - 1, np.bool_)
        for texts in required:
            held &= np.logical_or.reduce([self._may_hold(text) for text in texts])
        return np.flatnonzero(held)

    def _may_hold(self, text: str) -> Flags:
        hashes = np.unique(_trigrams(text.encode()))
        bits = [np.bitwise_and.reduce(group[hashes], axis=0) for group in self._groups]
        joined = np.concatenate([np.zeros(0, np.uint8), *bits])
        return np.unpackbits(joined, count=len(self.firsts) - 1).astype(np.bool_)


def _trigrams(text: bytes) -> NDArray[np.uint32]:
    """The hashes of all trigrams of a text."""
    codes = _LOWER[np.frombuffer(text, np.uint8)]
    a, b, c = map(np.uint32, (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35))
    hashes: NDArray[np.uint32] = (codes[:-2] * a + codes[1:-1] * b + codes[2:] * c) >> np.uint32(16)
    return hashes


@dataclass(slots=True)
class TextMatches:
    """Where a pattern matches, by the id of the text; ``is_complete`` unless time ran out."""

    spans: dict[int, Spans] = field(default_factory=dict)
    is_complete: bool = True

    def add(self, text_id: int, spans: Spans) -> None:
        """Add the matches of a text, if it has any."""
        if spans:
            self.spans[text_id] = spans


@dataclass(frozen=True, slots=True)
class SnapshotTexts:
    """The texts of a snapshot: those in its image, and those ``beside`` it."""

    image: TextImage
    beside: Mapping[int, bytes]

    def find(
        self, matcher: TextMatcher, ids: Collection[int] | None, check: Callable[[], None]
    ) -> TextMatches:
        """The matches in some texts, or in all, until a check raises TimeoutError."""
        matches = TextMatches()
        try:
            for text_id, text in self.beside.items():
                if ids is None or text_id in ids:
                    matches.add(text_id, Spans(matcher.spans(text, check)))
        except TimeoutError:
            matches.is_complete = False
        image = self.image
        chosen = None if ids is None else image.positions(ids)
        blocks = image.may_match(matcher.required)
        if chosen is not None:
            held = np.searchsorted(chosen, image.firsts)  # how many of them lie before each block
            blocks = blocks[held[blocks] < held[blocks + 1]]
        pieces = np.array_split(blocks, -(-len(blocks) // _PIECE_BLOCKS) or 1)
        with ThreadPoolExecutor(_SCANNERS) as threads:
            for part in threads.map(
                lambda piece: _scan(image, matcher, piece.tolist(), chosen, check), pieces
            ):
                matches.spans |= part.spans
                matches.is_complete &= part.is_complete
        return matches

    def text(self, text_id: int) -> bytes:
        """A text, with a line end behind its last line."""
        if (text := self.beside.get(text_id)) is not None:
            return text
        [position] = self.image.positions([text_id])
        return self.image.text(position)


def _scan(
    image: TextImage,
    matcher: TextMatcher,
    blocks: Sequence[int],
    chosen: Ints | None,
    check: Callable[[], None],
) -> TextMatches:
    """The matches in the texts of some blocks, or in the chosen texts of these."""
    matches = TextMatches()
    try:
        text, ids, starts = _joined(image, blocks, chosen)
        if matcher.spans_lines or matcher.is_anchored:
            for text_id, (start, end) in zip(ids, pairwise(starts), strict=True):
                check()
                own = text[start:end]
                matches.add(text_id, Spans(matcher.spans(own, check)))
        else:
            offset, after, spans = 0, 0, Spans()
            for first, last in matcher.spans(text, check):
                if first >= after:
                    number = bisect_right(starts, first) - 1
                    offset, after = starts[number : number + 2]
                    matches.spans[ids[number]] = spans = Spans()
                spans.append(first - offset, last - offset)
    except TimeoutError:
        matches.is_complete = False
    return matches


def _joined(
    image: TextImage, blocks: Sequence[int], chosen: Ints | None
) -> tuple[bytes, list[int], list[int]]:
    """The texts of some blocks after each other, their ids, and where each starts, and the end."""
    parts: list[bytes] = []
    ids: list[int] = []
    sizes: list[int] = []
    for number in blocks:
        first, last = image.firsts[number : number + 2].tolist()
        block, starts = image.block(number), image.starts[first : last + 1]
        starts = starts - starts[0]
        if chosen is None:
            parts.append(block)
            ids += image.ids[first:last].tolist()
            sizes += np.diff(starts).tolist()
            continue
        own = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)]
        ids += image.ids[own].tolist()
        parts += [block[starts[at] : starts[at + 1]] for at in (own - first).tolist()]
        sizes += np.diff(starts)[own - first].tolist()
    return b"".join(parts), ids, [0, *accumulate(sizes)]


class TextImages:
    """The images in a folder, and the texts beside them that this process has read."""

    def __init__(self, folder: Path) -> None:
        self._folder = ImageFolder(folder, "texts")
        self._images: dict[str, tuple[TextImage, tuple[int, int]]] = {}
        self._beside: dict[str, dict[int, bytes]] = {}
        self._last: dict[str, tuple[UUID, SnapshotTexts]] = {}

    async def texts_of(
        self, tx: Transaction, names: Sequence[str], version: UUID, ids: Sequence[int]
    ) -> SnapshotTexts:
        """The texts of a snapshot with these ids, in the order of their paths.

        ``names`` are images, without slashes: the first that has nearly all of the texts is used,
        so a commit near the files on disk needs none of its own. ``version`` is that of the ids.
        """
        ready = await self.ready_texts_of(tx, names, version, ids)
        return ready or SnapshotTexts(await self._make(tx, names[-1], ids), {})

    async def ready_texts_of(
        self, tx: Transaction, names: Sequence[str], version: UUID, ids: Sequence[int]
    ) -> SnapshotTexts | None:
        """The same; None if an image has to be made first."""
        for name in names:
            image = self._open(name)
            if image is None:
                continue
            known, texts = self._last.get(name, (None, None))
            if texts is not None and known == version and texts.image is image:
                return texts
            missing = _missing(image, ids)
            if len(missing) <= _MOST_BESIDE:
                texts = SnapshotTexts(image, await self._read_beside(tx, name, missing))
                if sum(map(len, texts.beside.values())) <= _MOST_BESIDE_BYTES:
                    self._last[name] = version, texts
                    return texts
        return None

    async def _read_beside(
        self, tx: Transaction, name: str, ids: Sequence[int]
    ) -> dict[int, bytes]:
        """Texts that an image lacks; those of the last question are kept."""
        kept = self._beside.get(name, {})
        texts = {text_id: kept[text_id] for text_id in ids if text_id in kept}
        texts |= await load_bytes(tx, [text_id for text_id in ids if text_id not in texts])
        self._beside[name] = texts
        return texts

    def forget(self, prefix: str) -> None:
        """Delete the images whose names begin so."""
        for kept in (self._images, self._beside, self._last):
            for name in [name for name in kept if name.startswith(prefix)]:
                kept.pop(name)
        self._folder.forget(prefix)

    def _open(self, name: str) -> TextImage | None:
        made = self._folder.use(name)  # another process may have made the file anew
        with suppress(OSError, ValueError):
            if made is not None:
                image, known = self._images.get(name, (None, None))
                if image is None or known != made:
                    image = TextImage(self._folder.map(name))
                    self._images[name] = image, made
                return image
        self._images.pop(name, None)
        return None

    async def _make(self, tx: Transaction, name: str, ids: Sequence[int]) -> TextImage:
        """Make an image; in memory where the folder cannot be written."""
        try:
            with self._folder.new(name) as out:
                await _write(tx, ids, out)
            return TextImage(self._folder.map(name))
        except OSError as error:
            _log.warning("Cannot keep texts: %s", error)
            memory = BytesIO()
            await _write(tx, ids, memory)
            content = mmap.mmap(-1, memory.tell())
            content.write(memory.getvalue())
            return TextImage(content)


async def _write(tx: Transaction, ids: Sequence[int], out: IO[bytes]) -> None:
    """Write an image of texts, which are read from the database in batches."""
    order = list(dict.fromkeys(ids))
    image = ImageWriter(out)
    for first in range(0, len(order), _BATCH_TEXTS):
        texts = await load_bytes(tx, order[first : first + _BATCH_TEXTS])
        await asyncio.to_thread(image.write, texts)
    await asyncio.to_thread(image.finish)


class ImageWriter:
    """Writes texts, each with a line end behind its last line, as an image to a file."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._ids: list[int] = []
        self._starts = [0]
        self._firsts = [0]
        self._offsets = [0]
        self._texts: list[bytes] = []
        self._trigrams: list[Bits] = []
        self._groups: list[bytes] = []

    def write(self, texts: Mapping[int, bytes]) -> None:
        """Write texts, by id."""
        for text_id, text in texts.items():
            self._ids.append(text_id)
            self._starts.append(self._starts[-1] + len(text))
            self._texts.append(text)
            if self._starts[-1] - self._starts[self._firsts[-1]] >= _BLOCK_BYTES:
                self._end_block()

    def _end_block(self) -> None:
        block = b"".join(self._texts)
        compressed = lz4.block.compress(block)
        self._out.write(compressed)
        self._offsets.append(self._offsets[-1] + len(compressed))
        self._firsts.append(len(self._ids))
        self._texts.clear()
        held = np.zeros(_HASHES, np.uint8)
        if any(letter in block for letter in OTHER_CASES):
            held[:] = 1
        elif len(block) > 2:
            held[_trigrams(block)] = 1
        self._trigrams.append(held)
        if len(self._trigrams) == _GROUP_BLOCKS:
            self._end_group()

    def _end_group(self) -> None:
        bits = np.packbits(np.stack(self._trigrams), axis=0)
        self._groups.append(np.ascontiguousarray(bits.T).tobytes())
        self._trigrams.clear()

    def finish(self) -> None:
        """Write the last block and the arrays."""
        if self._texts:
            self._end_block()
        if self._trigrams:
            self._end_group()
        for numbers in (self._ids, self._starts, self._firsts, self._offsets):
            self._out.write(np.array(numbers, np.int64).tobytes())
        for group in self._groups:
            self._out.write(group)
        footer = (_MARK, self._offsets[-1], len(self._ids), len(self._firsts) - 1)
        self._out.write(np.array([footer], _FOOTER).tobytes())


def _missing(image: TextImage, ids: Sequence[int]) -> list[int]:
    """The texts that an image lacks."""
    asked = np.asarray(ids, np.int64)
    return list(dict.fromkeys(asked[~np.isin(asked, image.ids)].tolist()))


async def load_bytes(tx: Transaction, ids: Collection[int]) -> dict[int, bytes]:
    """Some texts, each with a line end behind its last line, in the order of their ids here."""
    if not ids:
        return {}
    rows: dict[int, str] = dict(await tx.fetch_all(_SQL["texts"], blobs=array_literal(ids)))
    return {text_id: ended(rows[text_id].encode()) for text_id in ids if text_id in rows}


def ended(text: bytes) -> bytes:
    """A text with a line end behind its last line, so that another text can follow it."""
    return text if not text or text.endswith(b"\n") else text + b"\n"
