"""What is asked of which server, and which checks are expected not to be met? conformance.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("conformance.toml")
SERVERS = ("product", "fixtures")


@dataclass(frozen=True, slots=True)
class Unmet:
    """Checks that are not met, with the reason; without checks, any of the scenarios'."""

    servers: tuple[str, ...]
    revisions: tuple[str, ...]
    scenarios: tuple[str, ...]
    checks: tuple[str, ...]
    reason: str

    def concerns(self, server: str, revision: str, scenario: str) -> bool:
        """Does it speak of this scenario?"""
        return server in self.servers and revision in self.revisions and scenario in self.scenarios


_CONTENT = tomllib.loads(FILE.read_text(encoding="utf-8"))
REVISIONS: tuple[str, ...] = tuple(_CONTENT["fixtures"])
UNMET: tuple[Unmet, ...] = tuple(
    Unmet(
        tuple(entry["servers"]),
        tuple(entry["revisions"]),
        tuple(entry["scenarios"]),
        tuple(entry.get("checks", ())),
        entry["reason"],
    )
    for entry in _CONTENT["unmet"]
)


def scenarios(server: str, revision: str) -> tuple[str, ...]:
    """The scenarios that a server is asked in a revision."""
    return tuple(_CONTENT[server][revision])


def all_scenarios() -> Iterator[tuple[str, str, str]]:
    """Server, revision and scenario of everything that is asked."""
    for server in SERVERS:
        for revision in REVISIONS:
            for scenario in scenarios(server, revision):
                yield server, revision, scenario


def unmet(server: str, revision: str, scenario: str) -> list[Unmet]:
    """What is expected not to be met in a scenario."""
    return [entry for entry in UNMET if entry.concerns(server, revision, scenario)]
