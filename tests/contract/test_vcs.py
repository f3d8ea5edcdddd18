"""The tool ``vcs``: branches compared, and what a change touches, through a real client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from tests.contract.conftest import Caller
from tests.git import git

from codebase_mcp.app.app import App
from codebase_mcp.database.projects import find_project
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
BODY = "def {}(number):\n    return [number * factor for factor in range(100)]\n"


@pytest.fixture
def toolsets() -> list[str]:
    return ["vcs"]


def commit(root: Path, files: dict[str, str | None], message: str = "change") -> str:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink() if content is None else file.write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
async def repository(make_repo: MakeRepo, app: App, project_id: str) -> Path:
    """A service whose test changed with it four times of five; ``feature`` changes it alone."""
    root = make_repo({"README.md": "# Shop\n"})
    git(root, "init", "-q", "-b", "main")
    commit(root, {"README.md": "# A shop\n", "other.py": "x = 1\n"})
    for number in range(5):
        files: dict[str, str | None] = {
            "src/cart.py": f"def total(cart):\n    return {number}\n\n\n{BODY.format('old')}"
        }
        if number:
            files["tests/test_cart.py"] = f"def test_total():\n    assert total([]) == {number}\n"
        commit(root, files)
    git(root, "checkout", "-q", "-b", "feature")
    commit(
        root,
        {
            "src/cart.py": "def total(cart):\n    return sum(cart)\n",
            "src/lib.py": BODY.format("old"),
            "other.py": None,
        },
    )
    git(root, "checkout", "-q", "main")
    await app.index(root, project_id, history_depth=100)
    return root


async def test_branches_are_compared_by_files_and_definitions(
    repository: Path, call: Caller, project_id: str
) -> None:
    reply = await call.ok(
        "vcs",
        operation="compare_branches",
        collection=project_id,
        branch_a="main",
        branch_b="feature",
    )
    assert (reply["branch_a"], reply["branch_b"]) == ("main", "feature")
    assert (reply["commits_ahead"], reply["commits_behind"], reply["files_changed"]) == (1, 0, 3)
    other, cart, lib = reply["differences"]
    assert (other["path"], other["status"]) == ("other.py", "removed")
    assert [one["name"] for one in other["symbols_removed"]] == ["x"]
    assert (cart["lines_added"], cart["lines_removed"]) == (1, 5)
    assert cart["symbols_changed"] == [
        {"name": "total", "kind": "function", "start_line": 1, "end_line": 2}
    ]
    assert lib["symbols_moved"] == [
        {
            "name": "old", "kind": "function", "start_line": 1, "end_line": 2,
            "old_name": "old", "old_path": "src/cart.py",
        }
    ]  # fmt: skip
    assert reply["differences_left_out"] == 0
    assert reply["base_commit"] == git(repository, "rev-parse", "main")


async def test_a_token_in_the_name_of_a_branch_or_a_definition_is_masked(
    repository: Path, call: Caller, project_id: str
) -> None:
    token = "ghp_" + "wMsw4ytmgMQ98o6pUaoXZM8NXNIbXU14NGHO"
    git(repository, "checkout", "-q", "-b", token, "main")
    commit(repository, {"new.py": BODY.format(token)})
    for operation in ("compare_branches", "analyze_impact"):
        reply = await call.ok(
            "vcs",
            operation=operation,
            collection=project_id,
            branch_a="main",
            branch_b=token,
        )
        assert token not in str(reply)
        assert "*" * len(token) in str(reply)


async def test_the_names_of_other_clients_are_accepted(
    repository: Path, call: Caller, project_id: str
) -> None:
    reply = await call.ok(
        "vcs",
        action="compare_branches",
        project_id=project_id,
        base_branch="feature",
        target_branch="main",
        limit=1,
    )
    assert (reply["branch_a"], reply["commits_ahead"], reply["commits_behind"]) == ("feature", 0, 1)
    assert (reply["files_changed"], reply["differences"]) == (0, [])


async def test_the_impact_of_a_branch_names_what_usually_changes_too(
    repository: Path, call: Caller, project_id: str
) -> None:
    reply = await call.ok(
        "vcs",
        operation="analyze_impact",
        collection=project_id,
        branch_a="main",
        branch_b="feature",
    )
    assert reply["change"] == "main...feature"
    assert reply["changes_together"] == [
        {
            "path": "tests/test_cart.py", "is_test": True, "changed_file": "src/cart.py",
            "support": 4, "confidence": 0.8,
        }
    ]  # fmt: skip
    names = {reason["name"] for reason in reply["reasons"]}
    assert names >= {"definitions_removed", "companions_left_alone", "no_test_changed"}
    left = 1.0
    for reason in reply["reasons"]:
        left *= 1 - reason["points"]
    assert reply["score"] == pytest.approx(1 - left, abs=0.005)
    places = [(one["path"], one["symbol"]) for one in reply["look_at_first"]]
    assert places[0] == ("tests/test_cart.py", None)
    assert places.index(("other.py", "x")) < places.index(("src/cart.py", "total"))
    assert reply["history_commits"] == 6


async def test_a_commit_is_no_evidence_for_itself(
    repository: Path, call: Caller, project_id: str
) -> None:
    reply = await call.ok("vcs", operation="analyze_impact", collection=project_id, commit="main~2")
    assert reply["change"] == git(repository, "rev-parse", "main~2")
    assert reply["changes_together"] == []
    assert {one["path"] for one in reply["differences"]} == {"src/cart.py", "tests/test_cart.py"}
    first = await call.ok("vcs", operation="analyze_impact", collection=project_id, commit="main~5")
    assert {one["status"] for one in first["differences"]} == {"added"}


async def test_uncommitted_work_has_an_impact(
    repository: Path, call: Caller, project_id: str
) -> None:
    (repository / "src/cart.py").write_text("def total(cart):\n    return 7\n")
    reply = await call.ok(
        "vcs", operation="analyze_impact", collection=project_id, uncommitted=True
    )
    [one] = reply["differences"]
    assert [symbol["name"] for symbol in one["symbols_changed"]] == ["total"]
    assert [one["confidence"] for one in reply["changes_together"]] == [0.8]


async def test_agents_get_a_text(
    repository: Path, settings: Settings, project_id: str, tmp_path: Path, mode: Any
) -> None:
    holder = AppHolder(replace(settings, project_dir=tmp_path, replies="text"))
    async with Client(server_of(holder, ["vcs"]), mode=mode) as client:
        compared = {"collection": project_id, "branch_a": "main", "branch_b": "feature"}
        result = await client.call_tool("vcs", {"operation": "compare_branches", **compared})
        assert text_of(result) == (
            "main...feature: 1 commit ahead, 0 behind; 3 files changed, +3 -6\n"
            "D other.py -1\n"
            "    - x\n"
            "M src/cart.py +1 -5\n"
            "    ~ total 1-2\n"
            "A src/lib.py +2\n"
            "    > old 1-2 (was in src/cart.py)"
        )
        result = await client.call_tool("vcs", {"operation": "analyze_impact", **compared})
        named = {"repository_path": str(repository), "branches": ["feature"]}
        arguments = {"operation": "index_repository", "collection": project_id, **named}
        run = text_of(await client.call_tool("vcs", arguments)).splitlines()
    assert run[0].startswith("success: 0 files indexed, 4 unchanged")
    assert run[-1].startswith(f"feature {git(repository, 'rev-parse', 'feature')}: ")
    lines = text_of(result).splitlines()
    assert lines[0].startswith("impact 0.")
    place = next(n for n, line in enumerate(lines) if line.startswith("left alone")) + 1
    assert lines[place].endswith(
        " tests/test_cart.py: in 4 of 5 commits to src/cart.py; named like src/cart.py"
    )


async def test_everything_that_agents_get_keeps_to_the_limit(
    repository: Path, settings: Settings, project_id: str, tmp_path: Path, mode: Any
) -> None:
    holder = AppHolder(replace(settings, project_dir=tmp_path, replies="text"))
    async with Client(server_of(holder, ["vcs"]), mode=mode) as client:

        async def lines(operation: str, **arguments: Any) -> list[str]:
            asked = {"operation": operation, "collection": project_id, **arguments}
            return text_of(await client.call_tool("vcs", asked)).split("\n")

        branches = {"branch_a": "main", "branch_b": "feature"}
        assert (await lines("compare_branches", **branches, limit=1))[1:] == [
            "D other.py -1", "    - x", "… 2 more files"
        ]  # fmt: skip
        impact = await lines("analyze_impact", **branches, limit=1)
        at = impact.index("changed:")
        assert impact[at:] == ["changed:", "D other.py -1", "    - x", "… 2 more files"]
        commits = await lines("search_history", query="change", limit=2)
        assert [line[:3] for line in commits if line[:1].isdigit()] == ["1. ", "2. "]
        assert commits[-1] == "[more match]"
        assert "[more match]" not in await lines("search_history", limit=50)
        found = await lines("search_branch", branch="feature", query="total of a cart", limit=1)
        assert [line[:3] for line in found if line[1:3] == ". "] == ["1. "]


def text_of(result: Any) -> str:
    assert result.structured_content is None
    [block] = result.content
    return str(block.text)


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"operation": "compare_branches", "branch_a": "main"}, "branch_b", "Field required"),
        (
            {"operation": "compare_branches", "branch_a": "main", "branch_b": "nope"},
            "branch_b",
            "neither a branch nor a tag",
        ),
        (
            {"operation": "compare_branches", "branch_a": "--output=x", "branch_b": "main"},
            "branch_a",
            "cannot be the name of a commit",
        ),
        ({"operation": "analyze_impact"}, "commit", "takes one change"),
        ({"operation": "analyze_impact", "branch_a": "main"}, "commit", "takes one change"),
        (
            {"operation": "analyze_impact", "commit": "main", "uncommitted": True},
            "commit",
            "takes one change",
        ),
        (
            {"operation": "analyze_impact", "commit": "main", "direct": True},
            "direct",
            "not a parameter of the operation",
        ),
    ],
)
async def test_what_does_not_fit_is_refused(
    repository: Path,
    call: Caller,
    project_id: str,
    arguments: dict[str, Any],
    field: str,
    message: str,
) -> None:
    error = await call.error("vcs", collection=project_id, **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == field
    assert message in error["message"]


async def test_of_several_repositories_one_must_be_named(
    repository: Path, make_repo: MakeRepo, app: App, call: Caller, project_id: str
) -> None:
    other = make_repo({"a.py": "x = 1\n"}, "plain")
    report = await app.index(other, project_id)
    compared = {"operation": "compare_branches", "branch_a": "main", "branch_b": "feature"}
    error = await call.error("vcs", collection=project_id, **compared)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "repository_id")
    listed = {one["name"]: one["repository_id"] for one in error["details"]["repositories"]}
    assert set(listed) == {"repo", "plain"}
    reply = await call.ok("vcs", collection=project_id, repository_id=listed["repo"], **compared)
    assert reply["repository_id"] == listed["repo"]
    plain = str(report.run.repository_id)
    error = await call.error("vcs", collection=project_id, repository_id=plain, **compared)
    assert "is not a git repository" in error["message"]
    unknown = "00000000-0000-4000-8000-000000000000"
    error = await call.error("vcs", collection=project_id, repository_id=unknown, **compared)
    assert error["code"] == "NOT_FOUND"


async def test_a_project_that_was_never_indexed_is_not_found(
    mode: Any, call: Caller, project_id: str
) -> None:
    error = await call.error(
        "vcs", operation="analyze_impact", collection=project_id, uncommitted=True
    )
    assert error["code"] == "PROJECT_NOT_FOUND"


async def test_a_branch_is_searched_and_nothing_is_checked_out(
    call: Caller, repository: Path, project_id: str
) -> None:
    git(repository, "checkout", "-q", "feature")
    commit(repository, {"src/ship.py": "def ship_parcel(parcel):\n    return parcel.sent\n"})
    git(repository, "checkout", "-q", "main")
    found = await call.ok(
        "vcs",
        operation="search_branch",
        collection=project_id,
        branch="feature",
        query="ship_parcel",
    )
    assert found["results"][0]["file"] == "src/ship.py"
    assert found["results"][0]["line_number"] == 1
    assert found["count"] == len(found["results"])
    assert not (repository / "src/ship.py").exists()
    within = await call.ok(
        "vcs",
        operation="search_branch",
        collection=project_id,
        branch="main...feature",
        query="ship_parcel",
    )
    files = [one["file"] for one in within["results"]]
    assert files[0] == "src/ship.py"
    assert {"src/ship.py", "src/cart.py"}.issuperset(files)  # what the branch changed


async def test_a_repository_is_indexed_with_branches_and_patterns(
    call: Caller, repository: Path, project_id: str, app: App
) -> None:
    commit(repository, {"logs/today.txt": "parcels were sent\n"})
    reply = await call.ok(
        "vcs",
        operation="index_repository",
        collection=project_id,
        repository_path=str(repository),
        branches=["main", "feature"],
        depth=50,
        ignore_patterns=["logs/"],
    )
    assert reply["status"] == "success"
    assert [one["name"] for one in reply["branches"]] == ["main", "feature"]
    assert [one["commit"] for one in reply["branches"]] == [
        git(repository, "rev-parse", name) for name in ("main", "feature")
    ]
    found = await call.ok("vcs", operation="search_history", collection=project_id, limit=20)
    assert [one.get("branches") for one in found["commits"]].count(["feature"]) == 1
    assert {one["commit"] for one in found["commits"]} == set(
        git(repository, "rev-list", "main", "feature").split()
    )
    (repository / "logs/later.txt").write_text("parcels were sent later\n")
    for ref in ("worktree", "main"):
        report = await app.search("parcels were sent", project_id, ref=ref)
        assert not [hit for hit in report.answer.hits if hit.file_path.startswith("logs/")]


@pytest.mark.parametrize(
    ("is_in_git", "branches", "message"),
    [
        (False, ["main"], "is not in a git repository"),
        (False, None, "is not in a git repository"),
        (True, ["main", "nope"], "'nope' is neither a branch nor a tag"),
    ],
)
async def test_what_git_does_not_know_is_refused_before_anything_is_indexed(
    call: Caller,
    make_repo: MakeRepo,
    app: App,
    project_id: str,
    is_in_git: bool,
    branches: list[str] | None,
    message: str,
) -> None:
    root = make_repo({"a.py": "x = 1\n"})
    if is_in_git:
        git(root, "init", "-q", "-b", "main")
        commit(root, {"b.py": "y = 1\n"})
    error = await call.error(
        "vcs",
        operation="index_repository",
        collection=project_id,
        repository_path=str(root),
        branches=branches,
    )
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "branches")
    assert message in error["message"]
    with pytest.raises(ProjectNotFound):
        await find_project(app.database, project_id)


async def test_as_many_results_as_an_mcb_client_may_ask_for_are_found_in_a_branch(
    call: Caller, make_repo: MakeRepo, app: App, project_id: str
) -> None:
    root = make_repo({"README.md": "# Shop\n"}, "many")
    git(root, "init", "-q", "-b", "main")
    for number in range(60):
        text = f"def send_parcel_{number}(parcel):\n    return parcel.sent\n"
        (root / f"parcel_{number}.py").write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"Send parcel {number}")
    await app.index(root, project_id)
    asked = {"query": "send parcel", "collection": project_id}
    found = await call.ok("vcs", operation="search_branch", branch="main", limit=55, **asked)
    assert len(found["results"]) == found["count"] == 55
    history = await call.ok("vcs", operation="search_history", limit=55, **asked)
    assert len(history["commits"]) == history["count"] == 55


@pytest.mark.parametrize(
    "operation", [{"operation": "search_branch", "branch": "main"}, {"operation": "search_history"}]
)
async def test_a_search_for_more_results_than_there_may_be_is_refused(
    call: Caller, project_id: str, operation: dict[str, str]
) -> None:
    asked = {**operation, "query": "parcel"}
    error = await call.error("vcs", collection=project_id, limit=101, **asked)
    assert error["message"] == "Limit must be between 1 and 100, got 101"
    assert (error["details"]["field"], error["details"]["constraint"]) == ("limit", "1..100")
    for named in ({"project_id": project_id}, {}):
        error = await call.error("vcs", limit=51, **named, **asked)
        assert error["message"] == "Limit must be between 1 and 50, got 51"


async def test_the_history_is_searched(call: Caller, repository: Path, project_id: str) -> None:
    commit(repository, {"other.py": "x = 2\n"}, "Raise the limit of parcels, as customers asked")
    reply = await call.ok(
        "vcs",
        operation="search_history",
        collection=project_id,
        query="why was the limit of parcels raised",
        path="other.py",
    )
    assert reply["commits"][0]["message"].startswith("Raise the limit of parcels")
    assert reply["commits"][0]["paths"] == ["other.py"]
    refused = await call.error(
        "vcs", operation="search_history", collection=project_id, since="yesterday"
    )
    assert refused["details"]["field"] == "since"


async def test_impact_names_who_uses_what_changed_and_what_is_gone(
    call: Caller, make_repo: MakeRepo, app: App, project_id: str
) -> None:
    root = make_repo({"README.md": "# Shop\n"}, "users")
    git(root, "init", "-q", "-b", "main")
    shop = "def price(item):\n    return item.price\n\n\ndef old_tax(item):\n    return 7\n"
    commit(
        root,
        {
            "shop.py": shop,
            "cart.py": "from shop import price\n\n\ndef total(one):\n    return price(one)\n",
            "bill.py": "import shop\n\n\ndef bill(item):\n    return shop.old_tax(item)\n",
            "tests/test_shop.py": "from shop import price\n\n\ndef test_it():\n    price(1)\n",
            "other.py": "def price_of_nothing():\n    return 0\n",
        },
    )
    (root / "shop.py").write_text("def price(item):\n    return item.price * 2\n")
    await app.index(root, project_id)
    reply = await call.ok(
        "vcs", operation="analyze_impact", collection=project_id, uncommitted=True
    )
    used = {(one["path"], one["symbol"], one["is_removed"]) for one in reply["used_by"]}
    assert used == {
        ("bill.py", "old_tax", True),
        ("cart.py", "price", False),
        ("tests/test_shop.py", "price", False),
    }
    [user] = [one for one in reply["used_by"] if one["path"] == "cart.py"]
    assert (user["line"], user["enclosing"]) == (5, "total")
    assert user["confidence"] >= 0.9
    assert reply["look_at_first"][0]["path"] == "bill.py"
    assert {"removed_but_used", "users"} <= {reason["name"] for reason in reply["reasons"]}
