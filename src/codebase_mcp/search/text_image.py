"""Texts of a snapshot in a file that every process maps: scanning it is faster than any index.

The file holds the texts one after the other, then their ids and their offsets. It is a copy that
is made from the database when it is needed: a missing or damaged file costs time, never an answer.
A text never changes under its id, so an image stays right; texts that it lacks, as after an edit,
are read from the database until there are many of them.
"""

from __future__ import annotations

import logging
import mmap
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.search.text_pattern import Span, TextMatcher

_SQL = load_queries("codebase_mcp.search", "exact.sql")
_log = logging.getLogger(__name__)

# The end of a file: this mark, the number of texts and their bytes.
_MARK = 0xC0DEB45E
_FOOTER = np.dtype([("mark", "<u8"), ("texts", "<u8"), ("bytes", "<u8")])

# Texts beside the image are read with each question; with more of them the image is made anew.
_MOST_BESIDE = 500
_MOST_BESIDE_BYTES = 4 << 20

# Images of snapshots that nobody asked for lately are deleted, down to this many bytes.
MOST_BYTES = 4 << 30

_BATCH_TEXTS = 500
_PIECE_BYTES = 4 << 20
_GAP_BYTES = 1 << 18
_SCANNERS = os.cpu_count() or 1

Ints = NDArray[np.int64]


class TextImage:
    """A mapped file with texts; ``starts`` are their offsets, and the end of the last."""

    def __init__(self, content: mmap.mmap) -> None:
        """Raises ValueError if the content is damaged."""
        self.map = content
        footer = np.frombuffer(content, _FOOTER, 1, len(content) - _FOOTER.itemsize)[0]
        count, size = int(footer["texts"]), int(footer["bytes"])
        if footer["mark"] != _MARK or len(content) != _size(count, size):
            raise ValueError("The image is damaged")
        self.ids: Ints = np.frombuffer(content, np.int64, count, size)
        self.starts: Ints = np.frombuffer(content, np.int64, count + 1, size + 8 * count)
        self._order = np.argsort(self.ids)
        self._sorted = self.ids[self._order]

    @classmethod
    def open(cls, path: Path) -> TextImage:
        """Map a file.

        Raises:
            OSError, ValueError: there is no such file, or it is damaged.
        """
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))

    def positions(self, ids: Collection[int]) -> Ints:
        """The positions of texts, ascending; ids that the image lacks are left out."""
        asked = np.fromiter(ids, np.int64, len(ids))
        if not len(self.ids) or not len(asked):
            return np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(self._sorted, asked), len(self.ids) - 1)
        return np.sort(self._order[at[self._sorted[at] == asked]])

    def text(self, position: int) -> bytes:
        """The text at a position, with a line end behind its last line."""
        return self.map[int(self.starts[position]) : int(self.starts[position + 1])]


@dataclass(slots=True)
class TextMatches:
    """Where a pattern matches, by the id of the text; ``is_complete`` unless time ran out."""

    spans: dict[int, list[Span]] = field(default_factory=dict)
    is_complete: bool = True

    def add(self, text_id: int, spans: list[Span]) -> None:
        """Add the matches of a text, if it has any."""
        if spans:
            self.spans[text_id] = spans


@dataclass(frozen=True, slots=True)
class SnapshotTexts:
    """The texts of a snapshot: those in its image, and those ``beside`` it."""

    image: TextImage
    beside: Mapping[int, bytes]

    def find(
        self, matcher: TextMatcher, ids: Collection[int] | None, *, until: float
    ) -> TextMatches:
        """The matches in some texts, or in all, until a monotonic time is reached."""
        matches = TextMatches()

        def check() -> None:
            if time.monotonic() > until:
                raise TimeoutError

        try:
            for text_id, text in self.beside.items():
                if ids is None or text_id in ids:
                    matches.add(text_id, list(matcher.spans(text, 0, len(text), check)))
        except TimeoutError:
            matches.is_complete = False
        image = self.image
        chosen = np.arange(len(image.ids)) if ids is None else image.positions(ids)
        with ThreadPoolExecutor(_SCANNERS) as threads:
            for part in threads.map(
                lambda piece: _scan(image, matcher, piece, check), _pieces(chosen, image.starts)
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
    image: TextImage, matcher: TextMatcher, positions: Ints, check: Callable[[], None]
) -> TextMatches:
    """The matches in some texts of an image, which lie close together."""
    matches = TextMatches()
    try:
        if matcher.spans_lines or matcher.is_anchored:
            for position in positions.tolist():
                check()
                text = image.text(position)
                spans = list(matcher.spans(text, 0, len(text), check))
                matches.add(int(image.ids[position]), spans)
        else:
            _scan_lines(image, matcher, positions, check, matches)
    except TimeoutError:
        matches.is_complete = False
    return matches


