"""Statements are read by name, with fragments and numbers written into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from codebase_mcp.database.queries import load_queries, write_numbers

Load = Callable[[str], Mapping[str, str]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a text as the SQL file of a package."""
    package = f"package_{uuid4().hex}"
    folder = tmp_path / package
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    def load_text(text: str) -> Mapping[str, str]:
        (folder / "some.sql").write_text(text, encoding="utf-8")
        return load_queries(package, "some.sql")

    return load_text


def test_a_fragment_is_written_into_the_statements_that_name_it(load: Load) -> None:
    queries = load(
        "-- fragment: is_new\n-- Whether a row is new.\nage < %(most)s\n"
        "-- fragment: is_found\n{is_new} AND found\n"
        "-- name: new\nSELECT 1 WHERE {is_new};\n"
        "-- name: found\nSELECT 2 WHERE {is_found} AND {id} = 0;\n"
    )
    assert queries == {
        "new": "SELECT 1 WHERE age < %(most)s",
        "found": "SELECT 2 WHERE age < %(most)s AND found AND {id} = 0",
    }


def test_a_statement_has_the_variants_of_its_fragment(load: Load) -> None:
    queries = load(
        "-- fragment: is_new\nage < 1\n"
        "-- fragment: chosen\n{is_new}\n"
        "-- fragment: chosen/by_name\n{is_new} AND name\n"
        "-- name: rows\nSELECT {chosen}, {is_new};\n-- name: other\nSELECT {is_new};"
    )
    assert queries == {
        "rows": "SELECT age < 1, age < 1",
        "rows_by_name": "SELECT age < 1 AND name, age < 1",
        "other": "SELECT age < 1",
    }


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;\n-- name: one\nSELECT 1;",
        "-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;",
        "-- name: one\n-- Nothing.\n",
        "-- fragment: one\n\n-- name: two\nSELECT 1;",
        "-- fragment: one\na\n-- fragment: one\nb\n-- name: two\nSELECT 1;",
    ],
)
def test_a_file_with_a_statement_too_many_or_too_few_is_refused(load: Load, text: str) -> None:
    with pytest.raises(ValueError, match=r"some\.sql"):
        load(text)


def test_numbers_are_written_where_a_statement_names_them() -> None:
    statement = "SELECT d::halfvec({dimension}) <#> %(v)s::halfvec({dimension}), '{}' WHERE p={id}"
    written = write_numbers(statement, dimension=256, id=7)
    assert written == "SELECT d::halfvec(256) <#> %(v)s::halfvec(256), '{}' WHERE p=7"


@pytest.mark.parametrize("numbers", [{}, {"id": 1}, {"id": 1, "dimension": 2, "sealed": 3}])
def test_a_number_without_a_place_is_refused_and_the_reverse(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="dimension"):
        write_numbers("SELECT {dimension} WHERE id = {id}", **numbers)
