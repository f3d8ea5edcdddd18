"""Two forms of replies: JSON for programs, text for agents. Who gets which, and how it reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import Implementation

from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.server import AppHolder, server_of

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Agent = Callable[..., AbstractAsyncContextManager["Reader"]]
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\dZ"


class Reader:
    """Calls tools of one project and reads their texts, with ids and times by their kind."""

    def __init__(self, client: Client[Any], project_id: str) -> None:
        self.client = client
        self._project_id = project_id
        self.ids: list[str] = []

    async def __call__(self, tool: str, **arguments: Any) -> str:
        """The text of a call that must succeed; its ids are kept."""
        result = await self.client.call_tool(
            tool, {"project_id": self._project_id, **arguments}, raise_on_error=False
        )
        assert not result.is_error, result.content
        assert result.structured_content is None
        [block] = result.content
        self.ids = re.findall(UUID, block.text)
        return re.sub(TIME, "TIME", re.sub(UUID, "ID", block.text))

    async def error(self, tool: str, **arguments: Any) -> str:
        """The text of a call that must fail."""
        result = await self.client.call_tool(tool, arguments, raise_on_error=False)
        assert result.is_error
        assert result.structured_content is None
        [block] = result.content
        return str(block.text)


@pytest.fixture
def agent(mode: Any, settings: Settings, project_id: str, tmp_path: Path) -> Agent:
    """A client of a name, on a server with all tools and these settings."""

    @asynccontextmanager
    async def connect(name: str = "claude-code", **chosen: Any) -> AsyncIterator[Reader]:
        holder = AppHolder(replace(settings, project_dir=tmp_path, **chosen))
        info = Implementation(name=name, version="1")
        async with Client(server_of(holder, TOOLSETS), mode=mode, client_info=info) as client:
            yield Reader(client, project_id)

    return connect


@pytest.mark.parametrize(
    ("replies", "name", "is_text"),
    [
        ("auto", "claude-code", True),
        ("auto", "gemini-cli-mcp-client-codebase", True),
        ("auto", "Visual Studio Code", True),
        ("auto", "some-program", False),
        ("auto", "claude-ai", False),
        ("text", "some-program", True),
        ("json", "claude-code", False),
    ],
)
async def test_the_listing_and_the_calls_have_the_form_that_the_client_reads(
    agent: Agent, replies: str, name: str, is_text: bool
) -> None:
    async with agent(name, replies=replies) as reader:
        tools = await reader.client.list_tools()
        assert len(tools) == len(all_tools())
        assert all((tool.output_schema is None) is is_text for tool in tools)
        for tool, arguments in (
            ("list_projects", {}),
            ("get_task", {"task_id": "none"}),
            ("serch_code", {}),
        ):
            result = await reader.client.call_tool(tool, arguments, raise_on_error=False)
            assert result.is_error is (tool != "list_projects")
            [block] = result.content
            if is_text:
                assert result.structured_content is None
                assert not block.text.startswith("{")
            else:
                assert json.loads(block.text) == result.structured_content


async def test_one_server_lists_to_each_client_in_its_form(mode: Any, settings: Settings) -> None:
    server = server_of(AppHolder(settings), TOOLSETS, closes=False)
    for name, has_schema in (("some-program", True), ("opencode", False), ("some-program", True)):
        info = Implementation(name=name, version="1")
        async with Client(server, mode=mode, client_info=info) as client:
            assert {t.output_schema is not None for t in await client.list_tools()} == {has_schema}


async def test_a_run_is_reported_in_one_line(agent: Agent, make_repo: MakeRepo) -> None:
    root = make_repo({"a.py": "def one():\n    return 1\n", "b.py": "def two():\n    return 2\n"})
    async with agent() as read:
        text = await read("index_repository", repo_path=str(root))
        assert re.fullmatch(
            r"success: 2 files indexed, \d new chunks in \d+\.\d s\nrepository_id: ID", text
        )
        text = await read("index_repository", repo_path=str(root))
        assert text.startswith("success: 0 files indexed, 2 unchanged, 0 new chunks in ")


async def test_errors_say_what_went_wrong_and_what_to_do_next(agent: Agent, tmp_path: Path) -> None:
    async with agent() as read:
        assert await read.error("search_code", query="x", project_id="no-such") == (
            "Error PROJECT_NOT_FOUND: Project has not been indexed or does not exist\n"
            f'Try: Make it first: index_repository(repo_path="{tmp_path}", project_id="no-such"), '
            "or create_project."
        )
        assert await read.error("search_code", query="x", limit=100) == (
            "Error VALIDATION_ERROR: Limit must be between 1 and 50, got 100\n"
            "limit = 100; rule: 1..50"
        )
        assert await read.error("create_task", title="", nonsense=1) == (
            "Error VALIDATION_ERROR: Parameter validation failed\n"
            "nonsense: Unknown parameter: nonsense\n"
            "title: Title cannot be empty"
        )
        assert await read.error("serch_code") == (
            "Error NOT_FOUND: Unknown tool: serch_code\nTry: Did you mean search_code?"
        )


async def test_a_task_is_read_whole_and_its_changes_repeat_nothing(
    agent: Agent, existing: str
) -> None:
    async with agent() as read:
        given = {"description": "Thrice.\nThen give up.", "planning_references": ["docs/a.md"]}
        text = await read("create_task", title="Retry", **given)
        assert text == "ID  need to be done  Retry"
        [task_id] = read.ids
        text = await read("update_task", task_id=task_id, status="in-progress", branch="f/x")
        assert text == "ID  in-progress  Retry  on f/x"
        assert await read("get_task", task_id=task_id) == (
            "ID  in-progress  Retry  on f/x\n"
            "plans: docs/a.md\n"
            "description:\nThrice.\nThen give up.\n"
            "history:\n"
            "  TIME status: need to be done\n"
            "  TIME status: need to be done → in-progress\n"
            "  TIME branch: f/x"
        )
        await read("create_task", title="Second")
        first, *tasks = (await read("list_tasks", limit=1)).splitlines()
        assert tasks == ["ID  need to be done  Second"]
        cursor = re.fullmatch(r'1 of 2 tasks; next page: cursor="(\S+)"', first)
        assert cursor
        assert await read("list_tasks", cursor=cursor[1]) == (
            "1 of 2 tasks\nID  in-progress  Retry  on f/x"
        )


async def test_a_memory_is_a_line_and_its_content_as_it_is(agent: Agent, existing: str) -> None:
    content = "We retry because of the proxy.\n\n    retry(3)"
    async with agent() as read:
        store = {"content": content, "observation_type": "Decision", "tags": ["retry"]}
        assert await read("memory", operation="store", **store) == "stored: ID"
        assert await read("memory", operation="store", **store) == "known already: ID"
        kept = f"ID  Decision  TIME  tags: retry\n{content}"
        assert await read("memory", operation="timeline") == kept
        [identity] = read.ids
        assert await read("memory", operation="get", ids=[identity]) == kept
        found = await read("memory", operation="search", query="why do we retry")
        assert re.fullmatch(r"ID  Decision  TIME  [01]\.\d\d  tags: retry\n.*", found, re.DOTALL)
        assert await read("memory", operation="search", query="zebra") == "no observations"
        assert content in await read("memory", operation="inject")


async def test_a_session_says_what_was_done_in_it(agent: Agent, existing: str) -> None:
    async with agent() as read:
        assert await read("session", operation="start", session_id="s") == "session s: started"
        await read("create_task", title="Retry")
        text = await read("agent", operation="create_session", agent_name="bob")
        assert text == "bob: active, session s, agent_id ID"
        did = {"tool_name": "grep", "success": True, "duration_ms": 12.5}
        text = await read("agent", operation="track_execution", agent_name="bob", **did)
        assert text == "bob: active, session s, agent_id ID\nkept: ID"
        assert await read("agent", operation="get_state", agent_name="bob") == (
            "bob: active, session s, agent_id ID\n"
            "1 executions, 0 failed, 100% succeeded\n"
            "  TIME  grep  ok  12.5 ms"
        )
        assert await read("session", operation="get_context", session_id="s") == (
            "session s: active\nstarted TIME\n"
            "task ID  need to be done  Retry\nagent bob: 1 executions, 0 failed"
        )


async def test_work_items_are_a_tree(agent: Agent, existing: str) -> None:
    async with agent() as read:
        await read("create_work_item", item_type="project", title="Top", description="All of it")
        [top] = read.ids
        await read("create_work_item", item_type="task", title="One", parent_id=top)
        [one] = read.ids
        await read("create_work_item", item_type="subtask", title="Deep", parent_id=one)
        await read("create_work_item", item_type="task", title="Two", parent_id=top)
        assert await read("get_work_item_hierarchy", work_item_id=top) == (
            "ID  project  planned  Top\n"
            "  description: All of it\n"
            "  ID  task  planned  One\n"
            "    ID  subtask  planned  Deep\n"
            "  ID  task  planned  Two"
        )
        assert await read("get_work_item_hierarchy", work_item_id=one) == (
            "ID  project  planned  Top\n  ID  task  planned  One\n    ID  subtask  planned  Deep"
        )
        text = await read("update_work_item", work_item_id=one, status="active")
        assert text == "ID  task  active  One"
        assert await read("query_work_items", status="active") == (
            "1 work items\nID  task  active  One"
        )


async def test_entities_come_with_their_data_where_it_is_not_known(
    agent: Agent, existing: str
) -> None:
    schema = {"type": "object", "properties": {"owner": {"type": "string"}}}
    wider = {"type": "object", "properties": {**schema["properties"], "port": {"type": "integer"}}}
    async with agent() as read:
        text = await read("register_entity_type", type_name="Service", schema=schema)
        assert text == "registered: Service, schema version 1"
        entity = {"entity_type": "Service", "name": "auth", "data": {"owner": "ops"}}
        assert await read("create_entity", **entity, tags=["x"]) == ("ID  auth  version 1  tags: x")
        assert await read("query_entities", entity_type="Service") == (
            '1 entities\nID  auth  version 1  tags: x\n{"owner":"ops"}'
        )
        [identity] = read.ids
        text = await read("update_entity_type_schema", type_name="Service", new_schema=wider)
        assert text == (
            'Service: schema version 1 → 2\n/properties/port: optional field "port" added'
        )
        assert await read("delete_entity", entity_id=identity, confirmed=True) == "deleted: ID"


async def test_projects_are_lines_and_the_one_that_is_meant_is_named(
    agent: Agent, existing: str
) -> None:
    async with agent() as read:
        text = await read("switch_project", project_id=existing)
        assert text == f"calls without project_id mean {existing}"
        assert await read("list_projects", project_id=existing) == f"1 projects\n{existing}"
        result = await read.client.call_tool("create_task", {"title": "Here"})
        assert result.content[0].text.endswith(f"  Here\nproject: {existing} (active)")
        text = await read("project", operation="get_stats")
        assert "records: sessions 0, agents 0" not in text
        assert "  tasks: need to be done 1" in text


async def test_background_indexing_says_how_far_it_is(
    agent: Agent, existing: str, make_repo: MakeRepo
) -> None:
    async with agent(jobs=0) as reader:
        client, collection = reader.client, {"collection": existing}
        empty = await client.call_tool("get_indexing_status", collection)
        assert empty.content[0].text == f"{existing}: not indexing, 0 of 0 files"
        asked = await client.call_tool(
            "index_codebase", {**collection, "repository_path": str(make_repo())}
        )
        first, notice, ids = asked.content[0].text.splitlines()
        assert first == "started: 0 files, 0 new chunks"
        assert notice.startswith("notice: ")
        assert re.fullmatch(f"operation_id: {UUID}, repository_id: {UUID}", ids)
        waits = (await client.call_tool("get_indexing_status", collection)).content[0].text
        assert waits.startswith(f"{existing}: waits for a worker, 0 %, 0 of 0 files\n")
        gone = await client.call_tool("clear_index", collection)
        assert gone.content[0].text == f"cleared {existing}: 0 files, chunks and vectors"


async def test_tools_know_the_form_and_the_budget(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    spec = next(tool for tool in all_tools() if tool.name == "list_projects")

    async def look(caller: Any, arguments: Any) -> Any:
        seen.append((caller.replies, caller.reply_chars))
        return spec.reply()

    looking = replace(spec, run=look)
    monkeypatch.setattr("codebase_mcp.tools.server.tools_of", lambda names: (looking,))
    async with agent("cursor-vscode", reply_chars=333) as reader:
        await reader.client.call_tool("list_projects", {})
    async with agent("some-program") as reader:
        await reader.client.call_tool("list_projects", {})
    assert seen == [("text", 333), ("json", 2_000)]


async def test_a_search_is_answered_by_the_definition_with_its_lines(
    agent: Agent, make_repo: MakeRepo
) -> None:
    root = make_repo()
    async with agent() as read:
        await read("index_repository", repo_path=str(root))
        text = await read("search_code", query="authenticate user with password")
        assert re.match(
            r"1\. repo/src/auth\.py:5-10  0\.\d\d  authenticate\n 5  def authenticate", text
        )
        test = "test_authenticate_refuses_an_empty_password"
        assert text.count(f"\n   called from: repo/tests/test_auth.py:5 {test}\n") == 1
        assert '"' not in text.split("\n")[0]
        task = await read("create_task", title="Salt hashes", anchors=[{"file": "src/auth.py"}])
        assert task
        noted = await read("search_code", query="authenticate", with_notes=True, explain=True)
        assert "   task ID: Salt hashes" in noted
        assert "   rank: " in noted
        small = await read("search_code", query="parse json authenticate", max_chars=200)
        assert len(small) <= 200
        nothing = await read("search_code", query="museum opening hours on Sunday")
        assert nothing.startswith("Nothing found. ")


async def test_lines_around_are_shown_where_the_call_asks_for_them(
    agent: Agent, make_repo: MakeRepo
) -> None:
    root = make_repo({"pay.py": "RATE = 3\n\n\ndef charge_card(card):\n    return card * RATE\n"})
    async with agent() as read:
        await read("index_repository", repo_path=str(root))
        plain = await read("search_code", query="charge_card")
        assert "RATE = 3" not in plain
        assert await read("search_code", query="charge_card", context_lines=0) == plain
        text = await read("search_code", query="charge_card", context_lines=3)
        assert "\n1  RATE = 3\n2\n3\n4  def charge_card(card):\n" in text


async def test_the_text_of_a_search_keeps_to_the_setting(agent: Agent, make_repo: MakeRepo) -> None:
    body = "".join(f"    charge_{n} = charge(card, {n})\n" for n in range(60))
    files = {f"src/pay{n}.py": f"def charge_{n}(card):\n{body}" for n in range(12)}
    root = make_repo(files)
    for budget in (500, 2_000):
        async with agent(reply_chars=budget) as read:
            await read("index_repository", repo_path=str(root))
            text = await read("search_code", query="charge the card")
            assert budget / 3 < len(text) <= budget
            whole = await read("search_code", query="charge the card", max_chars=50_000)
            assert len(whole) <= 4_000