def _scan_lines(
    image: TextImage,
    matcher: TextMatcher,
    positions: Ints,
    check: Callable[[], None],
    matches: TextMatches,
) -> None:
    """Scan neighbouring texts as if they were a single one."""
    starts, chosen = image.starts, frozenset(positions.tolist())
    start, end = int(starts[positions[0]]), int(starts[positions[-1] + 1])
    offset, after, spans = 0, 0, list[Span]()
    for first, last in matcher.spans(image.map, start, end, check):
        if first >= after:
            position = int(np.searchsorted(starts, first, "right")) - 1
            offset, after, spans = int(starts[position]), int(starts[position + 1]), []
            if position in chosen:
                matches.spans[int(image.ids[position])] = spans
        spans.append((first - offset, last - offset))


def _pieces(positions: Ints, starts: Ints) -> list[Ints]:
    """The texts that are scanned at once: a few megabytes, without large gaps."""
    if not len(positions):
        return []
    gaps = starts[positions[1:]] - starts[positions[:-1] + 1]
    groups = starts[positions] // _PIECE_BYTES
    return np.split(positions, np.flatnonzero((gaps > _GAP_BYTES) | (np.diff(groups) > 0)) + 1)


class TextImages:
    """The images in a folder, and the texts beside them that this process has read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._images: dict[str, tuple[TextImage, int]] = {}
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
        texts |= await _load(tx, [text_id for text_id in ids if text_id not in texts])
        self._beside[name] = texts
        return texts

    def forget(self, prefix: str) -> None:
        """Delete the images whose names begin so."""
        for kept in (self._images, self._beside, self._last):
            for name in [name for name in kept if name.startswith(prefix)]:
                kept.pop(name)
        for path in self._folder.glob(f"{prefix}*.texts"):
            path.unlink(missing_ok=True)

    def _open(self, name: str) -> TextImage | None:
        path = self._folder / f"{name}.texts"
        with suppress(OSError, ValueError):
            image, made_at = self._images.get(name, (None, 0))
            now = path.stat().st_ino  # another process may have made the file anew
            if image is None or made_at != now:
                image = TextImage.open(path)
                self._images[name] = image, now
            os.utime(path)
            return image
        self._images.pop(name, None)
        return None

    async def _make(self, tx: Transaction, name: str, ids: Sequence[int]) -> TextImage:
        """Make an image; in memory where the folder cannot be written."""
        path, scratch = self._folder / f"{name}.texts", self._folder / f"{uuid4().hex}.tmp"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            scratch.touch(0o600, exist_ok=False)
            with scratch.open("wb") as out:
                await _write(tx, ids, out)
            scratch.replace(path)
            image = TextImage.open(path)
            self._images[name] = image, path.stat().st_ino
            self._delete_oldest(path)
        except OSError as error:
            _log.warning("Cannot keep texts in %s: %s", self._folder, error)
            memory = BytesIO()
            await _write(tx, ids, memory)
            content = mmap.mmap(-1, memory.tell())
            content.write(memory.getvalue())
            return TextImage(content)
        finally:
            with suppress(OSError):
                scratch.unlink()
        return image

    def _delete_oldest(self, kept: Path) -> None:
        """Delete the images that were used longest ago, and what a killed process left."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for used_at, size, path in sorted(files):
            is_left = path.suffix == ".tmp" and time.time() - used_at > 3600
            if path != kept and (is_left or total > MOST_BYTES):
                path.unlink(missing_ok=True)
                total -= size


async def _write(tx: Transaction, ids: Sequence[int], out: IO[bytes]) -> None:
    """Write an image of texts, which are read from the database in batches."""
    order = list(dict.fromkeys(ids))
    written, starts = list[int](), [0]
    for first in range(0, len(order), _BATCH_TEXTS):
        for text_id, text in (await _load(tx, order[first : first + _BATCH_TEXTS])).items():
            out.write(text)
            written.append(text_id)
            starts.append(starts[-1] + len(text))
    out.write(np.array(written, np.int64).tobytes())
    out.write(np.array(starts, np.int64).tobytes())
    out.write(np.array([(_MARK, len(written), starts[-1])], _FOOTER).tobytes())


def _missing(image: TextImage, ids: Sequence[int]) -> list[int]:
    """The texts that an image lacks."""
    asked = np.asarray(ids, np.int64)
    return list(dict.fromkeys(asked[~np.isin(asked, image.ids)].tolist()))


async def _load(tx: Transaction, ids: Sequence[int]) -> dict[int, bytes]:
    if not ids:
        return {}
    rows: dict[int, str] = dict(await tx.fetch_all(_SQL["texts"], ids=array_literal(ids)))
    return {text_id: ended(rows[text_id].encode()) for text_id in ids if text_id in rows}


def ended(text: bytes) -> bytes:
    """A text with a line end behind its last line, so that another text can follow it."""
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _size(count: int, size: int) -> int:
    return size + 8 * (2 * count + 1) + _FOOTER.itemsize
