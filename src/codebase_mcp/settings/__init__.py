"""What did the user ask for?"""

from codebase_mcp.settings.loading import Settings

__all__ = ["Settings"]
