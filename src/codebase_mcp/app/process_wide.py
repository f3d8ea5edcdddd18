"""Settings that apply to the whole process, as libraries and git read them from global state."""

from __future__ import annotations

from codebase_mcp.chunking import grammars
from codebase_mcp.secrets.masking import keep_rules_in
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import confine


def apply_to_process(settings: Settings) -> None:
    """Choose the folders of libraries, and confine git to the allowed roots."""
    grammars.choose(settings.data_dir / "grammars")
    keep_rules_in(settings.data_dir / "secret-rules")
    confine(settings)
