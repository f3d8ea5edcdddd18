"""Which program is this, which schema does it write, and which model is built in?"""

from __future__ import annotations

from importlib.metadata import version

from codebase_mcp.database.migrate import known_migrations
from codebase_mcp.embedding.static import StaticEmbedder


def lines() -> str:
    """The version of the program, the newest migrations, and the built-in model's fingerprint."""
    project, catalogue = (len(known_migrations(scope)) for scope in ("project", "catalogue"))
    model = StaticEmbedder.load()
    return (
        f"codebase-mcp {version('codebase-mcp')}\n"
        f"schema {project} of projects, {catalogue} of the catalogue\n"
        f"model {model.name} {model.fingerprint}"
    )
