"""Exact search in files as they are: complete, with structure, and without secrets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.git import git

from codebase_mcp.app.app import App
from codebase_mcp.app.exact import TextReport
from codebase_mcp.app.freshness.trees import IndexedTrees
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.text_image import TextImages
from codebase_mcp.search.text_pattern import Span, TextMatcher, TextQuery

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"

FILES: dict[str, str | bytes] = {
    "src/retry.py": """\
MAX_RETRIES = 5


class Retry:
    def __init__(self):
        self.limit = MAX_RETRIES

    def wait(self):
        if self.count > MAX_RETRIES:
            raise TimeoutError
        return MAX_RETRIES
""",
    "src/other.py": "from retry import MAX_RETRIES\r\n\r\nprint(MAX_RETRIES)\r\n",
    "tests/test_retry.py": "def test_it():\n    assert MAX_RETRIES\n",
    "docs/guide.md": "# Guide\n\nSet `MAX_RETRIES`.\n",
    "settings.toml": "max_retries = 5\n",
    "vendor/lib.py": "MAX_RETRIES = 1",
    "ignored/x.py": "MAX_RETRIES\n",
    ".gitignore": "ignored/\n",
    "logo.png": b"\x89PNG MAX_RETRIES\0",
}


async def find(app: App, project_id: str, pattern: str, **options: Any) -> TextReport:
    fields = {name: options.pop(name) for name in ("filters", "ref", "limit") if name in options}
    query = TextQuery(pattern, **options)
    return await app.exact.find(TextQuestion(query, **fields), project_id)


def places(report: TextReport) -> dict[str, list[int]]:
    return {m.file.path: [line.number for line in m.lines] for m in report.files}


async def test_every_line_is_found_in_the_order_of_a_reader(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await find(app, project_id, "MAX_RETRIES")
    assert list(places(report).items()) == [
        ("src/retry.py", [1, 6, 9, 11]),
        ("src/other.py", [1, 3]),
        ("tests/test_retry.py", [2]),
        ("docs/guide.md", [3]),
        ("vendor/lib.py", [1]),
    ]
    assert (report.total, report.is_complete) == (9, True)
    assert report.not_searched == {"binary": 1, "ignored": 1}
    first, *others = report.files[0].lines
    assert (first.is_definition, first.text) == (True, "MAX_RETRIES = 5")
    assert [line.definition and line.definition.qualified for line in others] == [
        "Retry.__init__", "Retry.wait", "Retry.wait",
    ]  # fmt: skip
    assert places(await find(app, project_id, "max_retries"))["settings.toml"] == [1]


async def test_filters_and_limits_lose_no_count(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    code = FileFilters(kinds=("code",), directory="src")
    assert list(places(await find(app, project_id, "MAX_RETRIES", filters=code))) == [
        "src/retry.py", "src/other.py",
    ]  # fmt: skip
    report = await find(app, project_id, "MAX_RETRIES", limit=2)
    assert [len(matches.lines) for matches in report.files] == [2, 0, 0, 0, 0]
    assert report.total == 9


async def test_an_edit_is_found_at_once_and_what_is_gone_is_not(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(FILES)
    await app.index(root, project_id)
    assert (await find(app, project_id, "brand_new")).total == 0
    (root / "src" / "new.py").write_text("def f():\n    brand_new()\n")
    (root / "src" / "other.py").unlink()
    (root / "src" / "retry.py").write_text("brand_new = 1\n")
    report = await find_until(app, project_id, "brand_new", 2)
    assert places(report) == {"src/retry.py": [1], "src/new.py": [2]}
    assert "src/other.py" not in places(await find(app, project_id, "MAX_RETRIES"))


async def find_until(app: App, project_id: str, pattern: str, total: int) -> TextReport:
    """Search until a change is noticed, which a check does once a second."""
    for _ in range(100):
        report = await find(app, project_id, pattern)
        if report.total == total:
            return report
        await asyncio.sleep(0.05)
    return report


async def test_what_the_index_lacks_is_read_from_the_disk(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repo(FILES)
    await app.index(root, project_id)

    async def fail(*_: object) -> None:
        raise AssertionError("not indexed")

    monkeypatch.setattr(IndexedTrees, "update_index", fail)
    text = f"brand_new = 1\ntoken = '{TOKEN}'\n\ndef start():\n    return brand_new\n"
    (root / "src" / "new.py").write_text(text)
    report = await find_until(app, project_id, "brand_new", 2)
    assert places(report) == {"src/new.py": [1, 5]}
    within = [line.definition for line in report.files[0].lines]
    assert [definition and definition.qualified for definition in within] == ["brand_new", "start"]
    assert (await find(app, project_id, TOKEN)).total == 0
    [line] = (await find(app, project_id, "token =")).files[0].lines
    assert TOKEN not in line.text


async def test_a_file_that_is_too_large_for_the_index_is_searched(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    large = "x = 1\n" * 200_000 + "needle_at_the_end = 2\n"
    root = make_repo({**FILES, "src/large.py": large, "data/large.csv": large})
    await app.index(root, project_id)
    report = await find(app, project_id, "needle_at_the_end")
    assert places(report) == {"src/large.py": [200_001], "data/large.csv": [200_001]}
    assert report.not_searched == {"binary": 1, "ignored": 1}


async def test_a_secret_can_neither_match_nor_be_shown(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    large = f"token = '{TOKEN}'\n" + "x = 1\n" * 200_000
    root = make_repo({"a.py": f"token = '{TOKEN}'\n", "large.py": large})
    await app.index(root, project_id)
    assert (await find(app, project_id, TOKEN)).total == 0
    assert (await find(app, project_id, f"{TOKEN[:6]}.*{TOKEN[-6:]}", regex=True)).total == 0
    report = await find(app, project_id, "token = ")
    assert len(report.files) == 2
    assert all(TOKEN not in line.text for matches in report.files for line in matches.lines)


async def test_commits_and_changes(app: App, make_repo: MakeRepo, project_id: str) -> None:
    root = make_repo({"a.py": "one = 1\nkept = needle\n", "b.py": "two = needle\n"})
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "tag", "first")
    (root / "a.py").write_text("one = 1\nkept = needle\nnew = needle\n")
    (root / "b.py").unlink()
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "second")
    await app.index(root, project_id)
    assert places(await find(app, project_id, "needle")) == {"a.py": [2, 3]}
    assert places(await find(app, project_id, "needle", ref="first")) == {"a.py": [2], "b.py": [1]}
    report = await find(app, project_id, "needle", ref="first...HEAD")
    assert [
        (m.file.path, line.number, line.is_removed) for m in report.files for line in m.lines
    ] == [("a.py", 3, False), ("b.py", 1, True)]


async def test_images_are_copies_that_may_be_lost(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(FILES)
    await app.index(root, project_id)
    first = await find(app, project_id, "MAX_RETRIES")
    folder = Path(app.settings.data_dir) / "texts"
    [image] = folder.glob(f"project_{project_id.replace('-', '_')}-*.texts")
    assert image.stat().st_mode & 0o777 == 0o600
    image.write_bytes(image.read_bytes()[:-9] + b"damaged!!")
    app.text_images.forget("nothing")
    assert places(await find(app, project_id, "MAX_RETRIES")) == places(first)
    image.unlink()
    assert places(await find(app, project_id, "MAX_RETRIES")) == places(first)
    await app.drop_project(project_id)
    assert not image.exists()


async def test_a_folder_that_cannot_be_written_costs_time_alone(
    app: App, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    await app.index(make_repo(FILES), project_id)
    (tmp_path / "file").touch()
    app.exact._images = TextImages(tmp_path / "file" / "texts")
    assert (await find(app, project_id, "MAX_RETRIES")).total == 9


async def test_texts_beside_an_image_are_found_until_it_is_made_anew(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repo({f"f{n}.py": f"value_{n} = needle\n" for n in range(10)})
    await app.index(root, project_id)
    assert (await find(app, project_id, "needle")).total == 10
    [image] = (Path(app.settings.data_dir) / "texts").glob(f"*{project_id[5:]}*.texts")
    before = image.stat().st_ino
    (root / "f3.py").write_text("value = needle\nneedle\n")
    assert (await find_until(app, project_id, "needle", 11)).files[3].count == 2
    assert image.stat().st_ino == before
    monkeypatch.setattr("codebase_mcp.search.text_image._MOST_BESIDE", 0)
    (root / "f4.py").write_text("value = needle\nneedle\n")
    assert (await find_until(app, project_id, "needle", 12)).total == 12
    assert image.stat().st_ino != before


async def test_time_that_is_not_enough_is_said(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.index(make_repo(FILES), project_id)
    monkeypatch.setattr("codebase_mcp.app.exact.MAX_SCAN_S", -1.0)
    report = await find(app, project_id, "MAX_RETRIES")
    assert (report.total, report.is_complete) == (0, False)


async def test_a_cancelled_search_ends_its_scan(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.index(make_repo(FILES), project_id)
    began, ended = threading.Event(), threading.Event()

    def endless(_: TextMatcher, _text: bytes, check: Callable[[], None]) -> Iterator[Span]:
        began.set()
        try:
            while True:
                check()
        finally:
            ended.set()
        yield 0, 0

    monkeypatch.setattr(TextMatcher, "spans", endless)
    monkeypatch.setattr("codebase_mcp.app.exact.MAX_SCAN_S", 600.0)
    task = asyncio.create_task(find(app, project_id, "MAX_RETRIES"))
    assert await asyncio.to_thread(began.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 30)


async def test_the_lines_are_those_of_git_grep(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(FILES)
    git(root, "init", "--quiet")
    git(root, "add", "src", "tests", "docs", "vendor", "settings.toml", ".gitignore")
    await app.index(root, project_id)
    for pattern in ("MAX_RETRIES", "self", "import .*RETRIES", "^class", "[a-z]+_it", "5$"):
        listed = git(root, "grep", "-n", "-E", pattern)
        theirs = {tuple(line.split(":", 2)[:2]) for line in listed.splitlines()}
        report = await find(app, project_id, pattern, regex=True, ignore_case=False, limit=500)
        ours = {(path, str(n)) for path, numbers in places(report).items() for n in numbers}
        assert ours == theirs
