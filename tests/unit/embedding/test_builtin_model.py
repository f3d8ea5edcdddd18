"""Are the built-in model's files whole, in the promised format, and do they mean something?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import codebase_mcp.embedding
from codebase_mcp.text.tokens import split_word, words_of

FOLDER = Path(codebase_mcp.embedding.__file__).parent / "builtin"
DIMENSIONS = 256
MOST_BYTES = 17_000_000


class Model:
    """The files as any Model2Vec reader sees them, with the product's pooling."""

    def __init__(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        self.embeddings: NDArray[np.int8] = tensors["embeddings"]
        self.weights: NDArray[np.float16] = tensors["weights"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def pieces(self, text: str) -> list[int]:
        parts = [part for word in words_of(text) for part in split_word(word)]
        return [i for part in parts for i in self.tokenizer.encode(part).ids]

    def vector(self, text: str) -> NDArray[np.float64]:
        counts = Counter(self.pieces(text))
        ids = list(counts)
        factors = np.sqrt(list(counts.values())) * self.weights[ids]
        summed = factors @ self.embeddings[ids].astype(np.float64)
        unit: NDArray[np.float64] = summed / np.linalg.norm(summed)
        return unit


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(FOLDER)


def test_the_model_fits_in_the_package() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < MOST_BYTES


def test_the_folder_holds_what_a_model2vec_reader_needs_and_a_card() -> None:
    names = {file.name for file in FOLDER.iterdir()}

    assert names == {
        "MODEL_CARD.md", "config.json", "model.safetensors", "tokenizer.json",
        "thesaurus.safetensors", "topic.safetensors",
    }  # fmt: skip


def test_the_configuration_tells_readers_to_normalise_and_not_to_truncate() -> None:
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))

    assert config["normalize"] is True
    assert config["max_length"] is None
    assert config["hidden_dim"] == DIMENSIONS


def test_each_piece_has_one_row_and_one_weight(model: Model) -> None:
    pieces = model.tokenizer.get_vocab_size()

    assert model.embeddings.shape == (pieces, DIMENSIONS)
    assert model.embeddings.dtype == np.int8
    assert model.weights.shape == (pieces,)
    assert np.isfinite(model.weights).all()


def test_only_padding_and_the_unknown_weigh_nothing(model: Model) -> None:
    silent = {model.tokenizer.id_to_token(int(i)) for i in np.flatnonzero(model.weights == 0)}

    assert silent == {"[PAD]", "[UNK]"}
    assert model.embeddings[model.weights > 0].any(axis=1).all()


def test_each_row_uses_the_whole_range_of_int8(model: Model) -> None:
    largest = np.abs(model.embeddings[model.weights > 0].astype(np.int16)).max(axis=1)

    assert (largest == 127).all()


@pytest.mark.parametrize("filler", ["the", "of", "in", "is"])
def test_a_filler_word_has_less_weight_than_a_specific_one(model: Model, filler: str) -> None:
    def pull(word: str) -> float:
        (piece,) = model.pieces(word)
        return float(model.weights[piece]) * float(np.linalg.norm(model.embeddings[piece] * 1.0))

    assert pull(filler) < 0.6 * min(pull(word) for word in ("socket", "encryption"))


def test_the_tokenizer_adds_no_special_tokens_and_does_not_truncate(model: Model) -> None:
    encoded = model.tokenizer.encode("socket " * 3000)

    assert len(encoded.ids) == 3000
    assert set(encoded.tokens) == {"socket"}


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("Serializer", ["serializer"]),
        ("parseHTTPHeader", ["parse", "http", "header"]),
        ("Blorpifier", ["blo", "##rp", "##ifier"]),
        ("WIDTH_PX2", ["width", "p", "##x", "2"]),
    ],
)
def test_a_word_is_split_into_known_tokens(model: Model, word: str, pieces: list[str]) -> None:
    assert [model.tokenizer.id_to_token(i) for i in model.pieces(word)] == pieces


AUTHENTICATE = "def authenticate(username, password): return check_password_hash(stored, password)"
RESIZE = "def thumbnail(image, width, height): return image.resize((width, height))"
MAIL = "func Deliver(smtp *Client, recipient string, body []byte) error { return smtp.Send(body) }"
SORT = "static void quicksort(int *a, int lo, int hi) { int pivot = a[(lo + hi) / 2]; }"
CACHE = "class LruCache { evict() { this.entries.delete(this.oldest) } }"
CONFIG = "def load_settings(path): return toml.loads(path.read_text())"
CODE = [AUTHENTICATE, RESIZE, MAIL, SORT, CACHE, CONFIG]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("user login", AUTHENTICATE),
        ("make a picture smaller", RESIZE),
        ("send an email message", MAIL),
        ("order numbers ascending", SORT),
        ("read the configuration file", CONFIG),
        ("throw away old items kept in memory", CACHE),
    ],
)
def test_a_question_lies_nearest_to_the_code_that_answers_it(
    model: Model, question: str, answer: str
) -> None:
    similarity = [float(model.vector(question) @ model.vector(code)) for code in CODE]

    assert CODE[int(np.argmax(similarity))] == answer


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("delete", "remove", "install"),
        ("folder", "directory", "socket"),
        ("error", "exception", "button"),
        ("encrypt", "cipher", "calendar"),
        ("thread", "concurrency", "font"),
        ("login", "authentication", "pixel"),
    ],
)
def test_synonyms_are_closer_than_unrelated_words(
    model: Model, word: str, near: str, far: str
) -> None:
    own = model.vector(word)

    assert own @ model.vector(near) > own @ model.vector(far) + 0.1
