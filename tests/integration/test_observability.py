"""What is shipped for Prometheus and Grafana speaks of what the server really exposes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.web.conftest import running

from codebase_mcp import telemetry
from codebase_mcp.errors import CodebaseError
from codebase_mcp.settings.loading import Settings
from codebase_mcp.telemetry import metrics
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.web.http import make_asgi_app

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "codebase-mcp.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS: list[dict[str, Any]] = [p for p in DASHBOARD["panels"] if p["type"] != "row"]

# What Prometheus itself adds to every series, and the series that it makes of each scrape.
ADDED = {"job", "instance"}
MADE = {"up": ADDED}

Exposed = dict[str, set[str]]


@dataclass(frozen=True, slots=True)
class Selected:
    """A series that an expression selects: its name, and the labels that it is matched by."""

    name: str
    matchers: dict[str, str]


class Expression:
    """A PromQL expression: the series that it reads, and the labels that it groups by."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.selected: list[Selected] = []
        self.grouped: set[str] = set()
        promql.walk(promql.parse(text.replace("$__rate_interval", "5m")), self._visit)

    def _visit(self, node: promql.Expr) -> None:
        if isinstance(node, promql.MatrixSelector):
            self._visit(node.vector_selector)
        elif isinstance(node, promql.VectorSelector):
            matchers = {m.name: m.value for m in node.matchers.matchers}
            assert node.name is not None
            self.selected.append(Selected(node.name, matchers))
        elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            self.grouped |= set(node.modifier.labels)


def panel_expressions() -> Iterator[tuple[str, str, str]]:
    """Panel, expression and legend."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.fixture
async def exposed(
    anyio_backend: str,
    settings: Settings,
    project_id: str,
    make_repo: Callable[..., Path],
    tmp_path: Path,
) -> AsyncIterator[Exposed]:
    """Each series that /metrics shows after a day's work, with its labels."""
    metrics.disable()
    telemetry.enable()
    (tmp_path / "ollama").mkdir()
    away = replace(settings, toolsets=("code", "memory"), ollama_url="http://127.0.0.1:9")
    here = {"repo_path": str(make_repo()), "project_id": project_id}
    async with running(make_asgi_app(settings)) as client:
        assert (await call(client, "index_repository", here)).is_success
        for query in ("authenticate a user", ""):
            await call(client, "search_code", {"query": query, "project_id": project_id})
        page = await client.get("/metrics")
    remember = {"operation": "store", "content": "x", "observation_type": "Insight"}
    async with running(make_asgi_app(away)) as client:
        failed = await call(client, "memory", {**remember, "project_id": project_id})
        assert failed.json()["error"]["code"] == "EMBEDDING_ERROR"
        page = await client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    series: Exposed = {name: set(labels) for name, labels in MADE.items()}
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            series.setdefault(sample.name, set()).update(sample.labels)
    yield series
    metrics.disable()


async def call(client: httpx2.AsyncClient, tool: str, arguments: dict[str, Any]) -> httpx2.Response:
    return await client.post(f"/tools/{tool}", json=arguments)


@pytest.mark.anyio
async def test_dashboard_and_alerts_name_only_what_the_server_exposes(exposed: Exposed) -> None:
    texts = [expr for _, expr, _ in panel_expressions()] + [rule["expr"] for rule in RULES]
    for expression in map(Expression, texts):
        assert expression.selected, expression.text
        for selected in expression.selected:
            assert selected.name in exposed, (selected.name, expression.text)
            labels = exposed[selected.name] | ADDED
            assert set(selected.matchers) <= labels, (selected, expression.text)
            assert expression.grouped <= labels, (selected, expression.text)
    for variable in DASHBOARD["templating"]["list"][1:]:
        asked = re.fullmatch(r"label_values\((\w+)(\{.*\})?, (\w+)\)", variable["query"]["query"])
        assert asked is not None and asked[3] in exposed[asked[1]] | ADDED
    shown = {s.name for text in texts for s in Expression(text).selected}
    for instrument in metrics.INSTRUMENTS:
        series = {instrument.name, f"{instrument.name}_bucket"} & exposed.keys()
        assert series & shown, f"{instrument.name} is on no panel"


def test_matched_values_exist() -> None:
    known = {
        "tool": {tool.name for tool in all_tools()},
        "code": {kind.code for kind in CodebaseError.__subclasses__()},
        "result": {"hit", "miss"},
        "status": {"success", "partial", "failed", "cancelled"},
        "job": {"codebase-mcp"},
    }
    texts = [expr for _, expr, _ in panel_expressions()] + [rule["expr"] for rule in RULES]
    for selected in (s for text in texts for s in Expression(text).selected):
        for label, value in selected.matchers.items():
            if not value.startswith("$"):
                assert set(value.split("|")) <= known[label], selected


def test_legends_name_labels_that_are_kept() -> None:
    for title, expr, legend in panel_expressions():
        named = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
        assert named <= Expression(expr).grouped, title


def test_the_dashboard_can_be_imported_anywhere() -> None:
    assert "__inputs" not in DASHBOARD and DASHBOARD["id"] is None
    assert DASHBOARD["templating"]["list"][0]["name"] == "datasource"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    cells = [
        (x, y)
        for p in DASHBOARD["panels"]
        for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
        for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Traffic", "Errors", "Latency", "Search", "Indexing", "Database pool", "Embedding",
        "Process",
    ]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_how_bad(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description"}
    kept = ADDED | Expression(rule["expr"]).grouped
    named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    assert named <= kept
