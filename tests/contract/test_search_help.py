"""What ``search_code`` says where it finds nothing, or nothing good."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search import misses
from codebase_mcp.search.help import WEAK
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from codebase_mcp.search.vocabulary import Vocabulary

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

# A question about something else; the index of the sample leaves two files out.
FOREIGN = "quantum entanglement algorithm"
NO_WORD = "No word of the question occurs in this code."
LEFT_OUT = "Left out of the index: 2 ignored."


@pytest.fixture
async def indexed(app: App, make_repo: MakeRepo, project_id: str) -> AsyncIterator[str]:
    """A project with the sample application in it."""
    await app.index(make_repo(), project_id)
    yield project_id


async def test_a_good_answer_has_no_help(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query="authenticate user", project_id=indexed)
    assert reply["results"][0]["similarity_score"] >= WEAK
    assert "help" not in reply


async def test_help_for_an_unrelated_question_says_that_no_word_occurs(
    call: Any, indexed: str
) -> None:
    reply = await call.ok("search_code", query=FOREIGN, project_id=indexed)
    assert reply["help"] == {
        "hint": "This code seems to have nothing to do with quantum, entanglement, algorithm.",
        "reasons": [NO_WORD, LEFT_OUT],
        "words": {"quantum": 0, "entanglement": 0, "algorithm": 0},
        "nearest_words": {},
    }


async def test_missing_words_come_with_similar_words_of_this_code(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    text = "def remove_image(raw):\n    return raw[::2]\n"
    await app.index(make_repo({"shop/depot.py": text}), project_id)
    query = "quantum entanglement picture removve"
    told = (await call.ok("search_code", query=query, project_id=project_id))["help"]
    assert told["words"] == dict.fromkeys(query.split(), 0)
    assert told["nearest_words"] == {"picture": ["image"], "removve": ["remove"]}
    assert told["hint"] == 'Try: "quantum entanglement picture remove".'


async def test_words_are_counted_in_the_repository_that_is_searched(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    text = "def entangle(quantum):\n    return quantum.entanglement\n"
    await app.index(make_repo({"physics.py": text}, "physics"), project_id)
    sample = (await app.index(make_repo(), project_id)).run.repository_id
    reply = await call.ok(
        "search_code", query=FOREIGN, project_id=project_id, repository_id=str(sample)
    )
    assert reply["help"]["words"] == {"quantum": 0, "entanglement": 0, "algorithm": 0}
    assert NO_WORD in reply["help"]["reasons"]


async def test_a_brief_answer_has_help_too(call: Any, indexed: str) -> None:
    reply = await call.ok("search_code", query=FOREIGN, collection=indexed)
    assert reply.keys() == {"results", "count", "query_time_ms", "help"}
    assert reply["help"]["reasons"] == [NO_WORD, LEFT_OUT]


@pytest.mark.parametrize(
    ("filters", "reasons"),
    [
        (
            {"directory": "src/lib"},
            ["directory=src/lib leaves none of 8 files.", "There are these directories: lib."],
        ),
        (
            {"directory": "SRC"},
            ["directory=SRC leaves none of 8 files.", "There are these directories: src."],
        ),
        ({"directory": "nowhere/[a]{b}"}, ["directory=nowhere/[a]{b} leaves none of 8 files."]),
        (
            {"file_type": "rs"},
            [
                "extension=rs leaves none of 8 files.",
                "There are these extensions: py, gitignore, md, ts.",
            ],
        ),
        (
            {"filter": {"languages": ["go", "rust"]}},
            [
                "language=go|rust leaves none of 8 files.",
                "There are these languages: python, gitignore, markdown, typescript.",
            ],
        ),
        (
            {"file_type": "md", "directory": "src/parsers"},
            [
                "extension=md leaves 1 of 8 files, directory=src/parsers leaves 2, "
                "together they leave none."
            ],
        ),
    ],
)
async def test_filters_that_hide_the_answer_are_reported_with_their_effect(
    call: Any, indexed: str, filters: dict[str, Any], reasons: list[str]
) -> None:
    reply = await call.ok("search_code", query="authenticate user", project_id=indexed, **filters)
    told = reply["help"]
    assert told["reasons"][: len(reasons)] == reasons
    assert told["without_filters"]["file_path"] == "src/auth.py"
    assert told["without_filters"]["similarity_score"] >= WEAK
    assert re.match(r"Drop the filters: src/auth\.py answers best \([01]\.\d\d\)", told["hint"])


async def test_filters_that_hide_nothing_are_not_reported(call: Any, indexed: str) -> None:
    arguments = {"query": FOREIGN, "project_id": indexed}
    told = (await call.ok("search_code", **arguments, directory="src"))["help"]
    assert told["reasons"] == [
        "directory=src leaves 3 of 8 files.",
        "Without the filters nothing better is found.",
        NO_WORD,
        LEFT_OUT,
    ]
    assert "without_filters" not in told
    told = (await call.ok("search_code", **arguments, directory="**"))["help"]
    assert told["reasons"] == [NO_WORD, LEFT_OUT]


async def test_help_for_an_unknown_repository_lists_the_existing_ones(
    call: Any, indexed: str
) -> None:
    unknown = str(uuid.uuid4())
    reply = await call.ok(
        "search_code", query="authenticate user", project_id=indexed, repository_id=unknown
    )
    told = reply["help"]
    assert told["reasons"][0] == f"repository_id={unknown} leaves none of 8 files."
    found = told["without_filters"]
    assert told["reasons"][1] == f"There are these repositories: repo ({found['repository_id']})."
    assert reply["index"]["state"] == "absent"
    assert not any("run" in reason for reason in told["reasons"])


async def test_words_of_one_repository_are_not_offered_for_another(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    files = {"a.py": "def shrink_image(raw):\n    return raw[::2]\n"}
    first = await app.index(make_repo(files, "first"), project_id)
    files = {"b.py": "def send_parcel(weight):\n    return weight * 3\n"}
    second = await app.index(make_repo(files, "second"), project_id)
    offered = []
    for report in (first, second):
        reply = await call.ok(
            "search_code",
            query="picture quantum entanglement",
            project_id=project_id,
            repository_id=str(report.run.repository_id),
        )
        offered.append(reply["help"]["nearest_words"].get("picture", []))
    assert "image" in offered[0]
    assert offered[1] == []


async def test_files_that_are_not_in_the_index_are_counted(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    files = {"a.py": "def shrink(raw):\n    return raw[::2]\n", "b.py": b"\xff\xfe\x00broken"}
    await app.index(make_repo(files), project_id)
    told = (await call.ok("search_code", query=FOREIGN, project_id=project_id))["help"]
    assert "1 file could not be indexed." in told["reasons"]


async def test_a_word_that_names_a_file_or_is_written_joined_occurs(
    call: Any, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    files = {"glacier.py": "def webhook(raw):\n    return raw\n"}
    await app.index(make_repo(files), project_id)
    arguments = {"query": "quantum glacier web hook", "directory": "elsewhere"}
    told = (await call.ok("search_code", **arguments, project_id=project_id))["help"]
    assert told["reasons"][-1] == "These words occur nowhere in this code: quantum."
    assert told["words"] == {"quantum": 0, "glacier": 0, "web": 0, "hook": 0}


async def test_new_words_are_offered_as_soon_as_they_are_indexed_and_old_ones_no_more(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "def shrink_image(raw):\n    return raw[::2]\n"})
    await app.index(root, project_id)

    async def offered() -> tuple[str, ...]:
        report = await app.search("picture quantum entanglement", project_id, with_help=True)
        assert report.help is not None
        return report.help.nearest.get("picture", ())

    assert await offered() == ("image",)
    (root / "a.py").write_text("def shrink_photo(raw):\n    return raw[::2]\n")
    await app.index(root, project_id)
    assert await offered() == ("photo",)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names there were each time that a vocabulary was made."""
    made: list[int] = []
    make = Vocabulary.of

    def counted(names: list[str], paths: list[str], model: StaticEmbedder) -> Vocabulary:
        made.append(len(names))
        return make(names, paths, model)

    monkeypatch.setattr(Vocabulary, "of", counted)
    return made


