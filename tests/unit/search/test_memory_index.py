"""Words, orders and filters of a memory index, against their plain definitions."""

from __future__ import annotations

import re
import struct
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.index import rows
from codebase_mcp.search.index_reading import _sparse
from codebase_mcp.search.memory_index import IndexedFile, Postings
from codebase_mcp.search.memory_lists import _highest
from codebase_mcp.search.scope import FileFilters

WEIGHTS = st.floats(0.125, 4.0, width=16)
TEXTS = st.lists(st.dictionaries(st.integers(0, 999_999_999), WEIGHTS, max_size=6), max_size=6)


def as_sent(text: dict[int, float]) -> bytes:
    """A sparse vector as ``sparsevec_send`` gives it; COPY has its length before it."""
    terms = np.array(sorted(text), np.int64)
    weights = np.array([text[term] for term in terms.tolist()], np.float32)
    with_length = rows.sparse_vector(terms, weights)
    assert struct.unpack_from(">i", with_length)[0] == len(with_length) - 4
    return with_length[4:]


@given(TEXTS, st.dictionaries(st.integers(0, 999_999_999), WEIGHTS, max_size=4))
def test_a_score_is_the_inner_product_and_0_for_other_rows(
    texts: list[dict[int, float]], other: dict[int, float]
) -> None:
    known = {term: 1.5 for text in texts for term in list(text)[:2]}
    query = other | known
    postings = Postings.collect(*_sparse(map(as_sent, texts)))
    among = np.arange(len(texts)) % 3 != 1
    expected = [
        sum(weight * text.get(term, 0.0) for term, weight in query.items()) if is_asked else 0.0
        for text, is_asked in zip(texts, among.tolist(), strict=True)
    ]
    scores = postings.score(query, among)
    assert scores.tolist() == pytest.approx(expected, rel=1e-3)


@given(TEXTS)
def test_every_row_of_a_term_is_found(texts: list[dict[int, float]]) -> None:
    postings = Postings.collect(*_sparse(map(as_sent, texts)))
    terms = {term for text in texts for term in text} | {5}
    found = dict(zip(terms, postings.rows_of(terms), strict=True))
    for term in terms:
        assert found[term].tolist() == [n for n, text in enumerate(texts) if term in text]


@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(1, 45))
def test_the_highest_come_first_and_of_equals_the_first(scores: list[int], most: int) -> None:
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    assert _highest(np.array(scores, np.float32), most).tolist() == order[:most]


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        (FileFilters(), ["src/a.py", "src/sub/b.go", "src2/c.py"]),
        (FileFilters(directory="src"), ["src/a.py", "src/sub/b.go"]),
        (FileFilters(directory="src/*"), ["src/a.py", "src/sub/b.go"]),
        (FileFilters(directory="**/sub"), ["src/sub/b.go"]),
        (FileFilters(extensions=("py",)), ["src/a.py", "src2/c.py"]),
        (FileFilters(extensions=("py",), directory="src"), ["src/a.py"]),
        (FileFilters(languages=("go",)), ["src/sub/b.go"]),
        (FileFilters(kinds=("test",)), ["src2/c.py"]),
        (FileFilters(repository_id=uuid4()), []),
    ],
)
def test_filters_mean_what_they_mean_in_the_database(
    filters: FileFilters, passing: list[str]
) -> None:
    repository = uuid4()
    files = [
        IndexedFile(1, repository, path, 0, language, kind, re.sub(r".*\.", "", path))
        for path, language, kind in [
            ("src/a.py", "python", "code"),
            ("src/sub/b.go", "go", "code"),
            ("src2/c.py", "python", "test"),
        ]
    ]
    passes = filters.test()
    assert [
        f.path for f in files if passes(f.repository_id, f.path, f.extension, f.language, f.kind)
    ] == passing
