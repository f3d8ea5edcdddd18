"""``memory`` as the contract and the documents behind it describe it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastmcp import Client
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.database.nearest import EXACT_VECTORS
from codebase_mcp.records.memory import model_of
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.memory import TOOLSET
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import Caller

pytestmark = pytest.mark.anyio

POSTGRES = "We chose PostgreSQL over SQLite because several processes write at the same time."
RETRY = "Uploads that fail are retried three times, waiting longer after each attempt."
NAMING = "Test names are sentences about behaviour; no fixture is shared between modules."


MANY = """
WITH made AS (
    INSERT INTO observation (id, content, content_hash, type, model, terms, lex)
    SELECT gen_random_uuid(), 'number ' || n, sha256(n::text::bytea), 'Insight', %(model)s, '{}',
           '{}/1000000000'
    FROM generate_series(1, %(count)s) AS n
    RETURNING id
)
INSERT INTO observation_vector (observation_id, ordinal, dense)
SELECT id, 0, array_fill(0, ARRAY[256])::vector::halfvec
FROM made
"""


@pytest.fixture
def toolsets() -> list[str]:
    return ["memory"]


@pytest.fixture
async def project(app: App, project_id: str) -> AsyncIterator[str]:
    """A project without anything in it."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    yield project_id


class Memory:
    """The tool in one project."""

    def __init__(self, call: Any, project: str) -> None:
        self._call = call
        self._project = project

    async def ok(self, operation: str, **arguments: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self._call.ok(
            "memory", operation=operation, project_id=self._project, **arguments
        )
        return reply

    async def error(self, operation: str, **arguments: Any) -> dict[str, Any]:
        error: dict[str, Any] = await self._call.error(
            "memory", operation=operation, project_id=self._project, **arguments
        )
        return error

    async def store(self, content: str, kind: str = "Insight", **arguments: Any) -> dict[str, Any]:
        """The observation that a store answers with."""
        reply = await self.ok("store", content=content, observation_type=kind, **arguments)
        item: dict[str, Any] = reply["observations"][0]
        return item

    async def found(self, query: str, **arguments: Any) -> list[str]:
        """The contents that a search answers with."""
        reply = await self.ok("search", query=query, **arguments)
        return [item["content"] for item in reply["observations"]]


@pytest.fixture
def memory(call: Any, project: str) -> Memory:
    return Memory(call, project)


async def test_what_is_stored_comes_back_with_the_documented_fields(memory: Memory) -> None:
    reply = await memory.ok(
        "store",
        content=f"  {POSTGRES}\n",
        observation_type="Decision",
        tags=[" database", "storage", "database "],
    )
    assert reply["project_source"] == "explicit"
    assert reply["deduplicated"] is False
    [item] = reply["observations"]
    uuid.UUID(item["id"])
    assert datetime.fromisoformat(item["created_at"]).tzinfo is not None
    assert item["content"] == POSTGRES
    assert item["type"] == "Decision"
    assert item["tags"] == ["database", "storage"]
    assert item["relevance_score"] is item["session_id"] is None
    assert item["anchors"] == []
    assert "truncated" not in item


async def test_action_means_operation(call: Any, project: str) -> None:
    reply = await call.ok(
        "memory", action="store", content="x", observation_type="Summary", collection=project
    )
    assert reply["observations"][0]["content"] == "x"
    error = await call.error("memory", action="store", operation="get", collection=project)
    assert "operation is given twice" in str(error)


async def test_the_same_content_twice_is_one_observation(memory: Memory) -> None:
    first = await memory.store(POSTGRES, "Decision", tags=["a", "b"])
    reply = await memory.ok(
        "store", content=POSTGRES + " ", observation_type="Insight", tags=["c", "b"]
    )
    assert reply["deduplicated"] is True
    [again] = reply["observations"]
    assert again == first | {"tags": ["a", "b", "c"]}
    assert len((await memory.ok("timeline"))["observations"]) == 1


async def test_an_observation_has_at_most_20_tags(memory: Memory) -> None:
    tags = [f"tag{number:02}" for number in range(26)]
    await memory.store(POSTGRES, tags=tags[:19])
    assert (await memory.store(POSTGRES, tags=tags[18:]))["tags"] == tags[:20]


async def test_later_tags_are_searchable(memory: Memory) -> None:
    await memory.store(POSTGRES)
    assert await memory.found("zookeeper") == []
    await memory.store(POSTGRES, tags=["zookeeper"])
    assert await memory.found("zookeeper") == [POSTGRES]


async def test_a_search_finds_an_exact_word_and_a_paraphrase(memory: Memory) -> None:
    for text in (POSTGRES, RETRY, NAMING):
        await memory.store(text)
    assert (await memory.found("SQLite"))[0] == POSTGRES
    assert (await memory.found("which database do we use"))[0] == POSTGRES
    assert (await memory.found("repeat a broken upload"))[0] == RETRY


async def test_scores_lie_between_0_and_1_and_never_rise(memory: Memory) -> None:
    for text in (POSTGRES, RETRY, NAMING, "SQLite is used in tests.", "Uploads go to a bucket."):
        await memory.store(text)
    reply = await memory.ok("search", query="uploads retried after a failed attempt")
    scores = [item["relevance_score"] for item in reply["observations"]]
    assert len(scores) >= 2
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@pytest.mark.parametrize(
    "query", ["how long should sourdough rise", "who won the chess championship", "!?", "日本語"]
)
async def test_a_question_about_something_else_finds_nothing(memory: Memory, query: str) -> None:
    for text in (POSTGRES, RETRY, NAMING):
        await memory.store(text)
    assert await memory.found(query) == []


async def test_filters_restrict_the_results(memory: Memory, call: Any, project: str) -> None:
    await call.ok("session", operation="start", session_id="s", project_id=project)
    await memory.store("Cache entries live an hour", "Decision", tags=["cache", "ttl"])
    await call.ok("session", operation="end", session_id="s", project_id=project)
    await memory.store("Cache keys hold the user", "Pattern", tags=["cache"])
    assert len(await memory.found("cache")) == 2
    assert await memory.found("cache", tags=["cache", "ttl"]) == ["Cache entries live an hour"]
    assert await memory.found("cache", observation_type="Pattern") == ["Cache keys hold the user"]
    assert await memory.found("cache", session_id="s") == ["Cache entries live an hour"]
    assert await memory.found("cache", tags=["cache", "other"]) == []
    assert await memory.found("cache", limit=1) == (await memory.found("cache"))[:1]


async def test_previews_end_at_a_word_and_get_gives_the_whole(memory: Memory) -> None:
    content = "word " * 60 + "end"
    item = await memory.store(content)
    for operation, arguments in (("search", {"query": "word"}), ("timeline", {})):
        reply = await memory.ok(operation, detail="preview", **arguments)
        [preview] = reply["observations"]
        assert preview["truncated"] is True
        assert content.startswith(preview["content"] + " ")
        assert 190 < len(preview["content"]) <= 200
    [whole] = (await memory.ok("get", ids=[item["id"]]))["observations"]
    assert whole == item


async def test_get_replies_in_the_requested_order_and_lists_missing_ids(memory: Memory) -> None:
    first, second = await memory.store(POSTGRES), await memory.store(RETRY)
    unknown = str(uuid.uuid4())
    ids = [second["id"], unknown, first["id"].upper(), second["id"]]
    reply = await memory.ok("get", ids=ids)
    assert [item["content"] for item in reply["observations"]] == [RETRY, POSTGRES]
    assert reply["missing"] == [unknown]
    error = await memory.error("get", ids=[unknown])
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Observation not found")


async def test_a_timeline_surrounds_an_observation_or_ends_at_the_newest(memory: Memory) -> None:
    items = [await memory.store(f"Step {number}") for number in range(8)]

    async def steps(**arguments: Any) -> list[int]:
        reply = await memory.ok("timeline", **arguments)
        return [int(item["content"].split()[1]) for item in reply["observations"]]

    assert await steps() == [*range(8)]
    assert await steps(depth_before=2, depth_after=1) == [5, 6, 7]
    middle = {"anchor_id": items[4]["id"]}
    assert await steps(**middle, depth_before=2, depth_after=1) == [2, 3, 4, 5]
    assert await steps(**middle, depth_before=0, depth_after=0) == [4]
    assert await steps(**middle) == [*range(8)]
    error = await memory.error("timeline", anchor_id=str(uuid.uuid4()))
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Observation not found")


async def test_a_timeline_of_a_session_leaves_out_the_others(
    memory: Memory, call: Any, project: str
) -> None:
    await memory.store("before")
    for operation in ("start", "end"):
        await call.ok("session", operation=operation, session_id="s", project_id=project)
    item = await memory.store("within", session_id="s")
    await memory.store("after")
    for arguments in ({}, {"anchor_id": item["id"]}):
        reply = await memory.ok("timeline", session_id="s", **arguments)
        assert [item["content"] for item in reply["observations"]] == ["within"]


async def test_inject_gives_text_for_a_prompt_within_its_budget(memory: Memory) -> None:
    execution = await memory.store("Ran the migration; it took a minute.", "Execution")
    decision = await memory.store(POSTGRES, "Decision", tags=["database"])
    reply = await memory.ok("inject")
    assert reply["observation_ids"] == [decision["id"], execution["id"]]
    assert reply["context"].index(POSTGRES) < reply["context"].index("Ran the migration")
    assert "Decision" in reply["context"]
    assert "tags: database" in reply["context"]
    assert reply["token_method"] == "utf8_bytes/4"
    assert reply["estimated_tokens"] == -(-len(reply["context"].encode()) // 4)
    assert reply["omitted"] == 0
    tight = await memory.ok("inject", max_tokens=reply["estimated_tokens"] - 1)
    assert tight["observation_ids"] == [decision["id"]]
    assert tight["estimated_tokens"] < reply["estimated_tokens"]
    assert tight["omitted"] == 1
    none = await memory.ok("inject", max_tokens=1)
    assert (none["context"], none["observation_ids"], none["estimated_tokens"]) == ("", [], 0)
    assert none["omitted"] == 2


async def test_inject_keeps_to_the_query_and_to_the_tags(memory: Memory) -> None:
    await memory.store(RETRY, "Decision", tags=["network"])
    database = await memory.store(POSTGRES, "Execution")
    assert (await memory.ok("inject", query="which database do we use"))["observation_ids"] == [
        database["id"]
    ]
    tagged = await memory.ok("inject", tags=["network"])
    assert RETRY in tagged["context"]
    assert POSTGRES not in tagged["context"]


async def test_inject_puts_the_session_first(memory: Memory, call: Any, project: str) -> None:
    other = await memory.store(POSTGRES, "Decision")
    await call.ok("session", operation="start", session_id="s", project_id=project)
    own = await memory.store("Ran the migration; it took a minute.", "Execution")
    reply = await memory.ok("inject", session_id="s")
    assert reply["observation_ids"] == [own["id"], other["id"]]


async def test_anchors_are_kept_until_others_are_given(memory: Memory) -> None:
    place = {"file": "src/auth.py", "symbol": "login"}
    item = await memory.store(POSTGRES, anchors=[place, {"commit": "a" * 40}])
    assert [anchor["file"] for anchor in item["anchors"]] == ["src/auth.py", None]
    assert [anchor["commit"] for anchor in item["anchors"]] == [None, "a" * 40]
    same = await memory.store(POSTGRES)
    assert len(same["anchors"]) == 2
    [found] = (await memory.ok("search", query="postgresql"))["observations"]
    assert found["anchors"][0]["symbol"] == "login"
    [anchor] = (await memory.store(POSTGRES, anchors=[{"file": "b.py"}]))["anchors"]
    assert (anchor["file"], anchor["symbol"]) == ("b.py", None)
    assert (await memory.store(POSTGRES, anchors=None))["anchors"] == []


async def test_an_unknown_session_is_not_made_by_storing_in_it(memory: Memory) -> None:
    error = await memory.error(
        "store", content="x", observation_type="Insight", session_id="nowhere"
    )
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Session not found")
    assert 'session(operation="start")' in error["hint"]
    assert (await memory.ok("timeline"))["observations"] == []


async def test_null_counts_as_not_given(memory: Memory) -> None:
    nothing = {"content": None, "ids": None, "anchors": None, "anchor_id": None, "tags": None}
    reply = await memory.ok("search", query="x", observation_type=None, **nothing)
    assert reply["observations"] == []
    error = await memory.error("store", content=None, observation_type="Insight")
    assert error["message"] == "Field required: content"


async def test_the_longest_content_is_kept_whole(memory: Memory) -> None:
    for content in ("a" * 20_000, "語" * 20_000, " ".join(f"w{n:x}" for n in range(3_500))):
        item = await memory.store(content[:20_000])
        assert item["content"] == content[:20_000]
        assert (await memory.ok("get", ids=[item["id"]]))["observations"] == [item]


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE observation; --", "%s %(x)s {}", "{1:2}/3", "emoji 🎉", "\\", '"q"']
)
async def test_any_text_can_be_stored_and_searched(memory: Memory, text: str) -> None:
    item = await memory.store(text, tags=[text])
    assert (item["content"], item["tags"]) == (text, [text])
    await memory.ok("search", query=text)
    assert (await memory.ok("inject", tags=[text]))["observation_ids"] == [item["id"]]


async def test_observations_are_embedded_again_at_the_first_use_of_another_model(
    memory: Memory, settings: Settings, tmp_path: Path, app: App, project: str, mode: Any
) -> None:
    for text in (POSTGRES, RETRY):
        await memory.store(text)
    folder = save_model(tmp_path / "small", "postgresql sqlite uploads retried".split())
    other = replace(settings, embedding_model=str(folder))
    async with Client(server_of(AppHolder(other), ["memory"]), mode=mode) as client:
        theirs = Memory(Caller(client), project)
        for _ in range(2):
            assert await theirs.found("sqlite") == [POSTGRES]
            assert await models_in(app, project) == {(4,)}
    for query in ("sqlite", "which database do we use"):
        assert await memory.found(query) == [POSTGRES]
        assert await models_in(app, project) == {(256,)}


async def models_in(app: App, project: str) -> set[tuple[int]]:
    """The dimensions of the vectors of the observations of a project."""
    async with app.enter(project) as here:
        rows = await here.tx.fetch_all("SELECT vector_dims(dense) FROM observation_vector")
    return {(dimension,) for (dimension,) in rows}


def save_model(folder: Path, words: Sequence[str]) -> Path:
    """A Model2Vec folder of a model that knows these words, a direction for each, and no other."""
    vocabulary = {"[UNK]": 0} | {word: number for number, word in enumerate(words, 1)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.zeros((len(vocabulary), len(words)), np.float32)
    table[1:] = np.eye(len(words))
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": table}, folder / "model.safetensors")
    return folder


async def test_storing_many_observations_builds_the_vector_index(
    memory: Memory, app: App, project: str
) -> None:
    model = model_of(await app.models.configured())
    async with app.enter(project) as here:
        await here.tx.execute(MANY, count=EXACT_VECTORS, model=model)
        await here.tx.become_owner()
        await here.tx.run_script("ANALYZE observation_vector")
    item = await memory.store(POSTGRES)
    async with app.enter(project) as here:
        assert await here.tx.fetch_one("SELECT to_regclass('observation_vector_near')") != (None,)
    reply = await memory.ok("search", query="which database do we use, SQLite or another")
    assert [found["id"] for found in reply["observations"]] == [item["id"]]


async def test_a_missing_project_is_not_created(call: Any) -> None:
    for operation, arguments in (
        ("store", {"content": "x", "observation_type": "Insight"}),
        ("search", {"query": "x"}),
    ):
        error = await call.error("memory", operation=operation, project_id="nowhere", **arguments)
        assert error["code"] == "PROJECT_NOT_FOUND"


async def test_the_schema_names_every_parameter_and_requires_the_operation(
    client: Client[Any],
) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert tools.keys() == {"memory", "session"}
    for name, tool in tools.items():
        assert tool.description is not None
        assert len(tool.description.encode()) < 2048, name
    schema = next(tool for tool in TOOLSET.tools if tool.name == "memory").input_schema()
    assert tools["memory"].input_schema["required"] == schema["required"]
    assert schema["required"] == ["operation"]
    properties = schema["properties"]
    assert properties["content"]["anyOf"][0]["maxLength"] == 20_000
    assert properties["tags"]["anyOf"][0]["maxItems"] == 20
    assert (properties["limit"]["minimum"], properties["limit"]["maximum"]) == (1, 100)
    assert properties["max_tokens"]["default"] == 2_000
    assert properties["depth_before"]["default"] == properties["depth_after"]["default"] == 5
