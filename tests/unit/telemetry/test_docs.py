"""The documentation names each metric, alert and log field that there is, and no other.

``python -m tests.unit.telemetry.test_docs`` from the root writes the table of metrics anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from codebase_mcp.telemetry.metrics import INSTRUMENTS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "observability.md"
_TABLE = re.compile(r"(<!-- metrics: [^\n]*-->\n).*?(<!-- /metrics -->)", re.DOTALL)


def table() -> str:
    """The metrics, as the page lists them."""
    rows = [
        f"| `{i.name}` | {i.kind} | {', '.join(f'`{label}`' for label in i.labels)} | {i.meaning} |"
        for i in INSTRUMENTS
    ]
    return "\n".join(["| name | kind | labels | what |", "|---|---|---|---|", *rows])


def page_with_table(page: str) -> str:
    """The page with its table made anew."""
    return _TABLE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", page)


def test_the_table_of_metrics_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert _TABLE.search(page)
    assert page_with_table(page) == page, "run python -m tests.unit.telemetry.test_docs"


def test_every_alert_is_documented() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert set(re.findall(r"^\| `(CodebaseMcp\w+)`", PAGE.read_text(), re.MULTILINE)) == alerts


def test_every_log_field_is_documented() -> None:
    used = set(_calls_of("bound")) | {"ts", "level", "logger", "message", "traceback"}
    section = PAGE.read_text(encoding="utf-8").split("## Logs")[1].split("## Traces")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == used | {"trace_id", "span_id"}


def _calls_of(function: str) -> list[str]:
    """The names of the arguments with which the package calls a function."""
    sources = (ROOT / "src").rglob("*.py")
    calls = (re.findall(rf"with {function}\((.*?)\):\n", s.read_text(), re.DOTALL) for s in sources)
    return [name for found in calls for call in found for name in re.findall(r"(\w+)=", call)]


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
