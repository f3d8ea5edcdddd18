"""``codebase-mcp eval``: queries of a file, and of the repository itself, beside grep."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Shell

MakeRepo = Callable[..., Path]
QUERIES = """\
authenticate a user by password\tsrc/auth.py:5-10
wait longer after each failed attempt\tlib/retry.ts
parse a json file\tsrc/parsers/json_parser.py:4-7\tsrc/parsers/config_parser.py
check the password of the user\tREADME.md
"""


@pytest.fixture
def evaluate(shell: Shell) -> Shell:
    """Run ``eval`` in a project of the test's own, beside the repository."""
    project = f"test-{uuid.uuid4().hex[:12]}"

    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return shell("eval", "--repo", "repo", "--project", project, *arguments, text=text)

    return run


@pytest.fixture
def queries(tmp_path: Path) -> str:
    (tmp_path / "queries.tsv").write_text(QUERIES)
    return "queries.tsv"


def commit(root: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("_", "/", 1) + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    identity = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}  # fmt: skip # noqa: E501
    for arguments in (["add", "-A"], ["commit", "-q", "--no-gpg-sign", "-m", message]):
        subprocess.run(["git", *arguments], cwd=root, check=True, env={**os.environ, **identity})


@pytest.fixture
def history(make_repo: MakeRepo) -> Path:
    """A repository with a history of its own."""
    root = make_repo({})
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    sort = 'def order(rows):\n    """Puts invoices into the sequence of their due dates."""\n    return sorted(rows)\n'  # noqa: E501
    commit(root, "feat: sort invoices by due date (#1)", src_invoices=sort)
    commit(root, "Send reminders for unpaid invoices", src_reminders="def remind(): ...\n")
    commit(root, "Bump version to 1.2.3", src_version="VERSION = '1.2.3'\n")
    many = {f"src_file{n}": f"x = {n}\n" for n in range(6)}
    commit(root, "Move everything into another package", **many)
    return root


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_a_file_of_queries_is_measured_beside_grep(
    evaluate: Shell, make_repo: MakeRepo, queries: str
) -> None:
    make_repo()
    found = told(evaluate(queries, "--json"))
    assert (found["queries"], found["files"], found["is_rough"]) == (4, 8, True)
    first, second, third, last = found["results"]
    assert first["query"] == "authenticate a user by password"
    assert first["targets"] == [{"path": "src/auth.py", "span": [5, 10]}]
    assert (first["search_code"]["rank"], first["search_code"]["shows_lines"]) == (1, True)
    assert second["search_code"]["rank"] == 1
    assert second["search_code"]["shows_lines"] is None
    assert third["search_code"]["rank"] == 1
    assert last["search_code"]["rank"] != 1
    assert last["search_code"]["found"][0].startswith("src/auth.py:")
    assert last["grep"]["rank"] is None
    ours = found["search_code"]
    assert ours["recall_at_1"] == pytest.approx((1 + 1 + 0.5) / 4)
    low, high = ours["ndcg_interval"]
    assert low < ours["ndcg_at_10"] < high
    assert (found["grep"]["recall_at_10"], found["grep"]["missed"]) == (0.75, 0.25)
    # grep also looks into what tests and documents say.
    assert "tests/test_auth.py:1-5" in first["grep"]["found"]


def test_people_get_a_table_and_the_worst_queries(
    evaluate: Shell, make_repo: MakeRepo, queries: str
) -> None:
    make_repo()
    done = evaluate(queries, "--worst", "1")
    assert done.returncode == 0, done.stderr
    assert "repo  4 queries on 8 files" in done.stdout
    for row in ("recall@10", "MRR", "NDCG@10, 95 % interval", "tokens to the answer, median"):
        assert row in done.stdout
    assert "Fewer than 30 queries: the figures are rough" in done.stdout
    query, wanted, first = done.stdout.partition("The worst:\n")[2].splitlines()
    assert query.endswith(" check the password of the user")
    assert wanted.startswith("     wanted README.md (")
    assert first.startswith("     first  src/auth.py:")
    assert first.endswith("(grep missed it too)")


def test_changed_files_are_indexed_first(
    evaluate: Shell, make_repo: MakeRepo, tmp_path: Path
) -> None:
    root = make_repo()
    told(evaluate("-", "--json", text="retry\tlib/retry.ts\n"))
    (root / "src/ledger.py").write_text("def book_entry(ledger):\n    ledger.append(1)\n")
    found = told(evaluate("-", "--json", text="book an entry into the ledger\tsrc/ledger.py:1-2\n"))
    assert found["results"][0]["search_code"]["rank"] == 1
    assert found["files"] == 9


