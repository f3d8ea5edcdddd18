"""Which toolsets are there to choose from, and which are chosen together?"""

from __future__ import annotations

DEFAULT_TOOLSETS = ("code",)
# What a coding agent is given: an agent does not use what it does not see.
PRESETS = {"agent": ("code", "symbols")}
TOOLSETS = (
    "code",
    "index",
    "projects",
    "tasks",
    "memory",
    "vcs",
    "symbols",
    "agents",
    "entities",
    "work_items",
)
