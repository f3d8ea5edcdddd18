"""Searches by definition: each file once, by the function, class or section that answers."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app import searching
from codebase_mcp.app.app import App
from codebase_mcp.cli.main import run
from codebase_mcp.database.server import Embedded
from codebase_mcp.search.search import Request
from codebase_mcp.tools.replies.search import search_text

LONG = "".join(f"        total += self.rates[{n}] * days\n" for n in range(60))
FILES = {
    "src/hotel.py": "import datetime\n\nLIMIT = 30\n\n\n"
    'class Hotel:\n    """Rooms and guests."""\n\n'
    "    def price_of_stay(self, days):\n"
    '        """What a guest pays, by the rates of the season."""\n'
    f"        total = 0\n{LONG}        return total\n\n"
    "    def check_out(self, guest):\n"
    '        """Say goodbye and free the room."""\n'
    "        guest.room.is_free = True\n",
    "docs/guide.md": "# Guide\n\nWelcome.\n\n## Checking out\n\nGuests leave by eleven.\n\n"
    "## Breakfast\n\nFrom seven.\n",
    "copy/hotel.py": "",
}
FILES["copy/hotel.py"] = FILES["src/hotel.py"]
BY_DEFINITION = Request(by_definition=True)


@pytest.mark.parametrize(
    ("query", "symbol", "first", "last"),
    [
        ("what does a guest pay by the season", "Hotel.price_of_stay", 9, 72),
        ("check_out", "Hotel.check_out", 74, 76),
    ],
)
async def test_a_hit_is_the_definition_that_holds_the_place_with_its_true_range(
    app: App,
    make_repo: Callable[..., Path],
    project_id: str,
    query: str,
    symbol: str,
    first: int,
    last: int,
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await app.search(query, project_id, BY_DEFINITION)
    hit = next(hit for hit in report.answer.hits if hit.file_path.endswith("hotel.py"))
    assert (hit.symbol, hit.start_line, hit.end_line) == (symbol, first, last)
    assert hit.content == "".join(FILES["src/hotel.py"].splitlines(keepends=True)[first - 1 : last])
    assert set(hit.matching_lines) <= set(range(first, last + 1))
    assert len(hit.also_at) == 1
    assert report.answer.file_count == len(report.answer.hits)


async def test_in_a_document_it_is_the_section(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await app.search("when is breakfast", project_id, BY_DEFINITION)
    hit = report.answer.hits[0]
    assert (hit.file_path, hit.symbol, hit.start_line) == ("docs/guide.md", "Guide.Breakfast", 9)


async def test_no_place_is_named_twice_but_with_a_method_its_class(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    report = await app.search("guest", project_id, BY_DEFINITION)
    for hit in report.answer.hits:
        own = (hit.start_line, hit.end_line)
        others = [(place.start_line, place.end_line) for place in hit.more_in_file]
        around = [one for one in others if one[0] <= own[0] and own[1] <= one[1]]
        ranges = sorted({own, *others} - set(around))
        assert all(first[1] < second[0] for first, second in itertools.pairwise(ranges))
        assert len(around) == hit.file_path.endswith("hotel.py")


async def test_a_class_that_answers_is_named_where_one_of_its_methods_is_shown(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(make_repo(FILES), project_id)
    text = search_text(await app.search("Hotel price_of_stay", project_id, BY_DEFINITION))
    assert text.startswith("1. copy/hotel.py:9-72  ")
    assert re.search(r"\n   also (?:.*, )?6-76 Hotel 0\.\d\d", text)
    guide = await app.search("when is breakfast", project_id, BY_DEFINITION)
    assert "Guide" not in {place.symbol for place in guide.answer.hits[0].more_in_file}


async def test_the_reply_of_a_search_is_short_and_true(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo(FILES)
    await app.index(root, project_id)
    (root / "src/hotel.py").write_text(FILES["src/hotel.py"].replace("goodbye", "farewell"))
    text = search_text(await app.search("Hotel check_out farewell", project_id, BY_DEFINITION))
    assert "Say farewell" in text
    assert len(text) < 1_000


def test_a_slow_search_of_a_command_says_nothing_beside_its_answer(
    embedded: Embedded,
    make_repo: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(searching, "SLOW_S", 0.0)
    options = ["--project", "test-slow-command", f"--data-dir={embedded.data_dir}"]
    assert run(["index", str(make_repo(FILES)), *options]) == 0
    capsys.readouterr()
    assert run(["search", "when is breakfast", *options]) == 0
    printed = capsys.readouterr()
    assert "breakfast" in printed.out.lower()
    assert not printed.err


def test_the_command_shows_lines_around_in_text_and_in_json(
    embedded: Embedded, make_repo: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--project", "test-context", f"--data-dir={embedded.data_dir}"]
    assert run(["index", str(make_repo(FILES)), *options]) == 0

    def printed(question: str, *asked: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(["search", question, *asked, *options]) == status
        out, err = capsys.readouterr()
        return err if status else out

    around = "7  Guests leave by eleven."
    assert around not in printed("when is breakfast")
    assert around in printed("when is breakfast", "--context", "2")
    [first, *_] = json.loads(printed("check_out", "--context", "2", "--json"))["results"]
    assert first["context_before"].count("\n") == 2
    refused = printed("check_out", "--context", "x", status=1)
    assert "--context must be a whole number from 0 to 50" in refused
