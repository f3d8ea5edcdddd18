"""Scores mean the same in a repository of a few files as in a large one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.small_repositories import (
    ABSENT,
    REPOSITORIES,
    SENTENCES,
    WORDS,
)

from codebase_mcp.app.app import App
from codebase_mcp.search.help import WEAK

pytestmark = pytest.mark.parametrize("name", REPOSITORIES)

# From this score on a place is a good one.
GOOD = 0.8


@pytest.fixture
async def indexed(app: App, make_repo: Callable[..., Path], project_id: str, name: str) -> str:
    """A project with one of the repositories."""
    await app.index(make_repo(REPOSITORIES[name]), project_id)
    return project_id


async def test_what_is_not_there_is_never_sure_and_said_to_be_doubtful(
    app: App, indexed: str
) -> None:
    for question in ABSENT:
        report = await app.search(question, indexed, with_help=True)
        if report.answer.hits:
            assert report.answer.hits[0].similarity_score < WEAK, question
            assert report.help is not None
            assert report.help.doubt is not None, question


async def test_a_sentence_of_the_code_finds_its_place(app: App, indexed: str, name: str) -> None:
    for sentence, path in SENTENCES[name].items():
        report = await app.search(sentence, indexed, with_help=True)
        first = report.answer.hits[0]
        assert first.file_path == path, sentence
        assert first.similarity_score >= GOOD, sentence
        assert report.help is None


async def test_a_parameter_a_local_name_and_a_word_of_a_literal_are_found(
    app: App, indexed: str, name: str
) -> None:
    for word, path in WORDS[name].items():
        report = await app.search(word, indexed, with_help=True)
        assert path in [hit.file_path for hit in report.answer.hits], word
        assert report.help is None, word