def test_a_history_and_its_docstrings_are_mined_and_measured(
    evaluate: Shell, history: Path
) -> None:
    found = told(evaluate("--mine", "--json"))
    asked = {one["query"]: [t["path"] for t in one["targets"]] for one in found["results"]}
    assert asked == {
        "sort invoices by due date": ["src/invoices.py"],
        "Send reminders for unpaid invoices": ["src/reminders.py"],
        "Puts invoices into the sequence of their due dates": ["src/invoices.py"],
    }
    assert {name: part["search_code"]["queries"] for name, part in found["groups"].items()} == {
        "commits": 2,
        "docstrings": 1,
    }
    assert all(one["search_code"]["rank"] for one in found["results"])
    table = evaluate("--mine", "all").stdout
    assert "an upper bound" in table
    commits = told(evaluate("--mine", "commits", "--json"))
    assert [one["group"] for one in commits["results"]] == ["commits"] * 2
    assert commits["groups"] == {}


def test_mined_queries_are_saved_edited_and_asked(
    evaluate: Shell, history: Path, tmp_path: Path
) -> None:
    done = evaluate("--mine", "commits", "--save", "mined.jsonl")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "2 queries in mined.jsonl")
    lines = (tmp_path / "mined.jsonl").read_text().splitlines()
    (tmp_path / "mined.jsonl").write_text(lines[0] + "\n")
    assert told(evaluate("mined.jsonl", "--json"))["queries"] == 1
    again = evaluate("--mine", "commits", "--save", "mined.jsonl")
    assert again.returncode == 1
    assert "mined.jsonl already exists" in again.stderr
    assert (tmp_path / "mined.jsonl").read_text().splitlines() == lines[:1]


def test_the_same_seed_mines_the_same(evaluate: Shell, history: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "3"), ("b", "3")):
        assert evaluate("--mine", "--count", "2", "--seed", seed, "--save", name).returncode == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert len((tmp_path / "a").read_text().splitlines()) == 2


def test_a_wrong_file_is_refused_before_anything_is_indexed(
    evaluate: Shell, make_repo: MakeRepo, tmp_path: Path
) -> None:
    make_repo()
    (tmp_path / "bad.tsv").write_text(
        "no target\nlogin\tsrc/login.py\nlogs\tdebug.log\nusers\tsrc/auth.py:12-99\n"
    )
    done = evaluate("bad.tsv")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bad.tsv: one thing to correct; nothing was done" in done.stderr
    assert "line 1, target: is missing: add a TAB and a path after the query" in done.stderr
    (tmp_path / "bad.tsv").write_text((tmp_path / "bad.tsv").read_text().split("\n", 1)[1])
    done = evaluate("bad.tsv", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "VALIDATION_ERROR"
    rules = [problem["constraint"] for problem in error["details"]["fields"]]
    missing = "is not an indexed file: missing, misspelt, ignored or not text"
    assert rules == [
        f"src/login.py {missing}",
        f"debug.log {missing}",
        "src/auth.py:12-99 has only 14 lines",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a FILE or --mine"),
        (["q.tsv", "--mine", "all"], "FILE and --mine contradict each other"),
        (["q.tsv", "--save", "x"], "--save writes mined queries"),
        (["q.tsv", "--limit", "5"], "--limit must be a whole number from 10 to 50"),
        (["--mine", "--count", "many"], "--count must be a whole number from 1 to 10000"),
        (["nowhere.tsv"], "nowhere.tsv: No such file or directory"),
        (["q.tsv", "--repo", "nowhere"], "Repository path does not exist"),
        (["--mine", "commits"], "No queries can be mined"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    evaluate: Shell, make_repo: MakeRepo, tmp_path: Path, arguments: list[str], message: str
) -> None:
    make_repo()
    (tmp_path / "q.tsv").write_text("retry\tlib/retry.ts\n")
    done = evaluate(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_what_is_wrong_with_the_standard_input_is_told_as_of_a_file(
    evaluate: Shell, make_repo: MakeRepo
) -> None:
    make_repo()
    done = evaluate("-", text="retry\tlib/retry.ts\nno target\n")
    assert done.returncode == 1
    assert "standard input: one thing to correct; nothing was done" in done.stderr
    assert "line 2, target" in done.stderr


def test_a_source_that_there_is_not_is_wrong_usage(evaluate: Shell, make_repo: MakeRepo) -> None:
    make_repo()
    assert evaluate("--mine", "issues").returncode == 2
