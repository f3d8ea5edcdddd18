"""A transformer in this process: which folder is one, and what its vectors are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from tests.onnx_models import DIMENSION, WORDS, make_folder, table
from tests.unit.embedding.conftest import chosen

from codebase_mcp.embedding import onnx
from codebase_mcp.embedding.onnx import OnnxEmbedder
from codebase_mcp.embedding.providers import BUILTIN, Recipe, open_embedder, provider_of_folder
from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def opened(anyio_backend: str) -> AsyncIterator[list[OnnxEmbedder]]:
    """Embedders to be closed."""
    embedders: list[OnnxEmbedder] = []
    yield embedders
    for embedder in embedders:
        await embedder.close()


def choice(folder: Path, **changes: str) -> Recipe:
    return Recipe("onnx", str(folder), **changes)


def embedder_of(opened: list[OnnxEmbedder], folder: Path, **changes: str) -> OnnxEmbedder:
    embedder = open_embedder(choice(folder, **changes))
    assert isinstance(embedder, OnnxEmbedder)
    opened.append(embedder)
    return embedder


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def row(word: str) -> np.ndarray:
    return table()[WORDS.index(word)]


async def test_texts_of_one_meaning_are_near_whatever_they_are_batched_with(
    opened: list[OnnxEmbedder], tmp_path: Path
) -> None:
    embedder = embedder_of(opened, make_folder(tmp_path / "words"))
    facts = await embedder.identify()
    assert (facts.name, facts.dimension) == ("onnx/words", DIMENSION)
    texts = ["delete file", "login", "", "user password " * 9, "erase file", "  \n"] * 3
    vectors = await embedder.embed_passages(texts)
    assert vectors.any(axis=1).tolist() == [bool(text.strip()) for text in texts]
    expected = unit((row("[CLS]") + row("authenticate")) / 2)
    assert vectors[1] == pytest.approx(expected, abs=1e-5)
    assert vectors[0] == pytest.approx(vectors[4], abs=1e-5)
    assert await embedder.embed_query("authenticate") == pytest.approx(vectors[1], abs=1e-5)
    assert not (await embedder.embed_query(" ")).any()


async def test_the_folder_says_how_tokens_become_one_vector_and_how_many_are_read(
    opened: list[OnnxEmbedder], tmp_path: Path
) -> None:
    first = embedder_of(
        opened, make_folder(tmp_path / "cls", pooling={"pooling_mode_cls_token": True})
    )
    assert await first.embed_query("delete") == pytest.approx(unit(row("[CLS]")), abs=1e-5)
    short = make_folder(tmp_path / "short", sentence_bert_config={"max_seq_length": 2})
    embedder = embedder_of(opened, short)
    whole, beginning = await embedder.embed_passages(["delete user password", "delete"])
    assert whole == pytest.approx(beginning, abs=1e-5)
    with pytest.raises(EmbeddingUnavailable, match="neither mean nor cls"):
        OnnxEmbedder.open(
            choice(make_folder(tmp_path / "max", pooling={"pooling_mode_max_tokens": True}))
        )


async def test_prefixes_come_from_the_settings_the_folder_or_the_model_s_name(
    opened: list[OnnxEmbedder], tmp_path: Path
) -> None:
    prompts = {"prompts": {"query": "login ", "document": "file "}}
    folder = make_folder(tmp_path / "e5-small", config_sentence_transformers=prompts)
    embedder = embedder_of(opened, folder)
    plain = embedder_of(opened, folder, query_prefix="", passage_prefix="")
    assert await embedder.embed_query("user") == pytest.approx(
        await plain.embed_query("login user"), abs=1e-5
    )
    assert (await embedder.embed_passages(["user"]))[0] == pytest.approx(
        (await plain.embed_passages(["file user"]))[0], abs=1e-5
    )
    assert (await embedder.identify()).fingerprint != (await plain.identify()).fingerprint


async def test_other_files_are_another_model(opened: list[OnnxEmbedder], tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "words")
    before = (await embedder_of(opened, folder).identify()).fingerprint
    assert (await embedder_of(opened, folder).identify()).fingerprint == before
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    assert (await embedder_of(opened, folder).identify()).fingerprint != before


def test_the_content_of_a_folder_selects_the_provider(tmp_path: Path) -> None:
    assert provider_of_folder(str(make_folder(tmp_path / "a"))) == "onnx"
    assert provider_of_folder(str(make_folder(tmp_path / "b", "model.onnx"))) == "onnx"
    assert provider_of_folder(str(tmp_path / "b" / "model.onnx")) == "onnx"
    assert provider_of_folder(str(BUILTIN)) == "static"
    assert provider_of_folder("minishlab/potion-base-8M") == "static"
    assert provider_of_folder(None) == "static"


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        (["onnx/model.onnx", "onnx/model_O3.onnx"], "model.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx"], "model_quantized.onnx"),
        (["onnx/model_qint8_avx512.onnx", "onnx/model.onnx", "model_int8.onnx"], "model_int8.onnx"),
    ],
)
def test_of_several_networks_an_int8_one_is_used(
    tmp_path: Path, files: list[str], runs: str
) -> None:
    for file in files:
        make_folder(tmp_path, file)
    assert onnx.Layout.read(choice(tmp_path)).network.name == runs
    named = onnx.Layout.read(choice(tmp_path / files[0]))
    assert (named.network, named.name) == (tmp_path / files[0], tmp_path.name)


async def test_a_folder_without_such_a_model_is_refused_with_a_hint(
    opened: list[OnnxEmbedder], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for model in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(EmbeddingUnavailable, match="no ONNX model") as caught:
            OnnxEmbedder.open(choice(model))
        assert "onnx/model.onnx" in (caught.value.hint or "")
    folder = make_folder(tmp_path / "words")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EmbeddingUnavailable, match=r"tokenizer\.json"):
        OnnxEmbedder.open(choice(folder))
    broken = make_folder(tmp_path / "broken")
    (broken / "onnx" / "model.onnx").write_bytes(b"no network")
    with pytest.raises(EmbeddingUnavailable, match="cannot be used"):
        await embedder_of(opened, broken).identify()
    transformer = tmp_path / "transformer"
    transformer.mkdir()
    (transformer / "config.json").write_text('{"num_attention_heads": 12}')
    with pytest.raises(EmbeddingUnavailable, match="no network in ONNX") as told:
        open_embedder(*chosen(model=str(transformer)))
    assert "backend='onnx'" in (told.value.hint or "")


def test_without_onnxruntime_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    folder = make_folder(tmp_path / "words")
    with pytest.raises(EmbeddingUnavailable, match="is not installed") as caught:
        OnnxEmbedder.open(choice(folder))
    assert "codebase-mcp[onnx]" in (caught.value.hint or "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have no priority there")
async def test_passages_run_with_the_lowest_priority(
    opened: list[OnnxEmbedder], tmp_path: Path
) -> None:
    embedder = embedder_of(opened, make_folder(tmp_path / "words"))
    await embedder.embed_passages(["delete file"])
    threads = {t.name: t.native_id for t in threading.enumerate() if t.name.startswith("passages")}
    assert 0 < len(threads) <= onnx.PASSAGE_THREADS
    for number in threads.values():
        assert os.getpriority(os.PRIO_PROCESS, number or 0) == onnx.LOWEST_PRIORITY
    assert os.getpriority(os.PRIO_PROCESS, 0) < onnx.LOWEST_PRIORITY