async def test_words_are_read_once_while_the_index_stays_as_it_is(
    app: App, indexed: str, reads: list[int]
) -> None:
    await app.search("authenticate user", indexed, with_help=True)
    await app.search(FOREIGN, indexed)
    assert reads == []  # a good answer, and one without help, need no words
    for _ in range(3):
        await app.search(FOREIGN, indexed, with_help=True)
    assert len(reads) == 1


async def test_words_are_kept_for_a_while(
    app: App, indexed: str, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misses, "CACHED_S", 0.0)
    for _ in range(3):
        await app.search(FOREIGN, indexed, with_help=True)
    assert len(reads) == 3


async def test_words_of_a_few_code_bases_are_kept_those_asked_for_last(
    app: App,
    make_repo: MakeRepo,
    project_id: str,
    reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(misses, "MAX_CACHED", 2)
    filters = []
    for n in (1, 2, 3):  # as many names as the number says
        text = "".join(f"def part_{i}(raw):\n    return raw\n" for i in range(n))
        report = await app.index(make_repo({"a.py": text}, f"repo{n}"), project_id)
        filters.append(Request(FileFilters(repository_id=report.run.repository_id)))
    for place in (0, 1, 0, 2, 0, 1):
        await app.search(FOREIGN, project_id, filters[place], with_help=True)
    assert reads == [1, 2, 3, 2]
