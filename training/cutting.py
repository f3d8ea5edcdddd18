"""How are the judges' repositories cut: which files, and where a chunk ends?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CHUNK_CHARS = 750
MAX_FILE_BYTES = 1_000_000
# Prose and data beside the code; annotated targets are code.
NOT_CODE = frozenset(
    """.md .rst .txt .adoc .json .yaml .yml .toml .lock .csv .svg .html .css .xml .po .pem .snap
    .markdown .org .map .ini .cfg .conf .properties .log""".split()
)


def chunk_texts(text: str) -> Iterator[str]:
    """Whole lines, joined until about 750 characters are reached."""
    held: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        if held and size + len(line) > CHUNK_CHARS:
            yield "".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield "".join(held)


def code_files(root: Path) -> Iterator[tuple[str, str]]:
    """Path relative to the root and text of each file of code under it."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f != ".git")
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_symlink() or file.suffix.lower() in NOT_CODE:
                continue
            if file.stat().st_size > MAX_FILE_BYTES:
                continue
            content = file.read_bytes()
            if b"\0" not in content[:4096]:
                yield file.relative_to(root).as_posix(), content.decode("utf-8", "replace")
