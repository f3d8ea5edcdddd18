"""Secrets never enter the index, and leave it when an earlier version had stored them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedding_server import EmbeddingServer
from tests.integration.secondary_models import until_complete
from tests.integration.test_history import commit, git
from tests.integration.test_purge import rows_with

from codebase_mcp.access.health import model_notices
from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import backfilling
from codebase_mcp.settings.loading import Settings

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from masking import CORPUS, read_forms

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

FORMS = read_forms(CORPUS / "forms.jsonl")
[TOKEN] = next(form.secrets for form in FORMS if form.id == "github-pat-classic")
PEM = next(form for form in FORMS if form.id == "pem-rsa")
CODE = f'def connect():\n    token = "{TOKEN}"\n    return Client(token)\n'
SECRET_FILES = {
    ".env": "GREETING=unheardofgreeting\n",
    "deploy/id_rsa": PEM.text,
    "certs/server.pem": PEM.text,
    ".aws/credentials": "[default]\nregion = unheardofgreeting\n",
    "main.tfstate": '{"greeting": "unheardofgreeting"}\n',
    "notes.txt": PEM.text,
}


async def test_no_secret_of_the_corpus_is_in_any_table(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    forms = FORMS[::3]
    await app.index(
        make_repo({f"src/place_{n}.txt": f.text for n, f in enumerate(forms)}), project_id
    )
    secrets = [secret for form in forms for secret in form.secrets]
    stored = [secret for secret in secrets if await rows_with(app, project_id, secret)]
    assert len(stored) <= 0.03 * len(secrets)


async def test_secret_files_are_left_out_and_counted(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": CODE, ".env.example": "GREETING=hello\n"} | SECRET_FILES)
    run = (await app.index(root, project_id)).run
    assert (run.files_indexed, run.files_skipped) == (2, {"secret": len(SECRET_FILES)})
    assert await rows_with(app, project_id, "unheardofgreeting") == {}
    assert await rows_with(app, project_id, PEM.secrets[0]) == {}


async def test_a_masked_hit_is_found_and_agrees_with_its_file(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": CODE})
    await app.index(root, project_id)
    [hit] = (await app.search("connect", project_id)).answer.hits
    assert hit.content == CODE.replace(TOKEN, "*" * len(TOKEN))
    (root / "main.py").write_text(CODE.replace("Client", "Server"))
    [hit] = (await app.search("connect", project_id)).answer.hits
    assert "Server" in hit.content
    assert TOKEN not in hit.content


async def test_whoever_runs_the_server_may_show_the_secrets_of_files_and_hide_them_again(
    app: App, settings: Settings, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": CODE, "copy.py": CODE, ".env": f"TOKEN={TOKEN}\n"})
    await app.index(root, project_id)
    async with await App.open(replace(settings, include_secrets=("main.py", ".env"))) as open_app:
        run = (await open_app.index(root, project_id)).run
        assert (run.files_skipped, run.secrets_masked) == ({}, 1)
        assert (await rows_with(open_app, project_id, TOKEN))["blob"] == 2
    run = (await app.index(root, project_id)).run
    assert (run.files_skipped, run.secrets_masked) == ({"secret": 1}, 2)
    assert await rows_with(app, project_id, TOKEN) == {}


async def test_a_repository_cannot_show_its_secrets(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    context = 'include_secrets = ["*"]\n[git]\ninclude_secrets = ["*"]\n'
    root = make_repo({"main.py": CODE, ".env": "A=1\n", ".mcp-context.toml": context})
    report = await app.index(root, project_id)
    assert report.run.files_skipped == {"secret": 1}
    assert len(report.repository.warnings) == 2
    assert await rows_with(app, project_id, TOKEN) == {}


async def test_an_index_made_before_is_cleaned_by_the_next_run(
    app: App, settings: Settings, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": CODE, "lib/.env": f"TOKEN={TOKEN}\n"})
    async with await App.open(replace(settings, include_secrets=("*",))) as before:
        await before.index(root, project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE repository SET selected_by = ''")
        old = "UPDATE profile SET fingerprint = '1.0.0-' || split_part(fingerprint, '-', 2)"
        await here.tx.execute(old)
    assert await rows_with(app, project_id, TOKEN)
    await app.index(root, project_id)
    assert await rows_with(app, project_id, TOKEN) == {}


async def test_an_index_of_earlier_rules_is_named_until_it_is_made_anew(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": CODE})
    await app.index(root, project_id)
    async with app.enter(project_id) as here:
        former = r"UPDATE profile SET fingerprint = regexp_replace(fingerprint, '\d+-', '0-')"
        await here.tx.execute(former)
    assert "may show secrets that this version masks" in await notices(app)
    await app.index(root, project_id)
    assert await notices(app) == ""


async def notices(app: App) -> str:
    repositories = [tree for project in await app.projects() for tree in project.repositories]
    return " ".join(model_notices(repositories, app.models))


async def test_a_file_whose_name_holds_a_token_is_left_out(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": "x = 1\n", f"backup-{TOKEN}/a.py": "y = 2\n"})
    run = (await app.index(root, project_id)).run
    assert (run.files_indexed, run.files_skipped) == (1, {"secret": 1})


async def test_commits_and_bare_repositories_show_no_secret_either(
    app: App, project_id: str, make_repo: MakeRepo, tmp_path: Path
) -> None:
    root = make_repo({"main.py": CODE} | SECRET_FILES)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-Af")
    commit(root, f"Try the token\n\nIt was {TOKEN} so far.")
    git(root, "commit", "-q", "--amend", "--no-edit", f"--author={TOKEN} <ann@example.com>")
    (root / "main.py").write_text("def connect():\n    return None\n")
    git(root, "add", "-Af")
    commit(root, "Remove it")
    git(tmp_path, "clone", "-q", "--bare", str(root), "served.git")
    run = (await app.index(tmp_path / "served.git", project_id, history_depth=5)).run
    assert run.files_skipped == {"secret": len(SECRET_FILES)}
    hits = (await app.search("connect", project_id, ref="HEAD~1")).answer.hits
    assert hits[0].content == CODE.replace(TOKEN, "*" * len(TOKEN))
    report = await app.history.search("try the token", project_id)
    assert report.commits[0].message.endswith("*" * len(TOKEN) + " so far.")
    assert report.commits[0].author_name == "*" * len(TOKEN)
    assert await rows_with(app, project_id, TOKEN) == {}
    assert await rows_with(app, project_id, PEM.secrets[0]) == {}


async def test_messages_that_an_earlier_version_stored_are_masked_by_the_next_run(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"main.py": "x = 1\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    commit(root, "A first commit")
    await app.index(root, project_id, history_depth=5)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE commit_entry SET message = %(text)s", text=f"With {TOKEN}")
        await here.tx.execute("UPDATE commit_text SET model = '1.1-old'")
    await app.index(root, project_id)
    assert await rows_with(app, project_id, TOKEN) == {}


async def test_no_secret_is_sent_to_a_service_that_embeds(
    both_models: App, server: EmbeddingServer, project_id: str, make_repo: MakeRepo
) -> None:
    await both_models.index(make_repo({"main.py": CODE} | SECRET_FILES), project_id)
    async with backfilling(both_models):
        await until_complete(both_models, project_id)
    sent = repr(server.requests)
    assert "def connect" in sent
    assert TOKEN not in sent
    assert "unheardofgreeting" not in sent
    assert PEM.secrets[0] not in sent


async def test_a_question_is_masked_before_its_lines_are_joined_for_a_service(
    both_models: App, server: EmbeddingServer, project_id: str, make_repo: MakeRepo
) -> None:
    await both_models.index(make_repo({"main.py": CODE}), project_id)
    async with backfilling(both_models):
        await until_complete(both_models, project_id)
    await both_models.search("Why?\nDB_PASSWORD=regenschirm\nIt says connect", project_id)
    sent = repr(server.requests)
    assert "It says connect" in sent
    assert "regenschirm" not in sent
