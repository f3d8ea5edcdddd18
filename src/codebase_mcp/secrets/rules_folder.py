"""In which folder are Kingfisher's compiled rules kept? Compiling them takes some five seconds."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from codebase_mcp.processes import default_variable

_VARIABLE = "KF_RULE_CACHE_DIR"

_chosen: Path | None = None


def choose(folder: Path | None) -> None:
    """Keep them in this folder, unless the user's variable names another; None is the library's."""
    global _chosen  # noqa: PLW0603 - a single detector serves the whole process
    _chosen = folder


def is_empty() -> bool:
    """Whether rules were never compiled into the chosen folder."""
    return _chosen is not None and not any(_chosen.glob("*"))


def in_environment() -> AbstractContextManager[None]:
    """Let the library see the folder within the block."""
    if _chosen is None:
        return nullcontext()
    with suppress(OSError):  # then nothing is kept
        _chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    return default_variable(_VARIABLE, str(_chosen))
