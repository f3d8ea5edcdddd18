"""What a run has to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from codebase_mcp.index.batches import BATCH_BYTES, BATCH_FILES, cut
from codebase_mcp.index.identity import blob_id_of
from codebase_mcp.index.plan import StoredFile, make_plan, trusted_mtime
from codebase_mcp.model import RACY_NS, FileKind, Listing, SourceFile


def make_file(path: str, **more: int) -> SourceFile:
    times = {"size": 10, "mtime_ns": 5, "ctime_ns": 6} | more
    return SourceFile(
        path, Path(path), language="python", kind=FileKind.CODE, named_as_source=True, **times
    )


def stored(file: SourceFile) -> StoredFile:
    return StoredFile(file.path, 1, file.size, file.mtime_ns, file.ctime_ns, "python", "code")


def test_only_what_differs_is_read() -> None:
    same, grown, touched, new = (make_file(name) for name in "abcd")
    before = {
        "a": stored(same),
        "b": stored(replace(grown, size=9)),
        "c": stored(replace(touched, ctime_ns=1)),
        "gone": stored(make_file("gone")),
    }
    plan = make_plan(Listing(Path("/"), (same, grown, touched, new)), before)
    assert [file.path for file in plan.to_read] == ["b", "c", "d"]
    assert (plan.removed, plan.unchanged) == (("gone",), 1)


def test_another_classifier_reads_everything_again() -> None:
    file = make_file("a")
    plan = make_plan(Listing(Path("/"), (file,)), {"a": stored(file)}, same_classifier=False)
    assert plan.to_read == (file,)


def test_attributes_that_change_let_what_is_below_them_be_read_again() -> None:
    inner = [make_file("lib/.gitattributes"), make_file("lib/a"), make_file("lib/b/c")]
    outer = [make_file(".gitattributes"), make_file("d")]
    before = {file.path: stored(file) for file in (*inner, *outer)}

    def read(*files: SourceFile) -> list[str]:
        listing = Listing(Path("/"), tuple(sorted(files, key=lambda file: file.path)))
        return [file.path for file in make_plan(listing, before).to_read]

    assert read(*inner, *outer) == []
    grown = replace(inner[0], size=11)
    assert read(grown, *inner[1:], *outer) == ["lib/.gitattributes", "lib/a", "lib/b/c"]
    assert read(*inner[1:], *outer) == ["lib/a", "lib/b/c"]
    before.pop("lib/.gitattributes")
    assert read(*inner, *outer) == ["lib/.gitattributes", "lib/a", "lib/b/c"]
    before = {}
    assert len(read(*inner, *outer)) == 5


def test_a_path_too_long_to_store_is_a_failure() -> None:
    plan = make_plan(Listing(Path("/"), (make_file("x" * 2001),)), {})
    assert [str(f) for f in plan.failures] == [f"Failed to process {'x' * 2001}: Path is too long"]


def test_the_time_of_a_file_just_touched_proves_nothing() -> None:
    read_at = 10 * RACY_NS
    assert trusted_mtime(make_file("a", mtime_ns=read_at - 1), read_at) == 0
    assert trusted_mtime(make_file("a", ctime_ns=read_at - 1), read_at) == 0
    assert trusted_mtime(make_file("a", mtime_ns=77), read_at) == 77


def test_batches_hold_all_files_in_order_and_stay_small() -> None:
    files = [make_file(f"f{n}", size=n * 700) for n in range(2000)]
    batches = list(cut(files))
    assert [file for batch in batches for file in batch] == files
    assert all(len(batch) <= BATCH_FILES for batch in batches)
    assert all(len(b) == 1 or sum(f.size for f in b) <= BATCH_BYTES for b in batches)


def test_a_blob_id_depends_on_everything_that_its_rows_depend_on() -> None:
    ids = {
        blob_id_of(h, language, generation, version)
        for h in (b"a" * 20, b"b" * 20)
        for language in ("c", "cpp")
        for version in ("1.1.1", "1.1.2")
        for generation in (1, 2)
    }
    assert len(ids) == 16
    assert all(-(2**63) <= number < 2**63 for number in ids)
