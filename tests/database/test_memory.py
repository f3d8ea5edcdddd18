"""What is remembered: stored once, found again, whoever stores at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.nearest import EXACT_VECTORS
from codebase_mcp.embedding.embedder import ModelFacts
from codebase_mcp.embedding.models import Model, Models
from codebase_mcp.embedding.profile import Recipe
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.records import memory
from codebase_mcp.records.memory import ObservationText
from codebase_mcp.records.memory_search import MemoryFilters, Question, ask, search_observations
from codebase_mcp.search.relevance import MEANING_ONLY, WORDS_ONLY, Weighing

pytestmark = pytest.mark.anyio

POSTGRES = "We chose PostgreSQL over SQLite because several processes write at the same time."
RETRY = "Uploads that fail are retried three times, waiting longer after each attempt."

ANY = MemoryFilters()


@pytest.fixture(scope="module")
def builtin() -> Model:
    return known(StaticEmbedder.load())


def known(embedder: StaticEmbedder) -> Model:
    facts = ModelFacts(embedder.name, embedder.fingerprint, embedder.dimension)
    return Model(embedder, facts, Recipe())


def small_model(words: Sequence[str], dimension: int) -> Model:
    """A model that knows these words, a direction for each, and no other."""
    vocabulary = {"[UNK]": 0} | {word: number for number, word in enumerate(words, 1)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.zeros((len(vocabulary), dimension), np.float32)
    for number in vocabulary.values():
        table[number, number % dimension] = 1
    return known(StaticEmbedder("small", table, tokenizer, f"small-{dimension}"))


async def store(
    database: Database,
    project: Project,
    model: Model,
    content: str,
    *,
    tags: tuple[str, ...] = (),
    kind: memory.ObservationType = "Insight",
) -> tuple[UUID, bool]:
    [prepared] = await memory.prepare(model, [ObservationText(content, tags)])
    async with database.transaction(project) as tx:
        return await memory.store_observation(tx, model, prepared, kind, None)


async def store_all(
    database: Database, project: Project, model: Model, lines: Sequence[ObservationText]
) -> None:
    """Store many at once, as an import does."""
    content = [
        {
            "id": str(UUID(int=number + 1)),
            "content": said.content,
            "type": "Insight",
            "tags": list(said.tags),
            "session_id": None,
            "created_at": "2026-01-01T00:00:00Z",
            "stored_at": "2026-01-01T00:00:00Z",
            "times_stored": 1,
        }
        for number, said in enumerate(lines)
    ]
    async with database.transaction(project) as tx:
        assert len(await memory.store_prepared(tx, content, model)) == len(lines)


async def asked(model: Model, query: str) -> Question:
    return await ask(Models(model.embedder, model.recipe), query)


async def found(
    database: Database,
    project: Project,
    model: Model,
    query: str,
    filters: MemoryFilters = ANY,
) -> list[str]:
    question = await asked(model, query)
    async with database.transaction(project, readonly=True) as tx:
        recalled = await search_observations(tx, question, filters, limit=10)
    return [observation.content for observation in recalled]


async def test_of_many_that_store_the_same_at_once_one_makes_it(
    database: Database, project: Project, builtin: Model
) -> None:
    outcomes = await asyncio.gather(
        *(
            store(database, project, builtin, POSTGRES, tags=(f"tag{n}", "shared"))
            for n in range(12)
        )
    )
    assert len({identity for identity, _ in outcomes}) == 1
    assert [is_new for _, is_new in outcomes].count(True) == 1
    async with database.transaction(project) as tx:
        rows = await tx.fetch_all("SELECT tags, times_stored FROM observation")
        vectors = await tx.fetch_all("SELECT observation_id FROM observation_vector")
    [(tags, times_stored)] = rows
    assert sorted(tags) == sorted([*(f"tag{n}" for n in range(12)), "shared"])
    assert times_stored == 12
    assert len(vectors) == 1
    for number in range(12):
        assert await found(database, project, builtin, f"tag{number}") == [POSTGRES]


async def test_what_is_stored_again_keeps_its_first_type_and_time(
    database: Database, project: Project, builtin: Model
) -> None:
    identity, _ = await store(database, project, builtin, POSTGRES, kind="Decision")
    async with database.transaction(project, readonly=True) as tx:
        [first] = await memory.load_observations(tx, [identity])
    assert await store(database, project, builtin, POSTGRES, kind="Summary") == (identity, False)
    async with database.transaction(project, readonly=True) as tx:
        [again] = await memory.load_observations(tx, [identity])
    assert (again.type, again.created_at) == ("Decision", first.created_at)
    assert again.stored_at > first.stored_at


async def test_better_matches_with_another_tag_do_not_crowd_out_the_one_that_has_it(
    database: Database, project: Project, builtin: Model
) -> None:
    crowd = [
        ObservationText(f"Cache eviction number {n}: evict the cache", ("other",))
        for n in range(300)
    ]
    wanted = "A sentence of many words on how, when and by whom the cache of pictures is emptied"
    await store_all(
        database, project, builtin, [*crowd, ObservationText(wanted, ("wanted", "media"))]
    )
    query = "evict the cache"
    assert wanted not in await found(database, project, builtin, query)
    for tags in (("wanted",), ("media", "wanted")):
        assert await found(database, project, builtin, query, MemoryFilters(tags)) == [wanted]
    assert await found(database, project, builtin, query, MemoryFilters(("wanted", "other"))) == []


async def test_words_and_meaning_can_be_asked_alone(
    database: Database, project: Project, builtin: Model
) -> None:
    for text in (POSTGRES, RETRY):
        await store(database, project, builtin, text)

    async def contents(query: str, weighing: Weighing) -> list[str]:
        question = await asked(builtin, query)
        async with database.transaction(project, readonly=True) as tx:
            recalled = await search_observations(
                tx, question, MemoryFilters(), limit=10, weighing=weighing
            )
        return [observation.content for observation in recalled]

    assert await contents("SQLite", WORDS_ONLY) == [POSTGRES]
    assert await contents("which database do we use", WORDS_ONLY) == []
    assert (await contents("which database do we use", MEANING_ONLY))[0] == POSTGRES


async def test_a_sentence_of_a_long_text_is_found_by_its_meaning(
    database: Database, project: Project, builtin: Model
) -> None:
    week = (
        "The design of the start page was agreed upon with marketing. "
        "Two colleagues moved to another office, and the plants were watered. "
        "Users can now sign in with a fingerprint in place of their password. "
        "The train tickets for the fair are booked, and the hotel as well. "
    )
    for text in (week * 3, POSTGRES, RETRY):
        await store(database, project, builtin, text.strip())
    async with database.transaction(project) as tx:
        counts = await tx.fetch_all(
            "SELECT count(*), max(ordinal) FROM observation_vector GROUP BY observation_id"
        )
    assert sorted(counts) == [(1, 0), (1, 0), (13, 12)]
    texts = await found(database, project, builtin, "user authentication without passphrase")
    assert texts == [(week * 3).strip()]


async def test_passages_that_another_model_made_and_this_one_does_not_are_gone(
    database: Database, project: Project, builtin: Model
) -> None:
    long = "The first sentence is of some length, as they are. " * 6
    identity, _ = await store(database, project, builtin, long.strip())
    other = small_model(["sentence"], 8)
    for said, vectors in ((ObservationText("short"), 1), (ObservationText(long), 4)):
        prepared = replace((await memory.prepare(other, [said]))[0], model=f"made for {vectors}")
        async with database.transaction(project) as tx:
            await memory.renew(tx, {identity: prepared})
            [(count,)] = await tx.fetch_all("SELECT count(*) FROM observation_vector")
        assert count == vectors


async def test_where_every_word_is_common_those_with_the_rarest_together_are_found(
    database: Database, project: Project, builtin: Model
) -> None:
    lines = [
        ObservationText(f"alpha beta entry {n}" if n % 2 else f"alpha entry {n}")
        for n in range(5_000)
    ]
    await store_all(database, project, builtin, lines)
    texts = await found(database, project, builtin, "alpha beta")
    assert len(texts) == 10
    assert all("beta" in text for text in texts)


async def test_after_a_change_of_model_everything_is_found_and_made_anew(
    database: Database, project: Project, builtin: Model
) -> None:
    for text in (POSTGRES, RETRY):
        await store(database, project, builtin, text, tags=("kept",))
    words = "database use postgresql sqlite upload retri".split()
    for other in (small_model(words, 8), small_model(words, 256)):
        async with database.transaction(project, readonly=True) as tx:
            assert (await memory.look_after(tx, other)).renew
        assert await found(database, project, other, "SQLite") == [POSTGRES]
        assert await found(database, project, other, "SQLite", MemoryFilters(("kept",))) == [
            POSTGRES
        ]
        async with database.transaction(project, readonly=True) as tx:
            old = await memory.outdated(tx, other)
        assert sorted(said.content for said in old.values()) == sorted([POSTGRES, RETRY])
        prepared = await memory.prepare(other, list(old.values()))
        async with database.transaction(project) as tx:
            await memory.renew(tx, dict(zip(old, prepared, strict=True)))
        async with database.transaction(project, readonly=True) as tx:
            assert not (await memory.look_after(tx, other)).renew
            rows = await tx.fetch_all(
                "SELECT model, vector_dims(dense) FROM observation"
                " JOIN observation_vector ON observation_id = id"
            )
        assert rows == [(memory.model_of(other), other.facts.dimension)] * 2


async def test_what_another_process_renewed_meanwhile_is_left_alone(
    database: Database, project: Project, builtin: Model
) -> None:
    await store(database, project, builtin, POSTGRES)
    other = small_model(["sqlite"], 8)
    async with database.transaction(project, readonly=True) as tx:
        old = await memory.outdated(tx, other)
    [good] = await memory.prepare(other, list(old.values()))
    [late] = await memory.prepare(other, [ObservationText("something else")])
    for prepared in (good, late):
        async with database.transaction(project) as tx:
            await memory.renew(tx, dict.fromkeys(old, prepared))
    assert await found(database, project, other, "SQLite") == [POSTGRES]


async def test_more_than_can_be_compared_are_found_by_the_vector_index(
    database: Database, project: Project
) -> None:
    words = [f"w{letter}{other}" for letter in "abcdefgh" for other in "abcdefgh"]
    model = small_model(words, 64)
    await store_all(
        database,
        project,
        model,
        [
            ObservationText(f"{words[n % 64]} {n}", ("even",) if n % 2 else ())
            for n in range(EXACT_VECTORS)
        ],
    )
    async with database.transaction(project) as tx:
        await tx.become_owner()
        await tx.run_script("ANALYZE observation, observation_vector")
        assert (await memory.look_after(tx, model)).index
    await asyncio.gather(*(tend(database, project, model) for _ in range(3)))
    await store(database, project, model, "the last word is wha")
    await store(database, project, small_model(words, 8), "by another model")
    async with database.transaction(project) as tx:
        upkeep = await memory.look_after(tx, model)
        assert (upkeep.renew, upkeep.index) == (True, False)
    question = await asked(model, "whb")
    for filters in (MemoryFilters(), MemoryFilters(("even",))):
        async with database.transaction(project, readonly=True) as tx:
            recalled = await search_observations(
                tx, question, filters, limit=10, weighing=MEANING_ONLY
            )
        assert len(recalled) == 10
        assert all(observation.content.startswith("whb ") for observation in recalled)


async def tend(database: Database, project: Project, model: Model) -> None:
    async with database.transaction(project) as tx:
        await memory.tend_index(tx, model)


async def test_an_import_passes_over_what_is_there_by_id_or_by_content(
    database: Database, project: Project, builtin: Model
) -> None:
    identity, _ = await store(database, project, builtin, POSTGRES)
    line = {
        "id": str(identity),
        "content": "other content",
        "type": "Decision",
        "tags": ["a", "b"],
        "session_id": "s",
        "created_at": "2026-01-01T00:00:00Z",
        "stored_at": "2026-01-02T00:00:00Z",
        "times_stored": 3,
    }
    same_content = line | {"id": str(UUID(int=7)), "content": POSTGRES}
    new = line | {"id": str(UUID(int=8)), "content": RETRY}
    async with database.transaction(project) as tx:
        assert await memory.store_prepared(tx, [line, same_content, new], builtin) == {new["id"]}
    [text] = await found(database, project, builtin, "repeat a broken upload")
    assert text == RETRY
    async with database.transaction(project, readonly=True) as tx:
        [observation] = await memory.load_observations(tx, [UUID(int=8)])
    assert (observation.type, observation.tags, observation.session_id) == (
        "Decision",
        ("a", "b"),
        "s",
    )
    assert observation.created_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert observation.stored_at.isoformat() == "2026-01-02T00:00:00+00:00"
