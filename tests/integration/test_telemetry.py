"""What real server processes tell: spans to a collector over OTLP, logs, one page of metrics."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from codebase_mcp.settings.loading import Settings

COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]
REST_TRACE, MCP_TRACE, CALLER = "1" * 32, "2" * 32, "3" * 16
QUERY = "authenticate a user by a passphrase"


class Collector:
    """Takes spans in; ``spans`` are those that have arrived."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.services.add(attribute.value.string_value)
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def of_trace(self, trace_id: str) -> dict[str, Span]:
        """The spans of a trace by their names."""
        return {s.name: s for s in self.spans if s.trace_id.hex() == trace_id}


def attributes(span: Span) -> dict[str, str]:
    return {a.key: a.value.string_value for a in span.attributes}


@contextmanager
def server(
    settings: Settings, *flags: str, **environment: str
) -> Iterator[tuple[str, Callable[[], str]]]:
    """The address of a server process, and how to end it: that gives what it logged."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--transport", "http", "--port", "0", *flags],
        env={
            **os.environ,
            "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
            "CODEBASE_MCP_LOG_FORMAT": "json",
            "CODEBASE_MCP_LOG_LEVEL": "INFO",
            **environment,
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    logged: list[str] = []

    def end() -> str:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
        return "".join([*logged, rest])

    try:
        assert process.stderr is not None
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "the server ended"
            logged.append(line)
            found = re.search(r"serves (http://\S+)/mcp", line)
        yield found[1], end
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def post(address: str, tool: str, **arguments: Any) -> httpx2.Response:
    headers = {"traceparent": f"00-{REST_TRACE}-{CALLER}-01"}
    async with httpx2.AsyncClient(timeout=60) as client:
        return await client.post(f"{address}/tools/{tool}", json=arguments, headers=headers)


@pytest.mark.anyio
async def test_a_call_is_part_of_its_callers_trace_with_the_steps_below_it(
    settings: Settings, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = str(make_repo())
    with (
        Collector() as collector,
        server(settings, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as (address, end),
    ):
        indexed = await post(address, "index_repository", repo_path=root, project_id=project_id)
        assert indexed.is_success, indexed.text
        assert (await post(address, "search_code", query="")).status_code == 400
        for mode in ("auto", "legacy"):
            async with Client(f"{address}/mcp", mode=mode) as client:
                await client.call_tool(
                    "search_code",
                    {"query": QUERY, "project_id": project_id},
                    meta={"traceparent": f"00-{MCP_TRACE}-{CALLER}-01"},
                )
        log = end()

    assert collector.services == {"codebase-mcp"}
    of_rest, of_mcp = collector.of_trace(REST_TRACE), collector.of_trace(MCP_TRACE)

    call = of_rest["tools/call index_repository"]
    assert call.kind == Span.SPAN_KIND_SERVER
    assert call.parent_span_id.hex() == CALLER
    assert of_rest["index"].parent_span_id == call.span_id
    for step in ("list", "plan", "read", "prepare", "store", "finish"):
        assert of_rest[f"index {step}"].trace_id == call.trace_id
    assert of_rest["postgresql"].kind == Span.SPAN_KIND_CLIENT

    refused = of_rest["tools/call search_code"]
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert attributes(refused)["error.type"] == "VALIDATION_ERROR"

    requests = [
        s
        for s in collector.spans
        if s.trace_id.hex() == MCP_TRACE and s.kind == Span.SPAN_KIND_SERVER
    ]
    assert len(requests) == 2, "a call has one span, not ours beside FastMCP's"
    assert {attributes(s)["gen_ai.tool.name"] for s in requests} == {"search_code"}
    assert of_mcp["search"].parent_span_id in [s.span_id for s in requests]
    for step in ("scope", "embed", "candidates", "ranking", "texts"):
        assert of_mcp[f"search {step}"].trace_id.hex() == MCP_TRACE

    assert not [s.name for s in collector.spans if "passphrase" in str(s) or "hashlib" in str(s)]

    lines = [json.loads(line) for line in log.splitlines()]
    calls = [line for line in lines if line.get("tool") == "search_code"]
    assert [line["trace_id"] for line in calls if line["outcome"] == "ok"] == [MCP_TRACE] * 2
    assert "passphrase" not in log


@pytest.mark.anyio
async def test_a_collector_that_is_away_disturbs_nobody(settings: Settings) -> None:
    with server(settings, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9") as (address, end):
        assert (await post(address, "search_code", query="")).status_code == 400
        log = end()
    assert all(json.loads(line) for line in log.splitlines())
    assert "Traceback" not in log


@pytest.mark.anyio
async def test_each_of_several_workers_shows_what_all_of_them_counted(settings: Settings) -> None:
    calls = 'codebase_mcp_tool_calls_total{outcome="error",tool="search_code"} 12.0'
    with server(settings, "--http-workers", "2") as (address, end):
        for _ in range(12):
            assert (await post(address, "search_code", query="")).status_code == 400
        pages = []
        for _ in range(6):
            async with httpx2.AsyncClient() as client:
                pages.append((await client.get(f"{address}/metrics")).text)
        end()
    assert all(calls in page for page in pages)
    assert all(re.search(r"^codebase_mcp_build_info\{.*\} [12]\.0$", p, re.M) for p in pages)
    if sys.platform == "linux":
        assert all("process_resident_memory_bytes " in page for page in pages)


def test_over_stdio_only_json_is_logged_and_only_the_protocol_printed(settings: Settings) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search_code"}}
    process = subprocess.Popen(
        [*COMMAND, "serve"],
        env={
            **os.environ,
            "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
            "CODEBASE_MCP_LOG_FORMAT": "json",
            "CODEBASE_MCP_LOG_LEVEL": "DEBUG",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    for message in (request, initialized, call):
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    printed, log = process.communicate(timeout=30)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert printed == ""
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["logger"] for line in lines} & {"codebase_mcp.telemetry.calls"}


def test_without_the_extra_the_server_says_what_to_install(settings: Settings) -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk.trace'] = None;"
        "from codebase_mcp.cli.main import run; sys.exit(run(['serve']))"
    )
    environment = {
        **os.environ,
        "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'codebase-mcp[otel]'" in done.stderr
    assert "Traceback" not in done.stderr
