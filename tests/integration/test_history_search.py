"""Commits are found by what they were for, and by who, when and where."""

from __future__ import annotations

import io
import json
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.test_history import git

from codebase_mcp.app.app import App
from codebase_mcp.cli.main import run
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.server import Embedded
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.commit_history import commit_text
from codebase_mcp.search.history import FoundCommit, HistoryFilters, newest_changes
from codebase_mcp.search.search import Request
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.commit_log import PathChange
from codebase_mcp.tools.replies.changes import history_text

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

WHY = "why was the retry limit raised"
RAISED = (
    "Try uploads ten times instead of three\n\nDon't look here.\n"
    "The storage is often away for a minute, so the retry limit was too low.\n\n"
    "Signed-off-by: Ann <ann@example.org>"
)


def commit(
    root: Path,
    message: str,
    files: dict[str, str | None],
    *,
    author: str = "Ann <ann@example.org>",
    at: str = "2024-01-01T12:00:00Z",
) -> str:
    """Commit some files, deleting those that are None; its hash."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
    git(root, "add", "-A")
    (root.parent / "message").write_text(message)
    arguments = ("--allow-empty", "--allow-empty-message", "--cleanup=verbatim")
    git(
        root, "commit", "-q", *arguments, f"--author={author}", f"--date={at}", "-F",
        str(root.parent / "message"), at=at,
    )  # fmt: skip
    return git(root, "rev-parse", "HEAD").strip()


@pytest.fixture
def repository(make_repo: MakeRepo) -> Path:
    root = make_repo({".gitignore": "message\n"})
    git(root, "init", "-q", "-b", "main")
    commit(root, "Draw the logo in blue", {"art/logo.svg": "<svg/>"}, at="2024-01-01T12:00:00Z")
    commit(root, RAISED, {"src/http/upload.py": "LIMIT = 10\n"}, at="2024-02-01T12:00:00Z")
    commit(
        root,
        "Sort the list of countries by name",
        {
            "src/http/countries.py": "def countries():\n    return sorted(NAMES)\n",
            "src/http2/x.py": "x = 1\n",
        },
        author="Bob Öz <BOB@example.org>",
        at="2024-03-01T12:00:00Z",
    )
    return root


async def found(app: App, project_id: str, query: str = "", **filters: object) -> list[FoundCommit]:
    report = await app.history.search(query, project_id, HistoryFilters(**filters))  # type: ignore[arg-type]
    assert report.notices == ()
    return list(report.commits)


def subjects(commits: list[FoundCommit]) -> list[str]:
    return [commit.subject for commit in commits]


async def test_a_question_finds_the_commit_with_what_it_changed_and_why(
    app: App, repository: Path, project_id: str
) -> None:
    await app.index(repository, project_id, history_depth=10)
    best, *others = await found(app, project_id, WHY)
    assert best.subject == "Try uploads ten times instead of three"
    assert best.excerpt.startswith("The storage is often away")
    assert best.changes == (PathChange("src/http/upload.py", 1, 0),)
    assert (best.added, best.removed, best.paths_total) == (1, 0, 1)
    assert best.authored_at == datetime(2024, 2, 1, 12, tzinfo=UTC)
    assert best.score is not None
    assert 0.6 < best.score <= 1
    assert all(other.score is not None and other.score < best.score for other in others)


async def test_a_commit_is_found_by_the_words_of_its_paths(
    app: App, repository: Path, project_id: str
) -> None:
    commit(repository, "Fix it", {"src/billing/invoice_footer.py": "x = 1\n"})
    await app.index(repository, project_id, history_depth=10)
    assert subjects(await found(app, project_id, "invoice footer"))[0] == "Fix it"


async def test_a_question_about_something_else_finds_nothing(
    app: App, repository: Path, project_id: str
) -> None:
    await app.index(repository, project_id, history_depth=10)
    assert await found(app, project_id, "how long is bread dough left to rise") == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["Sort", "Try", "Draw"]),
        ({"path": "src/http"}, ["Sort", "Try"]),
        ({"path": "src/http/upload.py"}, ["Try"]),
        ({"path": "src/htt"}, []),
        ({"author": "bob"}, ["Sort"]),
        ({"author": "öz <bob@EXAMPLE"}, ["Sort"]),
        ({"author": "%"}, []),
        ({"since": datetime(2024, 2, 1, 12, tzinfo=UTC)}, ["Sort", "Try"]),
        ({"until": datetime(2024, 2, 1, 12, tzinfo=UTC)}, ["Draw"]),
        ({"since": datetime(2024, 1, 2, tzinfo=UTC), "author": "ann"}, ["Try"]),
    ],
)
async def test_without_a_question_the_newest_that_pass_the_filters_come_first(
    app: App,
    repository: Path,
    project_id: str,
    filters: dict[str, object],
    expected: list[str],
) -> None:
    await app.index(repository, project_id, history_depth=10)
    commits = await found(app, project_id, **filters)
    assert [commit.subject.split()[0] for commit in commits] == expected
    assert all(commit.score is None for commit in commits)


async def test_filters_apply_before_the_cut(app: App, repository: Path, project_id: str) -> None:
    for number in range(150):
        commit(repository, f"Raise the retry limit again, time {number}", {"a.py": str(number)})
    await app.index(repository, project_id, history_depth=1_000)
    assert len(await found(app, project_id, WHY)) == 10
    [only] = await found(app, project_id, WHY, path="src/http/upload.py")
    assert only.subject == "Try uploads ten times instead of three"
    report = await app.history.search(WHY, project_id, HistoryFilters(path="a.py"), limit=50)
    assert len(report.commits) == 50


async def test_a_history_that_was_never_read_is_read_by_the_first_search(
    app: App, repository: Path, project_id: str
) -> None:
    index = await app.index(repository, project_id)
    assert index.commits == 0
    report = await app.history.search(WHY, project_id)
    assert report.read == {index.run.repository_id: 3}
    assert report.commits[0].subject == "Try uploads ten times instead of three"
    assert (await app.history.search(WHY, project_id)).read == {}
    assert (await app.index(repository, project_id)).commits == 3


async def test_a_search_does_not_wait_for_an_index_run(
    app: App, settings: Settings, repository: Path, project_id: str
) -> None:
    index = await app.index(repository, project_id, history_depth=10)
    commit(repository, "Raise the retry limit to twenty", {"a.py": "20"})
    other = await Database.open(database_target(settings))
    try:
        async with other.session_locks(index.project, [index_lock(index.run.repository_id)]):
            report = await app.history.search(WHY, project_id)
    finally:
        await other.close()
    assert report.notices == (
        f"The history of {repository} could not be read: an index run is in progress",
    )
    assert report.commits[0].subject == "Try uploads ten times instead of three"
    assert len(await found(app, project_id)) == 4


async def test_what_was_committed_or_rewritten_since_is_found_at_once_and_what_is_gone_never(
    app: App, repository: Path, project_id: str
) -> None:
    await app.index(repository, project_id, history_depth=10)
    commit(repository, "Raise the retry limit to twenty", {"a.py": "20"})
    assert subjects(await found(app, project_id, WHY))[0] == "Raise the retry limit to twenty"
    git(repository, "commit", "-q", "--amend", "-m", "Raise the retry limit to thirty")
    amended = subjects(await found(app, project_id, WHY))
    assert "Raise the retry limit to thirty" in amended
    assert "Raise the retry limit to twenty" not in amended
    git(repository, "reset", "-q", "--hard", "HEAD~2")
    assert "Try" in subjects(await found(app, project_id, WHY))[0]
    assert len(await found(app, project_id)) == 2


async def test_a_force_push_that_is_fetched_leaves_the_new_history_alone(
    app: App, repository: Path, project_id: str, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", f"file://{repository}", str(clone))
    await app.index(clone, project_id, history_depth=10)
    git(repository, "checkout", "-q", "--orphan", "anew")
    commit(repository, "Raise the retry limit in another history", {"b.py": "1"})
    git(repository, "branch", "-q", "-f", "main", "anew")
    git(clone, "fetch", "-q", "--force", "origin", "main:refs/remotes/origin/main")
    git(clone, "reset", "-q", "--hard", "origin/main")
    assert subjects(await found(app, project_id)) == ["Raise the retry limit in another history"]


async def test_the_commits_of_indexed_branches_are_found_and_their_branches_named(
    app: App, repository: Path, project_id: str
) -> None:
    git(repository, "switch", "-q", "-c", "develop")
    commit(repository, "Raise the retry limit to fifty", {"a.py": "5"}, at="2024-04-01T12:00:00Z")
    git(repository, "branch", "-q", "topic/next")
    commit(repository, "Count the retries", {"c.py": "6"}, at="2024-05-01T12:00:00Z")
    git(repository, "switch", "-q", "main")
    await app.index(repository, project_id, history_depth=10)
    assert len(await found(app, project_id)) == 3
    report = await app.index(repository, project_id, branches=["main", "develop", "topic/next"])
    assert report.commits == 5
    newest = await found(app, project_id)
    assert [(one.subject.split()[0], one.branches) for one in newest] == [
        ("Count", ("develop",)),
        ("Raise", ("develop", "topic/next")),
        ("Sort", ()),
        ("Try", ()),
        ("Draw", ()),
    ]
    best = (await found(app, project_id, WHY))[0]
    assert (best.hash, best.branches) == (newest[1].hash, newest[1].branches)
    text = history_text(await app.history.search(WHY, project_id))
    assert "(develop, topic/next)  Raise the retry limit to fifty" in text
    git(repository, "merge", "-q", "topic/next")
    assert [one.branches for one in await found(app, project_id)][:3] == [("develop",), (), ()]
    git(repository, "branch", "-q", "-D", "develop")
    assert subjects(await found(app, project_id))[0].startswith("Raise")
    await app.index(repository, project_id, history_depth=2)
    assert len(await found(app, project_id)) == 2


async def test_a_branch_that_is_rewritten_takes_its_old_commits_with_it(
    app: App, repository: Path, project_id: str
) -> None:
    git(repository, "switch", "-q", "-c", "develop", "HEAD~1")
    commit(repository, "Raise the retry limit to fifty", {"a.py": "5"})
    git(repository, "switch", "-q", "main")
    await app.index(repository, project_id, branches=["develop"], history_depth=10)
    git(repository, "switch", "-q", "develop")
    git(repository, "rebase", "-q", "main")
    git(repository, "commit", "-q", "--amend", "-m", "Raise the retry limit to sixty")
    git(repository, "switch", "-q", "main")
    after = subjects(await found(app, project_id))
    assert "Raise the retry limit to sixty" in after
    assert len(after) == 4
    async with app.enter(project_id, readonly=True) as here:
        rows = await here.tx.fetch_all(
            "SELECT encode(hash, 'hex') FROM commit_entry ORDER BY position DESC"
        )
    assert [row[0] for row in rows] == git(repository, "rev-list", "main", "develop").split()


async def test_what_only_another_branch_changed_is_not_taken_for_the_last_change(
    app: App, repository: Path, project_id: str
) -> None:
    git(repository, "switch", "-q", "-c", "develop")
    commit(repository, "Other limits", {"src/http/upload.py": "LIMIT = 20\n"})
    git(repository, "switch", "-q", "main")
    report = await app.index(repository, project_id, branches=["develop"], history_depth=10)
    of_file = (report.run.repository_id, "src/http/upload.py")
    async with app.enter(project_id, readonly=True) as here:
        [change] = await newest_changes(here.tx, [of_file])
    assert change is not None
    assert change.subject.startswith("Try uploads")


async def test_where_a_shallow_clone_ends_nothing_is_said_of_paths(
    app: App, repository: Path, project_id: str, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    await app.index(clone, project_id)
    [edge] = await found(app, project_id, "countries by name")
    assert (edge.changes, edge.paths_total, edge.added) == ((), None, None)


async def test_a_commit_that_several_repositories_have_comes_once(
    app: App, repository: Path, project_id: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        git(tmp_path, "clone", "-q", f"file://{repository}", str(tmp_path / name))
        await app.index(tmp_path / name, project_id)
    assert len(await found(app, project_id)) == 3
    assert subjects(await found(app, project_id, WHY)).count(RAISED.partition("\n")[0]) == 1


async def test_a_merge_is_found_by_the_paths_that_it_brings_unless_nothing_is_asked(
    app: App, repository: Path, project_id: str
) -> None:
    git(repository, "switch", "-q", "-c", "side")
    commit(repository, "step", {"src/cache.py": "x = 1\n"})
    git(repository, "switch", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "side", "-m", "Evict the oldest sessions first (#12)")
    await app.index(repository, project_id)
    commits = await found(app, project_id, "evict oldest sessions", path="src/cache.py")
    [merge] = [one for one in commits if one.is_merge]
    assert merge.changes == (PathChange("src/cache.py", 1, 0),)
    assert subjects(await found(app, project_id, path="src/cache.py")) == ["step"]


def test_messages_of_strangers_cannot_steer_a_terminal_or_be_too_long(
    embedded: Embedded, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "Retry limit \x1b]0;owned\x07 \u202e raised\n\n" + "retry limit \x1b[2J " * 60_000
    commit(repository, evil, {"src/\x1b[31m.py": "x"}, author="E\x1bve <\x1b@x>")
    commit(repository, "", {"empty.py": "x"})
    options = ["--project", "test-log-hostile", f"--data-dir={embedded.data_dir}"]
    assert run(["index", str(repository), *options]) == 0
    for arguments in (["retry limit raised"], ["--path", "src"], ["--symbol", "LIMIT"]):
        for form in ([], ["--json"]):
            assert run(["log-search", *arguments, *form, *options]) == 0
            output = capsys.readouterr().out
            assert "LIMIT" in output if "--symbol" in arguments else "raised" in output
            assert len(output) < 60_000
            assert not {"\x1b", "\x07", "\u202e"} & set(output)
    assert run(["remove", str(repository), *options]) == 0


async def test_after_a_file_was_erased_no_commit_is_found_by_its_path(
    app: App, repository: Path, project_id: str
) -> None:
    git(repository, "mv", "src/http/upload.py", "src/http/secretname.py")
    commit(repository, "Rename", {})
    await app.index(repository, project_id, history_depth=10)
    assert subjects(await found(app, project_id, "secretname"))[0] == "Rename"
    target = await app.data.find(repository / "src/http/secretname.py", project_id)
    purged = await app.data.purge(target)
    assert purged.is_complete
    assert (purged.before["commit_entry"], purged.before["commit_text"]) == (1, 1)
    assert await found(app, project_id, "secretname") == []
    [renamed] = await found(app, project_id, "rename", path="src/http/upload.py")
    assert renamed.changes[0] == PathChange("src/http/upload.py", 0, 0)
    assert len(await found(app, project_id)) == 4


async def test_a_restored_backup_answers_without_the_repository(
    app: App, repository: Path, project_id: str
) -> None:
    await app.index(repository, project_id, history_depth=10)
    file = io.BytesIO()
    await app.data.backup(file, project_id)
    shutil.rmtree(repository)
    other_id = f"other-{uuid.uuid4().hex[:12]}"
    try:
        await app.data.restore(io.BytesIO(file.getvalue()), "backup", other_id)
        assert subjects(await found(app, other_id, WHY))[0].startswith("Try uploads")
        assert len(await found(app, other_id)) == 3
    finally:
        with suppress(ProjectNotFound):
            await app.drop_project(other_id)


async def test_commits_of_another_model_or_of_an_earlier_version_are_made_searchable_first(
    app: App, repository: Path, project_id: str
) -> None:
    await app.index(repository, project_id, history_depth=10)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE commit_text SET model = 'old', dense = '[1,0]'")
        await here.tx.execute("UPDATE commit_entry SET path_added = NULL, lines_added = NULL")
    best = (await found(app, project_id, WHY))[0]
    assert (best.subject, best.added) == ("Try uploads ten times instead of three", None)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE repository SET history_tip = NULL")
    assert (await found(app, project_id, WHY))[0].added == 1


async def test_a_result_says_which_commit_last_changed_its_lines(
    app: App, repository: Path, project_id: str
) -> None:
    upload = "def upload(file):\n    return send(file, tries=10)\n"
    commit(repository, "Upload files", {"up.py": upload}, at="2024-04-01T00:00:00Z")
    await app.index(repository, project_id)
    request = Request(limit=3, by_definition=True)

    async def last(query: str) -> list[tuple[str | None, str]]:
        report = await app.search(query, project_id, request, with_history=True)
        changes = report.last_changes
        assert len(changes) == len(report.answer.hits)
        return [(c.author, c.subject) if c else (None, "unknown") for c in changes]

    assert (await last("upload"))[0] == ("Ann", "Upload files")
    (repository / "up.py").write_text("# A comment above.\n\n\n" + "x = 1\n" * 400 + upload)
    await app.index(repository, project_id)
    assert ("Ann", "Upload files") in await last("upload")
    (repository / "up.py").write_text(upload.replace("10", "11"))
    await app.index(repository, project_id)
    assert (await last("upload"))[0] == ("", "uncommitted")
    assert (await app.search("upload", project_id, request)).last_changes == ()


def test_the_shell_searches_the_history(
    embedded: Embedded, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--project", "test-log-search", f"--data-dir={embedded.data_dir}"]
    try:
        assert run(["index", str(repository), *here]) == 0
        capsys.readouterr()
        assert run(["log-search", *WHY.split(), *here]) == 0
        first, commit_line, *_ = capsys.readouterr().out.splitlines()
        assert first.startswith(f"Read 3 commits of {repository}")
        assert "2024-02-01 Ann  +1 -0" in commit_line
        assert commit_line.endswith("Try uploads ten times instead of three")
        assert run(["log-search", "--author", "bob", "--until", "2024-03-01", "--json", *here]) == 0
        [only] = json.loads(capsys.readouterr().out)["commits"]
        assert (only["lines_added"], only["paths_total"]) == (3, 2)
        assert run(["log-search", "--until", "2024-02-29T23:00:00+00:00", "--limit=1", *here]) == 0
        assert "Try uploads" in capsys.readouterr().out
        assert run(["search", "countries", "--with-history", *here]) == 0
        assert "changed 2024-03-01" in capsys.readouterr().out
        assert run(["search", "countries", "--with-history", "--json", *here]) == 0
        change = json.loads(capsys.readouterr().out)["results"][0]["last_change"]
        assert change["subject"] == "Sort the list of countries by name"
        assert (len(change["commit"]), change["date"]) == (40, "2024-03-01T12:00:00+00:00")
        assert run(["log-search", "--symbol", "LIMIT", *here]) == 0
        assert "commits of" in capsys.readouterr().out
        for wrong in (
            [],
            ["--since", "yesterday"],
            ["x", "--limit", "51"],
            ["x", "--symbol", "y"],
            ["--symbol", ".."],
        ):
            assert run(["log-search", *wrong, *here]) == 1, wrong
    finally:
        assert run(["remove", str(repository), *here]) == 0


def test_the_shell_says_that_there_is_no_history_outside_git(
    embedded: Embedded, make_repo: MakeRepo, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_repo()
    here = ["--project", "test-log-outside", f"--data-dir={embedded.data_dir}"]
    assert run(["index", str(root), *here]) == 0
    for arguments in (["passwords"], ["--symbol", "authenticate"]):
        capsys.readouterr()
        assert run(["log-search", *arguments, *here]) == 0
        assert "No repository of the project" in capsys.readouterr().out
    assert run(["remove", str(root), *here]) == 0


@pytest.mark.parametrize(
    ("message", "paths", "subject", "whole"),
    [
        ("One\n\nTwo.", ["a/b_c.py", "a/d.py"], "One", "One\n\nTwo.\na b c py d"),
        ("One\n\nSigned-off-by: A <a@b>\nCo-authored-by: B <b@c>\nChange-Id: I1", [], "One", "One"),
        ("", [], "", ""),
    ],
)
def test_a_commit_is_embedded_without_trailers_and_with_each_word_of_its_paths_once(
    message: str, paths: list[str], subject: str, whole: str
) -> None:
    assert commit_text(message, paths) == (subject, whole)
