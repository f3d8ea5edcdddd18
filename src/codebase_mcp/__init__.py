"""Code search for AI coding agents, over PostgreSQL and pgvector.

from codebase_mcp import App
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codebase_mcp.app.app import App

__all__ = ["App"]


def __getattr__(name: str) -> Any:
    """Load the product when it is asked for: a server answers the handshake before that."""
    if name == "App":
        from codebase_mcp.app.app import App  # noqa: PLC0415

        return App
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
