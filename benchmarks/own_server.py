"""A folder for a benchmark's data, with an embedded server of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codebase_mcp.database.server import Embedded, EmbeddedServer


@contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A folder whose ``data`` is a data folder; at the end its server stops and it is deleted."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)  # the server's own user reads there
        try:
            yield folder
        finally:
            EmbeddedServer(Embedded(folder / "data")).stop()
