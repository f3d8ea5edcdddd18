"""An image of texts leaves out the blocks that cannot match, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from codebase_mcp.search import text_image
from codebase_mcp.search.image_folder import ImageFolder
from codebase_mcp.search.text_image import ImageWriter, SnapshotTexts, TextImage, ended
from codebase_mcp.search.text_pattern import TextMatcher, TextQuery

WORDS = ["retry", "RETRY", "os.a", "_", "ö", "Größe", "max_retries", "\u212aelvin", "\u017fet"]
TEXTS = st.lists(
    st.lists(st.sampled_from([*WORDS, " ", "\n"]), max_size=30).map("".join),
    min_size=1,
    max_size=40,
)
LITERALS = st.sampled_from([*WORDS, "kelvin", "set", "SET", "größe", "try os", "absent"])
REGEXES = st.one_of(
    st.tuples(LITERALS, LITERALS).map("|".join),
    st.tuples(LITERALS, LITERALS).map(".*".join),
    st.tuples(LITERALS, LITERALS).map(lambda both: f"(?:{both[0]}|{both[1]}s?)+_"),
    st.tuples(LITERALS, LITERALS).map(lambda both: rf"\b{both[0]}(?i:{both[1]})?"),
    st.tuples(LITERALS, LITERALS).map(lambda both: f"{both[0]}\n+{both[1]}"),
)


def image_of(texts: Mapping[int, bytes], path: Path) -> TextImage:
    folder = ImageFolder(path.parent, "texts")
    with folder.new(path.name) as out:
        writer = ImageWriter(out)
        writer.write(texts)
        writer.finish()
    return TextImage(folder.map(path.name))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_image, "_BLOCK_BYTES", 60)
    monkeypatch.setattr(text_image, "_GROUP_BLOCKS", 16)
    monkeypatch.setattr(text_image, "_PIECE_BLOCKS", 3)


@pytest.mark.usefixtures("small_blocks")
@given(
    texts=TEXTS,
    pattern=st.one_of(LITERALS.map(lambda text: (text, False)), REGEXES.map(lambda p: (p, True))),
    ignore_case=st.sampled_from([None, True, False]),
    whole_word=st.booleans(),
    every=st.integers(1, 3),
)
@examples(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_image_finds_what_a_scan_of_each_text_finds(
    tmp_path: Path,
    texts: list[str],
    pattern: tuple[str, bool],
    ignore_case: bool | None,
    whole_word: bool,
    every: int,
) -> None:
    by_id = {7 * number: ended(text.encode()) for number, text in enumerate(texts)}
    matcher = TextMatcher.compile(
        TextQuery(pattern[0], pattern[1], ignore_case=ignore_case, whole_word=whole_word)
    )
    chosen = list(by_id)[::every]
    image = image_of(by_id, tmp_path / "image")
    found = SnapshotTexts(image, {}).find(matcher, None if every == 1 else chosen, lambda: None)
    scanned = {text_id: list(matcher.spans(by_id[text_id])) for text_id in chosen}
    assert found.is_complete
    assert {text_id: list(spans) for text_id, spans in found.spans.items()} == {
        text_id: spans for text_id, spans in scanned.items() if spans
    }
    assert all(image.text(n) == text for n, text in enumerate(by_id.values()))


@pytest.mark.usefixtures("small_blocks")
def test_few_blocks_are_scanned_for_a_rare_text(tmp_path: Path) -> None:
    texts = {n: f"def function_{n}(value):\n    return value + {n}\n".encode() for n in range(500)}
    image = image_of(texts, tmp_path / "image")
    for pattern in (r"function_123\(", r"\w+_123\(|\w+_321\(", r"tion_412\(.*value"):
        required = TextMatcher.compile(TextQuery(pattern, regex=True)).required
        assert required
        assert len(image.may_match(required)) < 10
    assert len(image.may_match(())) == len(image.firsts) - 1


def test_an_image_of_nothing(tmp_path: Path) -> None:
    texts = SnapshotTexts(image_of({}, tmp_path / "image"), {})
    matcher = TextMatcher.compile(TextQuery("retry"))
    assert texts.find(matcher, None, lambda: None).spans == {}
    assert texts.find(matcher, [3], lambda: None).spans == {}
