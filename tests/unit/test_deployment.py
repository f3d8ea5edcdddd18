"""What the server is shipped with says what the program says: image, Compose, registry, pages."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

import codebase_mcp
from codebase_mcp.cli.main import build_parser
from codebase_mcp.settings.loading import SETTINGS

ROOT = Path(codebase_mcp.__file__).parents[2]
PAGES = ("clients", "troubleshooting", "production", "projects")
VARIABLES = {name for setting in SETTINGS for name in (setting.variable, setting.also) if name}
SECRET_FILES = {f"{setting.variable}_FILE" for setting in SETTINGS if setting.is_secret}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"{name} is missing: pip install -r requirements-dev.txt"
    return found


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each in one line."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (w[0], w[1].strip()) for line in joined.splitlines() if len(w := line.split(None, 1)) == 2
    ]


def values(name: str) -> list[str]:
    return [value for key, value in instructions() if key == name]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return content


@pytest.fixture(scope="module")
def registry() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
    return content


def test_the_dockerfile_passes_its_linter() -> None:
    found = subprocess.run(
        [program("hadolint"), "--failure-threshold", "info", str(ROOT / "Dockerfile")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (0, "")


def test_the_compose_file_fits_the_schema_of_compose() -> None:
    found = subprocess.run(
        [program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec",
         str(ROOT / "compose.yaml")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_image_runs_as_an_ordinary_user() -> None:
    assert values("USER")[-1] == "10001:10001"
    names = [name for name, _ in instructions()]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name in ("RUN", "COPY"))


def test_the_image_is_built_of_files_that_reach_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for value in values("COPY"):
        *sources, _ = [word for word in value.split() if not word.startswith("--")]
        for source in sources if "--from" not in value else ():
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [metadata["readme"], *metadata["license-files"], "src", "pyproject.toml"]
    assert {f"!{name}" for name in needed} <= set(ignored)
    assert "otel" in metadata["optional-dependencies"]


def test_the_image_has_the_rules_for_secrets_compiled() -> None:
    [written] = [value for value in values("RUN") if "KF_RULE_CACHE_DIR" in value]
    folder = re.search(r"KF_RULE_CACHE_DIR=(\S+)", written).group(1)  # type: ignore[union-attr]
    [copied] = [value.split() for value in values("COPY") if folder in value.split()]
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(values("ENV"))))
    assert copied[-1] == environment["KF_RULE_CACHE_DIR"]
    # Kingfisher compiles them again if they belong to another user.
    assert f"--chown={values('USER')[-1]}" in copied
    program = re.search(r'-c\s+"([^"]+)"', written).group(1)  # type: ignore[union-attr]
    # Where they are compiled already, this takes half a second.
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    kept = Path(os.environ["KF_RULE_CACHE_DIR"])
    assert any(kept.iterdir())


def test_the_image_serves_http_to_names_that_are_allowed() -> None:
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(values("ENV"))))
    ours = {name: value for name, value in environment.items() if name.startswith("CODEBASE_MCP_")}
    assert set(ours) <= VARIABLES
    assert (ours["CODEBASE_MCP_TRANSPORT"], ours["CODEBASE_MCP_HOST"]) == ("http", "0.0.0.0")
    assert ours["CODEBASE_MCP_ALLOWED_HOSTS"] == "localhost"
    assert values("EXPOSE") == [ours["CODEBASE_MCP_PORT"]]
    assert values("VOLUME") == [ours["CODEBASE_MCP_DATA_DIR"]]
    command = json.loads(values("ENTRYPOINT")[0]) + json.loads(values("CMD")[0])
    assert command[0] == "codebase-mcp"
    build_parser().parse_args(command[1:])


def test_the_image_is_asked_for_its_health_where_the_server_answers() -> None:
    (check,) = values("HEALTHCHECK")
    url = urlsplit(re.search(r"http://[^']+", check).group())  # type: ignore[union-attr]
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(values("ENV"))))
    assert str(url.port) == environment["CODEBASE_MCP_PORT"]
    web = (ROOT / "src" / "codebase_mcp" / "web" / "http.py").read_text("utf-8")
    assert f'"{url.path}"' in web


def test_nothing_secret_is_written_into_the_files(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            assert "PASSWORD" not in name or name.endswith("_FILE")
            assert "://" not in value
        for secret in service["secrets"]:
            assert compose["secrets"][secret]["file"].startswith("./secrets/")
    assert "/secrets/" in (ROOT / ".gitignore").read_text("utf-8").split()
    assert not any(fnmatch(name, "*PASSWORD*") for name in values("ENV") + values("ARG"))


def test_compose_sets_what_the_server_knows(compose: dict[str, Any]) -> None:
    server = compose["services"]["server"]
    assert set(server["environment"]) <= VARIABLES | SECRET_FILES
    assert server["environment"]["DATABASE_URL_FILE"] == "/run/secrets/database_url"
    assert server["image"].partition(":")[2] == _version()
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    root = server["environment"]["CODEBASE_MCP_ROOTS"]
    assert any(volume.endswith(f":{root}:ro") for volume in server["volumes"])
    assert server["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_compose_keeps_and_restarts_what_it_runs(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["restart"] == "unless-stopped"
        assert set(compose["volumes"]) & {v.partition(":")[0] for v in service["volumes"]}
    postgres = compose["services"]["postgres"]
    assert postgres["image"] == "pgvector/pgvector:pg18"
    assert "postgres-data:/var/lib/postgresql" in postgres["volumes"]
    assert postgres["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]


def test_the_registry_is_told_the_version_of_the_package(registry: dict[str, Any]) -> None:
    (package,) = registry["packages"]
    assert registry["version"] == package["version"] == _version()
    assert package["identifier"] == _project()["name"]


def test_the_registry_entry_follows_the_rules_of_its_schema(registry: dict[str, Any]) -> None:
    """Those of 2025-12-11; the registry refuses an entry that breaks one."""
    assert registry["$schema"].endswith("/schemas/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", registry["name"])
    assert 3 <= len(registry["name"]) <= 200
    assert 1 <= len(registry["title"]) <= 100
    assert 1 <= len(registry["description"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", registry["version"])  # no range, not "latest"
    assert set(registry) == {"$schema", "name", "title", "description", "version", "packages"}
    (package,) = registry["packages"]
    assert package["registryType"] == "pypi"
    assert package["runtimeHint"] == "uvx"
    assert package["transport"] == {"type": "stdio"}
    inputs = {"name", "description", "default", "format", "choices", "placeholder", "isSecret"}
    for variable in package["environmentVariables"]:
        assert {"name"} <= set(variable) <= inputs
        assert variable.get("format", "string") in ("string", "number", "boolean", "filepath")
        default = variable.get("default", "")
        assert isinstance(default, str)
        assert not default or default in variable.get("choices", [default])


def test_the_published_description_proves_whose_the_registry_entry_is(
    registry: dict[str, Any],
) -> None:
    readme = (ROOT / _project()["readme"]).read_text("utf-8")
    assert f"<!-- mcp-name: {registry['name']} -->" in readme


def test_the_registry_knows_the_settings_as_the_program_does(registry: dict[str, Any]) -> None:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    for variable in registry["packages"][0]["environmentVariables"]:
        setting = by_variable[variable["name"]]
        assert variable.get("isSecret", False) == setting.is_secret
        if "default" in variable:
            default = setting.default()
            shown = ",".join(default) if isinstance(default, tuple) else str(default)
            assert variable["default"] == shown


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_settings_and_commands_that_exist(name: str) -> None:
    text = page(name)
    named = set(
        re.findall(r"\b(?:CODEBASE_MCP|DB|OLLAMA|WORKFLOW)_[A-Z_]+\b|\bDATABASE_URL\w*", text)
    )
    assert named <= VARIABLES | SECRET_FILES
    assert named or name == "clients"
    choices = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    commands = set(re.findall(r"`codebase-mcp ([a-z]+(?:-[a-z]+)*)\b", text))
    assert commands <= set(choices or ())


@pytest.mark.parametrize("name", PAGES)
def test_pages_lead_to_files_that_exist(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page(name)):
        assert (ROOT / "docs" / target).exists(), target


def test_every_message_in_troubleshooting_is_one_of_the_program() -> None:
    said = _messages()
    quoted = re.findall(r'"([^"\n]+)"', re.sub(r"`[^`]*`", "", page("troubleshooting")))
    assert len(quoted) > 20
    missing = [message for message in quoted if not any(message in text for text in said)]
    assert missing == []


def test_messages_in_the_other_pages_are_ones_of_the_program() -> None:
    said = _messages()
    for name in ("production", "projects"):
        prose = re.sub(r"```.*?```", "", page(name), flags=re.DOTALL)
        quoted = re.findall(r'"([^"\n]+)"', re.sub(r"`[^`]*`", "", prose))
        assert quoted
        assert [m for m in quoted if not any(m in text for text in said)] == []


@cache
def _messages() -> set[str]:
    """Every text in the program, with … where it differs from case to case."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
                found.add("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.sub(r"\{\w+\}|%[sgd]", "…", node.value))
    return found


def _project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project: dict[str, Any] = content["project"]
    return project


def _version() -> str:
    return str(_project()["version"])
