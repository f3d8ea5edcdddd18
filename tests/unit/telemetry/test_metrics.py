"""The page of metrics: what is on it, and that it costs nothing where nobody asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.telemetry.conftest import Page, read_page

from codebase_mcp.telemetry import metrics
from codebase_mcp.telemetry.metrics import Counter, Gauge, Histogram


def test_nothing_is_counted_until_somebody_asks_for_it() -> None:
    metrics.disable()
    metrics.TOOL_CALLS.add("search_code", "ok")
    metrics.TOOL_CALLS_IN_PROGRESS.set(3)
    metrics.TOOL_CALL_DURATION.observe(1.0, "search_code")
    content_type, page = metrics.render()
    assert content_type.startswith("text/plain")
    assert page == b""
    metrics.enable()
    try:
        assert read_page(metrics.render()[1].decode())[("tool_calls_in_progress", ())] == 0
    finally:
        metrics.disable()


def test_a_server_on_stdio_imports_no_library_for_metrics_or_traces() -> None:
    program = (
        "import sys, codebase_mcp.tools.server, codebase_mcp.cli.main, codebase_mcp.cli.serve;"
        "print([m for m in sys.modules if m.startswith(('prometheus', 'opentelemetry.sdk'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_each_instrument_says_what_it_counts(page: Callable[[], Page]) -> None:
    metrics.TOOL_CALLS.add("search_code", "ok")
    metrics.TOOL_CALLS.add("search_code", "ok", amount=2)
    metrics.INDEX_FILES_PENDING.set(7)
    metrics.INDEX_FILES_PENDING.add(amount=-2)
    metrics.TOOL_CALL_DURATION.observe(0.03, "search_code")
    seen = page()
    assert seen["tool_calls_total", (("outcome", "ok"), ("tool", "search_code"))] == 3
    assert seen["index_files_pending", ()] == 5
    bucket = "tool_call_duration_seconds_bucket"
    assert seen[bucket, (("le", "0.025"), ("tool", "search_code"))] == 0
    assert seen[bucket, (("le", "0.05"), ("tool", "search_code"))] == 1
    assert seen["tool_call_duration_seconds_sum", (("tool", "search_code"),)] == 0.03


def test_the_page_tells_version_and_process(page: Callable[[], Page]) -> None:
    names = {name for name, _ in page()}
    assert "build_info" in names
    if sys.platform == "linux":
        assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= names


def test_enabling_again_forgets_nothing(page: Callable[[], Page]) -> None:
    metrics.INDEX_CHUNKS.add(amount=5)
    metrics.enable()
    assert page()["index_chunks_total", ()] == 5


@pytest.mark.parametrize("instrument", metrics.INSTRUMENTS, ids=lambda i: i.name)
def test_names_and_labels_follow_the_rules_of_prometheus(
    instrument: Counter | Gauge | Histogram,
) -> None:
    assert instrument.name.startswith("codebase_mcp_")
    assert instrument.name.endswith("_total") == (instrument.kind == "counter")
    assert instrument.name.endswith("_seconds") == (instrument.kind == "histogram")
    assert not {"project", "path", "query", "id"} & set(instrument.labels)
    assert instrument.meaning.endswith(".")


_WORKER = """
import os, sys
from pathlib import Path
from codebase_mcp.settings.loading import share_metrics_in
folder = Path(sys.argv[1])
share_metrics_in(folder)
from codebase_mcp.telemetry import metrics
metrics.enable(folder)
metrics.TOOL_CALLS.add("search_code", "ok", amount=int(sys.argv[2]))
metrics.TOOL_CALLS_IN_PROGRESS.add(amount=int(sys.argv[2]))
metrics.TOOL_CALL_DURATION.observe(0.2, "search_code")
metrics.DATABASE_POOL_CONNECTIONS.set(2, "idle")
print("ready", flush=True)
sys.stdin.readline()
sys.stdout.write(metrics.render()[1].decode())
"""


def start_worker(folder: Path, amount: int) -> subprocess.Popen[str]:
    # A folder that the user shares for another program is not ours to write to.
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": "/nowhere"}
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(folder), str(amount)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def test_any_of_several_processes_shows_the_sum_of_all(tmp_path: Path) -> None:
    first, second = start_worker(tmp_path, 1), start_worker(tmp_path, 10)
    alone = read_page(second.communicate("\n")[0])
    metrics.process_ended(tmp_path, second.pid)
    after = read_page(first.communicate("\n")[0])

    ok = ("tool_calls_total", (("outcome", "ok"), ("tool", "search_code")))
    assert alone[ok] == after[ok] == 11
    assert alone["tool_calls_in_progress", ()] == 11
    assert after["tool_calls_in_progress", ()] == 1
    assert alone["database_pool_connections", (("state", "idle"),)] == 4
    assert after["tool_call_duration_seconds_count", (("tool", "search_code"),)] == 2
    if sys.platform == "linux":
        memory = ("process_resident_memory_bytes", ())
        assert alone[memory] > 1.5 * after[memory] > 0
