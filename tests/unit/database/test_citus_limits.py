"""Citus must be able to run what is asked of a project's tables; `make citus` tries it for real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import codebase_mcp
from codebase_mcp.database.queries import load_queries

PACKAGE = Path(codebase_mcp.__file__).parent
CATALOGUE = {"queue.sql"}
_CHANGING = re.compile(r"(\w+) AS (?:MATERIALIZED )?\(\s*(?:INSERT|UPDATE|DELETE)\b")
_VOLATILE = re.compile(r"\b(?:clock_timestamp|gen_random_uuid|random)\(\)")


def statements() -> Iterator[tuple[str, str]]:
    """The statements of the rooms that write to a project's tables, each with its name."""
    for room in ("index", "records", "app"):
        for file in sorted((PACKAGE / room).glob("*.sql")):
            if file.name not in CATALOGUE:
                for name, text in load_queries(f"codebase_mcp.{room}", file.name).items():
                    yield f"{file.name}:{name}", text


def faults(text: str) -> Iterator[str]:
    """What Citus would refuse or leave out of a statement."""
    for part in _CHANGING.findall(text):
        if len(re.findall(rf"\b{part}\b", text)) < 2:
            yield f"{part}: Citus leaves out what nothing reads"
    if re.search(r"^UPDATE |DO UPDATE|\(\s*UPDATE ", text) and _VOLATILE.search(text):
        yield "volatile functions are refused in updates"
    if re.search(r"\bnow\(\)", text.partition("DO UPDATE")[2]):
        yield "DO UPDATE takes excluded.column, no function of the time"
    if re.search(r"VALUES \([^;]*\(SELECT", text):
        yield "subqueries are refused in VALUES"
    if "ROW(" in text:
        yield "anonymous rows cannot be read from a worker"


def test_citus_can_run_the_statements_of_projects_as_a_whole() -> None:
    found = {name: list(faults(text)) for name, text in statements()}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_each_of_these_faults_is_seen() -> None:
    for text in (
        "WITH new AS (INSERT INTO a VALUES (1)) SELECT 1",
        "UPDATE a SET at = clock_timestamp()",
        "INSERT INTO a VALUES (1) ON CONFLICT (id) DO UPDATE SET at = now()",
        "INSERT INTO a VALUES ((SELECT 1))",
        "SELECT ARRAY(SELECT ROW(a.b) FROM a)",
    ):
        assert len(list(faults(text))) == 1, text
