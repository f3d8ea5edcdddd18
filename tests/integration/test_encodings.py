"""Texts that are not in UTF-8 are found, shown and followed like others; binary files stay out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git
from tests.integration.indexes import found_paths

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import find_project
from codebase_mcp.search.search import Request

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

FRENCH = """\
# Gère les élèves d'une école.
KEY = "AKIA4FZQ7RNWUB3XSJ5M"


def calculer_moyenne(notes):
    # La moyenne pondérée, arrondie à l'unité près.
    return round(sum(notes) / len(notes))


def inscrire(élève):
    return élève
"""
RUSSIAN = '# -*- coding: koi8-r -*-\ndef read_ledger():\n    return "Читает бухгалтерскую книгу"\n'


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    root = make_repo(
        {
            "ecole.py": FRENCH.encode("latin-1"),
            "ledger.py": RUSSIAN.encode("koi8-r"),
            "wide.py": "def wide_road(): ...\n".encode("utf-16"),
            "plain.py": "def plain_sailing(): ...\n",
            "blob.py": bytes(range(1, 256)),
        }
    )
    git(root, "init", "-q")
    return root


async def test_a_text_in_latin_1_is_found_and_shown_as_it_is_with_its_secrets_masked(
    app: App, project_id: str, root: Path
) -> None:
    run = (await app.index(root, project_id)).run
    assert run.errors == ["Failed to process blob.py: File is not valid UTF-8"]
    assert run.encodings == {"windows-1252": 1, "koi8-r": 1, "utf-16-le": 1}
    report = await app.search("moyenne pondérée", project_id, Request(context_lines=50))
    hit = report.answer.hits[0]
    masked = FRENCH.replace("AKIA4FZQ7RNWUB3XSJ5M", "*" * 20)
    assert (hit.file_path, hit.start_line) == ("ecole.py", 1)
    assert hit.context_before + hit.content + hit.context_after == masked
    assert report.index.state == "ready"
    assert (await found_paths(app, project_id, "inscrire élève"))[0] == "ecole.py"
    assert (await found_paths(app, project_id, "бухгалтерскую книгу"))[0] == "ledger.py"


async def test_a_file_that_changes_its_encoding_is_followed(
    app: App, project_id: str, root: Path
) -> None:
    await app.index(root, project_id)
    (root / "ecole.py").write_text(FRENCH.replace("moyenne", "médiane"), "utf-8")
    (root / "plain.py").write_text("def été_indien(): ...  # à côté\n", "latin-1")
    assert "médiane" in (await app.search("médiane", project_id)).answer.hits[0].content
    report = await app.search("été indien", project_id)
    assert report.answer.hits[0].content == "def été_indien(): ...  # à côté\n"
    [facts] = await app.projects([report.project])
    assert facts.repositories[0].encodings == {"windows-1252": 1, "koi8-r": 1, "utf-16-le": 1}


async def test_a_branch_a_comparison_and_the_history_of_a_definition_read_it_too(
    app: App, project_id: str, root: Path
) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    (root / "ecole.py").write_bytes(FRENCH.replace("près", "inférieure").encode("latin-1"))
    git(root, "commit", "-qam", "two")
    await app.index(root, project_id)
    report = await app.search("arrondie à l'unité", project_id, ref="HEAD~1")
    assert "l'unité près" in report.answer.hits[0].content
    repository = await app.changes.repository(project_id)
    compared = await app.changes.compare(repository, "HEAD~1", "HEAD", direct=True)
    [difference] = compared.differences.files
    assert difference.symbols is not None
    assert [symbol.name for symbol in difference.symbols.changed] == ["calculer_moyenne"]
    [history] = (await app.history.of_symbol("calculer_moyenne", project_id)).histories.values()
    assert [event.change for event in history.events] == ["changed", "added"]
    report = await app.search("inscrire élève", project_id, with_history=True)
    assert report.last_changes[0] is not None
    assert report.last_changes[0].subject == "two"


async def test_what_an_earlier_version_left_out_comes_in_with_the_next_search(
    app: App, database: Database, project_id: str, root: Path
) -> None:
    await app.index(root, project_id)
    failure = json.dumps([["ecole.py", "File is not valid UTF-8"]])
    async with database.transaction(await find_project(database, project_id)) as tx:
        await tx.execute("DELETE FROM file WHERE path = 'ecole.py'")
        await tx.execute("UPDATE snapshot SET classifier = 2, failures = %(f)s", f=failure)
    app.trees.forget(await find_project(database, project_id))
    assert (await found_paths(app, project_id, "moyenne pondérée"))[0] == "ecole.py"
    assert (await app.index(root, project_id)).run.files_indexed == 0
