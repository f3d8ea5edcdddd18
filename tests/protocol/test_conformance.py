"""The official conformance suite: a test for each scenario of both revisions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.protocol import node
from tests.protocol.conftest import Listening
from tests.protocol.expectations import (
    REVISIONS,
    UNMET,
    all_scenarios,
    scenarios,
    unmet,
)

# Scenario to check to the worst status of that check, with what was said.
Results = dict[str, dict[str, tuple[str, str]]]
_SEVERITY = ("INFO", "SUCCESS", "SKIPPED", "WARNING", "FAILURE")
# The suite reports by itself on what every scenario sends.
_SYNTHETIC = ("wire-schema-valid",)


@pytest.fixture(scope="session")
def results_of(
    programs: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Results]:
    """What the suite found on a server in a revision; it runs when first asked for."""
    found: dict[tuple[str, str], Results] = {}

    def results(name: str, revision: str) -> Results:
        if (name, revision) not in found:
            server: Listening = request.getfixturevalue(name)
            server.require_alive()
            folder = tmp_path_factory.mktemp(f"{name}-{revision}")
            url = ("--url", f"{server.address}/mcp")
            options = (*url, "--requirements", revision, "--output-dir", str(folder))
            done = node.run(node.CONFORMANCE, "server", *options)
            server.require_alive()
            found[name, revision] = _read(folder)
            assert found[name, revision], done.stdout + done.stderr
        return found[name, revision]

    return results


def _read(folder: Path) -> Results:
    results: Results = {}
    for file in sorted(folder.glob("*/checks.json")):
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", file.parent.name)
        checks = results.setdefault(name, {})
        for check in json.loads(file.read_text(encoding="utf-8")):
            told = (check["status"], str(check.get("errorMessage") or check.get("details")))
            known = checks.get(check["id"], ("INFO", ""))
            checks[check["id"]] = max(known, told, key=lambda of: _SEVERITY.index(of[0]))
    return results


@pytest.mark.parametrize(("server", "revision", "scenario"), list(all_scenarios()))
def test_a_scenario_has_the_expected_result(
    results_of: Callable[[str, str], Results], server: str, revision: str, scenario: str
) -> None:
    checks = results_of(server, revision)[scenario]
    missed = {name: told for name, told in checks.items() if told[0] not in ("SUCCESS", "INFO")}
    expected = unmet(server, revision, scenario)
    if any(not entry.checks for entry in expected):
        assert missed, "it is met now: take it out of conformance.toml"
        return
    listed = {name for entry in expected for name in entry.checks}
    assert not listed - missed.keys(), "met now: take them out of conformance.toml"
    assert not {name: told for name, told in missed.items() if name not in listed}
    met = {name for name, told in checks.items() if told[0] == "SUCCESS"}
    assert met.difference(_SYNTHETIC) or listed, "nothing was checked"


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scenario_of_a_requirement_set_is_asked(
    results_of: Callable[[str, str], Results], revision: str
) -> None:
    assert set(scenarios("fixtures", revision)) == results_of("fixtures", revision).keys()
    assert set(scenarios("product", revision)) <= set(scenarios("fixtures", revision))


def test_every_expected_failure_concerns_a_scenario_and_gives_a_reason() -> None:
    asked = set(all_scenarios())
    for entry in UNMET:
        assert len(entry.reason) > 20
        for server in entry.servers:
            for revision in entry.revisions:
                assert {(server, revision, name) for name in entry.scenarios} <= asked


def test_the_lock_file_pins_every_package_and_names_no_registry() -> None:
    lock = json.loads((node.FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: of for name, of in lock["packages"].items() if name}
    assert all(of["integrity"].startswith("sha512-") for of in packages.values())
    assert not [name for name, of in packages.items() if "resolved" in of]
