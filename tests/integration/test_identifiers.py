"""A query that is one name finds the only place that has it, whatever kind of file that is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App

# Tables of numbers, which mean something like any name with digits and share its parts.
NUMBERS = {
    f"src/entities{n}.py": f"# Marks by number, {n}\nMARK_{n}_Z = {{\n"
    + "".join(f"    'z{m}': 0x{m},  # U+{m} z {m % 7} mark 2033\n" for m in range(2000, 2060))
    + "}\n"
    for n in range(40)
}
OTHER_TESTS = "".join(
    f"class Shipping{kind}:\n"
    f'    """Parcels go by {kind} unless the customer lives on an island."""\n\n'
    f"    def test_customers_get_their_parcels(self, customer, parcel):\n"
    f"        assert customer.address.island or parcel.is_delivered_by({kind!r})\n\n\n"
    for kind in ("Train", "Ship", "Bicycle", "Donkey", "Drone", "Van")
)

FILES = {
    **NUMBERS,
    "tests/test_sizes.py": OTHER_TESTS + "def frmark0z2033():\n    return None\n",
    "tests/test_cases.py": OTHER_TESTS + "class ZeroCase2033:\n    pass\n",
    "deploy/values.yaml": "retries: 3\nqueue_depth_2033: 0\n",
    "docs/legacy/notes.md": "# Notes\n\nFrames and frames again.\n" * 9 + "\nThe zugzwang.\n",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("frmark0z2033", "tests/test_sizes.py"),  # defined once, in a test
        ("ZeroCase2033", "tests/test_cases.py"),
        ("queue_depth_2033", "deploy/values.yaml"),  # occurs once, defined by no code
        ("zugzwang", "docs/legacy/notes.md"),  # a plain word that occurs once
        ("MARK_7_Z", "src/entities7.py"),
    ],
)
async def test_one_name_finds_its_only_place_first(
    app: App, make_repo: Callable[..., Path], project_id: str, query: str, path: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await app.search(query, project_id)
    first = report.answer.hits[0]
    assert first.file_path == path
    assert first.similarity_score > 0.9
