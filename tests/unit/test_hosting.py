"""What the hosting service reads: workflows, which run nothing but our make targets, and forms."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOSTING = ROOT / ".github"
WORKFLOWS = sorted((HOSTING / "workflows").glob("*.yml"))
SCHEMAS = {
    **{f".github/workflows/{file.name}": "github-workflows" for file in WORKFLOWS},
    ".github/ISSUE_TEMPLATE/bug.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/search.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/idea.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    ".github/dependabot.yml": "dependabot",
    "CITATION.cff": "citation-file-format",
}


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"{name} is missing: pip install -r requirements-dev.txt"
    return found


def passes(*command: str | Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def steps() -> Iterator[dict[str, Any]]:
    for file in WORKFLOWS:
        for job in yaml.safe_load(file.read_text("utf-8"))["jobs"].values():
            yield from job.get("steps", ())


@pytest.mark.parametrize("schema", sorted(set(SCHEMAS.values())))
def test_files_fit_the_schema_of_their_reader(schema: str) -> None:
    files = [name for name, of in SCHEMAS.items() if of == schema]
    passes(program("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *files)


def test_every_form_is_checked() -> None:
    forms = {str(file.relative_to(ROOT)) for file in HOSTING.glob("ISSUE_TEMPLATE/*")}
    assert forms <= set(SCHEMAS)


def test_the_workflows_give_away_nothing() -> None:
    passes(program("zizmor"), "--offline", "--no-progress", "--quiet", HOSTING)


def test_a_step_is_a_make_target_or_an_action_of_one_commit() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    seen = list(steps())
    assert len(seen) > 10
    for step in seen:
        if "run" in step:
            target = re.match(r"make ([a-z-]+)(?: [A-Z_]+=\S+)*$", step["run"])
            assert target, step
            assert target[1] in targets
        else:
            assert re.search(r"@[0-9a-f]{40}$", step["uses"]), step


def test_all_systems_processors_and_pythons_are_tried() -> None:
    content = yaml.safe_load((HOSTING / "workflows" / "test.yml").read_text("utf-8"))
    matrix = content["jobs"]["test"]["strategy"]["matrix"]
    assert {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15-intel", "macos-15"} == set(matrix["os"])
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    described = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project))
    assert described == set(matrix["python"])
