"""What several commands print: counts, and the console for a person."""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.tools.replies.changes import counted

__all__ = ["console", "counted", "encoding_counts"]

console = Terminal()


def encoding_counts(encodings: Mapping[str, int]) -> str:
    """How many files are not in UTF-8, by encoding."""
    counts = ", ".join(f"{number} in {name}" for name, number in encodings.items())
    return f"not UTF-8: {counts}"
