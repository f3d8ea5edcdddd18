"""``/openapi.json``: right in form, complete, and true of the server that it describes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi import checks
from tests.web.conftest import serving

from codebase_mcp.database.connection import Embedded
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.web.answers import STATUSES
from codebase_mcp.web.http import describe

# What a schema cannot say is refused with 400 (a path that must exist); what it forbids may be
# accepted (an object as text, the older names). So those two checks do not apply.
NOT_SAID = [checks.positive_data_acceptance, checks.negative_data_rejection]
EXAMPLES = examples(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only directory that may be indexed here."""
    root = tmp_path_factory.mktemp("indexed")
    (root / "auth.py").write_text("def authenticate(user):\n    return user.is_known\n")
    return root


@pytest.fixture(scope="module")
def address(scratch: Path, root: Path) -> Iterator[str]:
    """The product on a port, in a thread, as what asks is not asynchronous; on its own database,
    as what is asked leaves traces."""
    folder = Path(tempfile.mkdtemp(prefix="cbm-", dir=scratch))
    folder.chmod(0o755)
    target = Embedded(folder / "data", idle_minutes=0.001)
    variables = {
        "CODEBASE_MCP_DATA_DIR": str(target.data_dir),
        "CODEBASE_MCP_IDLE_MINUTES": "0.001",
    }
    settings = Settings.load(variables, toolsets="all", port="0")
    ready: Future[str] = Future()
    ended = threading.Event()

    async def serve() -> None:
        async with serving(settings) as server:
            await (await server.holder.get()).index(root)
            ready.set_result(server.address)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    yield ready.result(timeout=60)
    ended.set()
    thread.join()
    EmbeddedServer(target).wait_until_ended()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def schema(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


OPERATIONS = [
    (path, method.upper())
    for path, operations in describe(tools_of(TOOLSETS))["paths"].items()
    for method in operations
]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_server_does_what_its_description_says(
    schema: Any, root: Path, path: str, method: str, mode: GenerationMode
) -> None:
    if method == "GET" and mode == GenerationMode.NEGATIVE:
        return  # nothing can be said wrongly

    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    @EXAMPLES
    def ask(case: Case) -> None:
        keep_to(root, case.body)
        case.call_and_validate(excluded_checks=NOT_SAID)

    ask()


def keep_to(root: Path, body: Any) -> None:
    """Let nothing be indexed but the directory that is there for it."""
    if isinstance(body, dict) and isinstance(body.get("repo_path"), str):
        body["repo_path"] = str(root / body["repo_path"].strip("/. "))


def test_every_tool_shown_is_described_and_no_other() -> None:
    for toolsets in (("code",), ("tasks", "memory"), TOOLSETS):
        document = describe(tools_of(toolsets))
        described = {path for path in document["paths"] if path.startswith("/tools/")}
        assert described == {f"/tools/{spec.name}" for spec in tools_of(toolsets)}


def test_requests_are_described_as_over_mcp_and_errors_by_their_shape() -> None:
    document = describe(tools_of(("code",)))
    operation = document["paths"]["/tools/search_code"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["query"]
    assert {"type": "null"} in body["properties"]["project_id"]["anyOf"]
    assert set(operation["responses"]) == {
        "200", "400", "401", "403", "404", "409", "413", "415", "421", "429", "500", "503",
    }  # fmt: skip
    for status in ("429", "503"):
        assert "Retry-After" in document["components"]["responses"][status]["headers"]
    shape = document["components"]["schemas"]["ErrorShape"]
    assert set(shape["required"]) == {"code", "type", "message"}


def test_every_reference_resolves_and_every_schema_is_valid() -> None:
    document = describe(tools_of(TOOLSETS))
    for reference in references(document):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    for described in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(described)


def test_the_documentation_names_every_path_and_every_error() -> None:
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    paths = [*describe([])["paths"], "/mcp", "/sse", "/tools/{name}"]
    assert [path for path in paths if f"{path}`" not in text] == []
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ")}
    for code, status in STATUSES.items():
        assert code in rows[str(status)]


def references(part: Any) -> Iterator[str]:
    """Every ``$ref`` below a part of the document."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from references(inner)
