"""The settings that the user chose."""

from codebase_mcp.settings.loading import Settings

__all__ = ["Settings"]
