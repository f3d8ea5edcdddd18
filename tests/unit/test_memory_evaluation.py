"""The memory evaluation: is it whole, and do its paraphrases really use other words?"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any, get_args

from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.text.tokens import STOP_WORDS, split_word, stem, words_of

FOLDER = Path(__file__).parents[2] / "benchmarks" / "memory"


def lines_of(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


OBSERVATIONS = lines_of("observations.jsonl")
QUESTIONS = lines_of("questions.jsonl")
PARAPHRASES = [question for question in QUESTIONS if question["kind"] == "paraphrase"]
BY_ID = {observation["id"]: observation for observation in OBSERVATIONS}


def stems_of(text: str) -> set[str]:
    """The stems of the words that carry a text's meaning."""
    parts = {part for word in words_of(text) for part in split_word(word)}
    return {stem(part) for part in parts - STOP_WORDS if len(part) > 1}


def share_in_common(question: dict[str, Any]) -> float:
    """How much of a question stands in the answer that is nearest to it in words."""
    asked = stems_of(question["question"])
    answers = [BY_ID[answer] for answer in question["answers"]]
    texts = [" ".join([answer["content"], *answer["tags"]]) for answer in answers]
    return max(len(asked & stems_of(text)) / len(asked) for text in texts)


def test_there_are_enough_observations_and_questions_most_of_them_paraphrases() -> None:
    assert len(OBSERVATIONS) >= 120
    assert len(QUESTIONS) >= 60
    assert len(PARAPHRASES) >= 0.6 * len(QUESTIONS)


def test_no_id_content_or_question_comes_twice() -> None:
    assert len(BY_ID) == len(OBSERVATIONS)
    assert len({observation["content"] for observation in OBSERVATIONS}) == len(OBSERVATIONS)
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS)


def test_every_observation_could_be_stored_as_it_is() -> None:
    for observation in OBSERVATIONS:
        assert observation.keys() == {"id", "content", "type", "tags"}
        assert observation["content"].strip() == observation["content"] != ""
        assert 1 <= len(observation["tags"]) <= 4, observation["id"]
    types = {observation["type"] for observation in OBSERVATIONS}
    assert types == set(get_args(ObservationType))


def test_every_question_has_answers_that_exist() -> None:
    for question in QUESTIONS:
        assert question.keys() == {"question", "answers", "kind"}
        assert question["kind"] in {"paraphrase", "partial", "keyword"}
        assert question["answers"], question["question"]
        assert set(question["answers"]) <= BY_ID.keys(), question["question"]
        assert 3 <= len(question["question"].split()) <= 18, question["question"]


def test_paraphrases_share_few_words_with_their_answers() -> None:
    assert mean(share_in_common(question) for question in PARAPHRASES) < 0.35
