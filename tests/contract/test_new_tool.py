"""A tool is a function and its name in the list of toolsets: that makes it known everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import pytest
from fastmcp import Client
from pydantic import Field
from tests.contract.conftest import Caller
from tests.web.conftest import running

from codebase_mcp.cli import main
from codebase_mcp.cli.tool_commands import is_tool
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.table import TOOLSET_OF
from codebase_mcp.tools import toolset as declared
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.catalog import tool_named, toolset
from codebase_mcp.tools.reply import Reply
from codebase_mcp.web.http import describe, make_asgi_app

pytestmark = pytest.mark.anyio


class CountWords(Arguments):
    text: Annotated[str, Field(min_length=1, max_length=40, description="What to count in.")]
    twice: bool = False


class WordCount(Reply):
    words: int


async def count_words(caller: declared.Caller, arguments: CountWords) -> WordCount:
    """Count the words of a text."""
    return WordCount(words=len(arguments.text.split()) * (2 if arguments.twice else 1))


@pytest.fixture
def toolsets() -> list[str]:
    return ["tasks"]


@pytest.fixture(autouse=True)
def new_tool() -> Iterator[None]:
    """The two steps: the declaration, and the line in ``settings/table.py``."""
    tasks = toolset("tasks")
    tasks.tool("Count words", declared.READS)(count_words)
    TOOLSET_OF["count_words"] = "tasks"
    yield
    tasks.tools.pop()
    del TOOLSET_OF["count_words"]


async def test_clients_list_and_call_it(client: Client[Any], call: Caller) -> None:
    tool = next(tool for tool in await client.list_tools() if tool.name == "count_words")
    assert (tool.title, tool.description) == ("Count words", "Count the words of a text.")
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint
    assert tool.input_schema["properties"]["text"]["maxLength"] == 40
    assert tool.output_schema is not None
    assert "words" in tool.output_schema["properties"]
    assert (await call.ok("count_words", text="one two", twice=True))["words"] == 4


async def test_wrong_arguments_are_named(call: Caller) -> None:
    error = await call.error("count_words", text="", more=1)
    assert error["code"] == "VALIDATION_ERROR"
    assert {problem["field"] for problem in error["details"]["fields"]} == {"text", "more"}


async def test_it_has_an_address_that_openapi_describes(settings: Settings) -> None:
    assert "/tools/count_words" in describe(toolset("tasks").tools)["paths"]
    served = replace(settings, toolsets=("tasks",), port=0, transport="http")
    async with running(make_asgi_app(served)) as http:
        answer = await http.post("/tools/count_words", json={"text": "one two three"})
    assert (answer.status_code, answer.json()["words"]) == (200, 3)


def test_it_is_a_command(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert is_tool(["count_words"])
    line = ["count_words", "--text", "one two", "--twice", "--data-dir", str(settings.data_dir)]
    assert main.run(line) == 0
    assert json.loads(capsys.readouterr().out)["words"] == 4
    assert tool_named("count_words").scope_of(None) == "read"
