"""What is read for a commit, what is taken from stored snapshots, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.index.plan import plan_commit, share_of_same
from codebase_mcp.model import FileKind, Listing, SourceFile


def commit_of(hashes: Mapping[str, str]) -> Listing:
    files = tuple(
        SourceFile(path, hashes[path], 1, 0, 0, "python", FileKind.CODE, named_as_source=True)
        for path in sorted(hashes)
    )
    return Listing(Path("/r"), files)


def read_paths(commit: Mapping[str, str], base: Mapping[str, str] | None = None) -> list[str]:
    return [file.path for file in plan_commit(commit_of(commit), {}, base or {}, {}).to_read]


def test_what_the_base_has_is_neither_read_nor_stored() -> None:
    plan = plan_commit(
        commit_of({"a": "1", "b": "2", "d": "4"}), {}, {"a": "1", "b": "0", "c": "3"}, {}
    )
    assert [file.path for file in plan.to_read] == ["b", "d"]
    assert plan.replaced == ("b", "c")
    assert plan.unchanged == 1


def test_what_another_snapshot_has_is_copied() -> None:
    plan = plan_commit(commit_of({"a": "1", "b": "2"}), {}, {}, {7: {"a": "1", "b": "0"}})
    assert plan.copied == {7: ("a",)}
    assert [file.path for file in plan.to_read] == ["b"]


def test_an_interrupted_run_goes_on_from_what_is_stored() -> None:
    plan = plan_commit(commit_of({"a": "1", "b": "2"}), {"a": "1", "gone": "3"}, {}, {})
    assert [file.path for file in plan.to_read] == ["b"]
    assert plan.removed == ("gone",)


def test_below_other_attributes_everything_is_read() -> None:
    before = {"x/.gitattributes": "1", "x/a": "2", "y": "3"}
    assert read_paths({"x/.gitattributes": "9", "x/a": "2", "y": "3"}, before) == [
        "x/.gitattributes",
        "x/a",
    ]
    assert read_paths({"x/a": "2", "y": "3"}, before) == ["x/a"]


def test_a_path_that_cannot_be_stored_is_a_failure() -> None:
    long = "d/" * 1_500 + "a"
    plan = plan_commit(commit_of({long: "1"}), {}, {}, {})
    assert [failure.reason for failure in plan.failures] == ["Path is too long"]
    assert plan.to_read == ()


HASHES = st.dictionaries(
    st.sampled_from(["a", "b", "c/.gitattributes", "c/d"]), st.sampled_from("12")
)


@given(HASHES, HASHES, HASHES, HASHES)
def test_the_plan_leads_to_the_commit(
    wanted: dict[str, str], own: dict[str, str], base: dict[str, str], other: dict[str, str]
) -> None:
    plan = plan_commit(commit_of(wanted), own, base, {7: other})
    result = {path: of for path, of in base.items() if path not in plan.replaced}
    result |= {path: of for path, of in own.items() if path not in plan.removed}
    result |= {path: other[path] for path in plan.copied.get(7, ())}
    result |= {file.path: wanted[file.path] for file in plan.to_read}
    assert result == wanted


def test_the_share_of_files_in_common_counts_those_of_both() -> None:
    assert share_of_same(commit_of({"a": "1", "b": "2"}), {"a": "1"}) == 0.5
    assert share_of_same(commit_of({"a": "1"}), {"a": "1", "b": "2"}) == 0.5
    assert share_of_same(commit_of({}), {}) == 1.0
