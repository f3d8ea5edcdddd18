"""The folder in which grammars are unpacked: the product's, unless the user names another.

``semble_grammars`` only takes it from an environment variable (checked with 0.1.2).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from codebase_mcp.processes import default_variable

_chosen: Path | None = None


def choose(folder: Path | None) -> None:
    """Unpack in this folder, or in the package's own, unless the user's variable names a folder."""
    global _chosen  # noqa: PLW0603 - like the package's variable, for the whole process
    _chosen = folder


def chosen() -> Path | None:
    """The folder that was chosen, for another process."""
    return _chosen


def in_environment() -> AbstractContextManager[None]:
    """Let the package see the folder within the block."""
    if _chosen is None:
        return nullcontext()
    return default_variable("SEMBLE_GRAMMARS_CACHE_DIR", str(_chosen))
