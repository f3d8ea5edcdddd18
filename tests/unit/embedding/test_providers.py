"""Which embedder a choice opens, without asking any service."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.embedding_server import EmbeddingServer
from tests.unit.embedding.conftest import chosen

from codebase_mcp.embedding.providers import (
    BUILTIN,
    PROVIDERS,
    Provider,
    input_format_of,
    model_folder,
    open_embedder,
)
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.settings.choices import service_access
from codebase_mcp.settings.loading import SETTINGS, Settings

pytestmark = pytest.mark.anyio


def cached(cache: Path, name: str, commit: str = "c0ffee", *, main: bool = True) -> Path:
    """The built-in model, as if it had been downloaded from the hub by another name."""
    entry = cache / f"models--{name.replace('/', '--')}"
    snapshot = entry / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in ("model.safetensors", "tokenizer.json"):
        (snapshot / file).symlink_to(BUILTIN / file)
    if main:
        (entry / "refs").mkdir(exist_ok=True)
        (entry / "refs" / "main").write_text(commit)
    return snapshot


# Static models


async def test_the_built_in_model_is_the_default() -> None:
    embedder = open_embedder(*chosen())
    assert (await embedder.identify()).name == "builtin"
    assert (await embedder.embed_query("parse a json file")).any()


async def test_a_folder_is_a_model(tmp_path: Path) -> None:
    shutil.copytree(BUILTIN, tmp_path / "my-model")
    embedder = open_embedder(*chosen(model=str(tmp_path / "my-model")))
    builtin = await open_embedder(*chosen()).identify()
    assert await embedder.identify() == replace(builtin, name="my-model")


@pytest.mark.parametrize("name", ["minishlab/potion-base-8M", "potion-base-8M", "Potion-Base-8m"])
async def test_a_model_that_was_downloaded_before_is_found_by_its_name(
    tmp_path: Path, name: str
) -> None:
    cached(tmp_path, "minishlab/potion-base-8M")
    cached(tmp_path, "minishlab/potion-base-32M")
    embedder = model_folder(name, hub_cache=tmp_path)()
    assert embedder.name == "minishlab/potion-base-8M"


def test_of_several_downloads_the_main_one_counts_then_the_newest(tmp_path: Path) -> None:
    old = cached(tmp_path, "a/one", "1111")
    cached(tmp_path, "a/one", "2222", main=False)
    assert model_folder("a/one", hub_cache=tmp_path).folder == old
    older = cached(tmp_path, "a/two", "1111", main=False)
    newer = cached(tmp_path, "a/two", "2222", main=False)
    os.utime(older, (1, 1))
    assert model_folder("a/two", hub_cache=tmp_path).folder == newer


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("/no/such/folder", "There is no folder /no/such/folder"),
        ("./nothing", "There is no folder nothing"),
        ("a/b/c", "There is no folder a/b/c"),
        ("unheard-of", "neither a folder unheard-of nor such a model"),
        ("shared", "shared is ambiguous: one/shared, two/shared"),
        ("transformer", "not a complete Model2Vec model"),
    ],
)
def test_a_folder_without_a_model_is_reported_with_a_hint(
    tmp_path: Path, model: str, says: str
) -> None:
    cached(tmp_path, "one/shared")
    cached(tmp_path, "two/shared")
    (cached(tmp_path, "some/transformer") / "model.safetensors").unlink()
    with pytest.raises(EmbeddingUnavailable) as caught:
        model_folder(model, hub_cache=tmp_path)
    assert says in caught.value.message
    assert "CODEBASE_MCP_EMBEDDING_MODEL" in str(caught.value.hint)


def test_without_a_cache_a_model_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingUnavailable, match="neither a folder"):
        model_folder("potion-base-8M", hub_cache=tmp_path / "nothing")


# The table


def test_every_provider_of_the_setting_has_its_entry() -> None:
    (setting,) = [one for one in SETTINGS if one.name == "embedding_provider"]
    assert setting.rule.metavar.split("|") == list(PROVIDERS) == list(get_args(Provider))


@pytest.mark.parametrize("name", [name for name, one in PROVIDERS.items() if one.is_service])
def test_the_settings_of_a_service_are_those_of_its_entry(name: Provider) -> None:
    entry, described = PROVIDERS[name], {one.name: one for one in SETTINGS}
    assert described[str(entry.url_setting)].default_words == entry.default_url
    assert f"{entry.default_model} ({name})" in described["embedding_model"].default_words
    assert not entry.key_setting or described[entry.key_setting].is_secret


def test_each_service_gets_its_own_address_and_key() -> None:
    settings = Settings.load(
        {
            "OLLAMA_BASE_URL": "http://127.0.0.1:1",
            "OPENAI_BASE_URL": "http://127.0.0.1:2/v1",
            "OPENAI_API_KEY": "a-key",
        }
    )
    access = service_access(settings)
    assert access.urls == {"ollama": "http://127.0.0.1:1", "openai": "http://127.0.0.1:2/v1"}
    assert access.api_keys == {"openai": "a-key"}


# Services


@pytest.mark.parametrize(
    ("choice", "name", "address"),
    [
        (chosen("ollama"), "ollama/nomic-embed-text", "http://127.0.0.1:11434"),
        (chosen("ollama", "all-minilm"), "ollama/all-minilm", "http://127.0.0.1:11434"),
        (
            chosen("openai", api_key="k"),
            "openai/text-embedding-3-small",
            "https://api.openai.com/v1",
        ),
        (
            chosen("openai", "m", "http://u:p@[::1]:8000/v1/?key=s"),
            "openai/m",
            "http://[::1]:8000/v1",
        ),
    ],
)
async def test_a_service_is_opened_without_being_asked(
    choice: Any, name: str, address: str
) -> None:
    embedder = open_embedder(*choice)
    assert embedder.name == name
    assert repr(embedder) == f"RemoteEmbedder({name!r}, Endpoint({address!r}))"
    await embedder.close()  # which needs no connection


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (chosen("openai"), "needs a key"),
        (chosen("openai", api_key="sk-a\nb"), "key .* is invalid"),
        (chosen("openai", api_key="sk-ä"), "key .* is invalid"),
        (chosen("openai", api_key='sk "x"'), "key .* is invalid"),
        (chosen("ollama", url="127.0.0.1:11434"), "address"),
        (chosen("ollama", url="http://"), "address"),
        (chosen("ollama", url="http://[::1"), "address"),
        (chosen("ollama", url="http://host:port"), "address"),
        (chosen("ollama", url="ftp://host"), "address"),
        (chosen("ollama", url="http://me:12/sk-a@host"), "address"),
    ],
)
def test_invalid_settings_are_refused_at_once_without_showing_secrets(
    choice: Any, says: str
) -> None:
    with pytest.raises(EmbeddingUnavailable, match=says) as caught:
        open_embedder(*choice)
    assert caught.value.hint
    assert "sk-" not in str(caught.value.as_dict())


# Prefixes and fingerprints


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-embed-text-v2-moe:latest", "search_query: ", "search_document: "),
        ("hf.co/nomic-ai/nomic-embed-code-GGUF:Q4_K_M", "Represent this query for", ""),
        ("mxbai-embed-large", "Represent this sentence for", ""),
        ("BAAI/bge-base-en-v1.5", "Represent this sentence for", ""),
        ("bge-m3", "", ""),
        ("BAAI/bge-large-zh-v1.5", "", ""),
        ("snowflake-arctic-embed:335m", "Represent this sentence for", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", "Instruct: ", ""),
        ("e5-small-v2", "query: ", "passage: "),
        ("qwen3-embedding:0.6b", "Instruct: ", ""),
        ("embeddinggemma", "task: code retrieval | query: ", "title: none | text: "),
        ("text-embedding-3-large", "", ""),
        ("something-new", "", ""),
        ("bge5-e5", "", ""),
    ],
)
def test_known_models_get_the_prefixes_that_they_were_trained_with(
    model: str, query: str, passage: str
) -> None:
    known = input_format_of(model)
    assert known.query_prefix.startswith(query)
    assert bool(known.query_prefix) == bool(query)
    assert known.passage_prefix == passage


@pytest.mark.parametrize(
    ("prefix", "sent"),
    [(None, "search_query: "), ("", ""), ("Query:", "Query:"), ("find: ", "find: ")],
)
async def test_a_configured_prefix_takes_precedence(
    server: EmbeddingServer, prefix: str | None, sent: str
) -> None:
    embedder = open_embedder(
        *chosen("ollama", url=server.url, query_prefix=prefix, passage_prefix=prefix)
    )
    await embedder.embed_query("json")
    await embedder.embed_passages(["json"])
    await embedder.close()
    documents = "search_document: " if prefix is None else sent
    assert server.texts[1:] == [f"{sent}json", f"{documents}json"]


async def test_a_fingerprint_depends_on_the_vectors_and_not_on_the_address(
    server: EmbeddingServer,
) -> None:
    base = chosen("ollama", "m", server.url)
    server.models |= {"m:latest": "d", "other:latest": "d"}

    async def fingerprint(choice: Any) -> str:
        embedder = open_embedder(*choice)
        facts = await embedder.identify()
        await embedder.close()
        return facts.fingerprint

    same = (
        base,
        chosen("ollama", "m", f"http://localhost:{server.port}"),
        chosen("ollama", "m", server.url, batch_size=9),
    )
    others = (
        chosen("ollama", "other", server.url),
        chosen("ollama", "m", server.url, query_prefix="q:"),
        chosen("ollama", "m", server.url, passage_prefix="p:"),
        chosen("openai", "m", server.openai_url),
    )
    assert len({await fingerprint(choice) for choice in same}) == 1
    found = {await fingerprint(choice) for choice in (base, *others)}
    server.dimension = 64
    found.add(await fingerprint(base))
    assert len(found) == 6
