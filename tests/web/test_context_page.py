"""The page of a task, as a browser without JavaScript gets it."""

from __future__ import annotations

import httpx2
import pytest
from tests.conftest import SAMPLE
from tests.web.test_pages import (
    HOSTILE_CODE,
    HOSTILE_NAME,
    SCRIPT,
    MakeRepo,
    Seen,
    commit_all,
    hits,
    indexed,
    seen,
)

from codebase_mcp.tools.rules import MAX_TASK_CHARS
from codebase_mcp.web.pages.site import TOKEN_COOKIE

pytestmark = pytest.mark.anyio

TASK = "authenticate user with password fails"


async def sent(http: httpx2.AsyncClient, project_id: str, task: str, **fields: str) -> Seen:
    """The page that answers the form."""
    if TOKEN_COOKIE not in http.cookies:
        await http.get("/context", params={"project": project_id})
    form = {"token": http.cookies[TOKEN_COOKIE], "project": project_id, "task": task, **fields}
    origin = {"Origin": str(http.base_url).rstrip("/")}
    return seen(await http.post("/context", data=form, headers=origin))


def paths(page: Seen) -> set[str]:
    """The files that a page offers to copy."""
    return {path.partition(":")[0] for path in hits(page)}


async def test_files_are_shown_by_role_with_reasons_and_lines_that_lead_to_the_file(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(SAMPLE), project_id)
    home = seen(await http.get("/", params={"project": project_id}))
    empty = seen(await http.get(home.link("/context")))
    box = next(attributes for tag, attributes in empty.tags if tag == "textarea")
    assert (box["name"], "autofocus" in box) == ("task", True)

    page = await sent(http, project_id, TASK)
    assert "src/auth.py" in paths(page)
    file = seen(await http.get(page.link("path=src%2Fauth.py")))
    assert "hashlib" in file.text
    assert "As the agent sees it" in page.text

    tests = await sent(http, project_id, TASK, want="test")
    assert {path.partition("/")[0] for path in paths(tests)} == {"tests"}
    options = [attributes for tag, attributes in tests.tags if "selected" in attributes]
    assert [option["value"] for option in options] == [project_id, "test"]


async def test_what_was_pasted_is_kept_also_where_it_is_hostile_or_the_ref_is_wrong(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({**SAMPLE, HOSTILE_NAME: HOSTILE_CODE})
    commit_all(root, "First")
    await indexed(http, root, project_id)
    task = f"{TASK}\r\n\tFile {HOSTILE_NAME}, line 1 {SCRIPT}"
    page = await sent(http, project_id, task)
    assert f"\tFile {HOSTILE_NAME[:8]}" in page.text
    assert SCRIPT in page.text
    wrong = await sent(http, project_id, task, ref="no-such-branch")
    assert "neither a branch nor a tag" in wrong.text
    assert SCRIPT in wrong.text
    at_head = await sent(http, project_id, TASK, ref="HEAD")
    assert "ref=" in at_head.link("/file")


async def test_a_task_may_be_as_long_as_the_tool_takes_and_longer(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(SAMPLE), project_id)
    page = await sent(http, project_id, f"{TASK}\n" + "Ж\n" * (MAX_TASK_CHARS // 2 + 1_000))
    assert "src/auth.py" in paths(page)


async def test_a_form_that_is_too_large_is_refused(http: httpx2.AsyncClient) -> None:
    await http.get("/context")
    form = {"token": http.cookies[TOKEN_COOKIE], "task": "x" * (1 << 20)}
    origin = {"Origin": str(http.base_url).rstrip("/")}
    seen(await http.post("/context", data=form, headers=origin), 400)


async def test_a_short_task_may_be_in_the_address(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(SAMPLE), project_id)
    page = seen(await http.get("/context", params={"project": project_id, "task": TASK}))
    assert "src/auth.py" in paths(page)
