"""What is a setting? One row of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codebase_mcp.settings.rules import Rule

_PREFIX = "CODEBASE_MCP_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    variable: str
    default: Callable[[], Any]
    rule: Rule
    help: str
    also: str = ""
    """Another program's variable with the same meaning, used where ours is not set."""
    section: str = "Program"
    is_secret: bool = False
    """Never shown: it may hold a password or a key."""
    has_flag: bool = True
    keys: tuple[str, ...] = ()
    """What a `.mcp-context.toml` calls it, if it concerns a repository; the first is preferred."""
    joined: Callable[[Any, Any], Any] | None = None
    """Combines our value and the file's; without it, the file counts where ours is the default."""
    default_words: str = ""
    """The default, where it depends on the machine."""
    flag_name: str = ""
    """The flag, where it is not the variable's name."""

    @property
    def flag(self) -> str:
        """The flag, usually the variable's name."""
        usual = "--" + self.variable.removeprefix(_PREFIX).lower().replace("_", "-")
        return self.flag_name or usual

    @property
    def file_variable(self) -> str:
        """The variable that names a file with the value: how containers are given secrets."""
        return f"{self.variable}_FILE" if self.is_secret else ""
