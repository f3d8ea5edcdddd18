"""A single word of a question that the code happens to hold does not make an answer sure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import codebase_mcp
from codebase_mcp.app.app import App
from codebase_mcp.search.confidence import LEAST_FIRST

PACKAGE = Path(codebase_mcp.__file__).parent

KEYRING = '''"""Signing keys, of which an old one is replaced by a new one now and then."""

import secrets
import time

ROTATION_DAYS = 90


def rotate(keyring, now=None):
    """Add a new signing key, and drop those that are past their rotation."""
    now = now or time.time()
    oldest = now - 2 * ROTATION_DAYS * 86_400
    keyring.append((now, secrets.token_bytes(32)))
    return [(made, key) for made, key in keyring if made >= oldest]


def rotation_due(keyring, now):
    """Whether the newest key is old enough for a rotation."""
    newest = max(made for made, _ in keyring)
    return now - newest > ROTATION_DAYS * 86_400
'''


@pytest.fixture(params=["database", "memory"])
async def indexed(
    app: App, by_database: App, tmp_path: Path, project_id: str, request: pytest.FixtureRequest
) -> App:
    """The keys amid some hundred chunks of other code, searched in the database or in memory."""
    for name in ("index", "database", "records"):
        ignored = shutil.ignore_patterns("*.pyc")
        shutil.copytree(PACKAGE / name, tmp_path / "code" / name, ignore=ignored)
    (tmp_path / "code" / "keyring.py").write_text(KEYRING)
    await app.index(tmp_path / "code", project_id)
    if request.param == "database":
        return by_database
    await app.search("anything", project_id)
    await app.memory_indexes.wait_idle()
    return app


@pytest.mark.usefixtures("loads_at_once")
async def test_one_word_of_several_is_doubted_and_the_whole_question_is_not(
    indexed: App, project_id: str
) -> None:
    for question in ("take a backend out of rotation", "rotate the picture by ninety degrees"):
        report = await indexed.search(question, project_id, with_help=True)
        first = report.answer.hits[0]
        assert (first.file_path, first.similarity_score) == ("keyring.py", LEAST_FIRST)
        assert report.help is not None
        assert report.help.doubt == "Perhaps not in this code."
    for question in ("rotate old signing keys", "when is a key due for rotation"):
        report = await indexed.search(question, project_id, with_help=True)
        assert report.answer.hits[0].file_path == "keyring.py"
        assert report.answer.hits[0].similarity_score >= 0.8
        assert report.help is None
