"""What does the conformance suite talk about? Tools that report, ask back and change the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastmcp import Context, FastMCP
from mcp.shared.exceptions import MCPError
from mcp_types import (
    PromptListChangedNotification,
    SamplingMessage,
    TextContent,
    ToolListChangedNotification,
)
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

Schema = dict[str, Any]

FAILURE_PAUSE_S = 0.05  # the suite asks for pauses, so that each message travels by itself
ACTIVE = ["active", "inactive", "pending"]
DEFAULTS: Schema = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ACTIVE, "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
_OPTIONS = ["option1", "option2", "option3"]
ENUMS: Schema = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


async def tool_with_logging(ctx: Context) -> str:
    """Writes to the client's log three times."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(FAILURE_PAUSE_S)
    await ctx.info("Tool processing data")
    await asyncio.sleep(FAILURE_PAUSE_S)
    await ctx.info("Tool execution completed")
    return "Logged."


async def logging_tool(ctx: Context) -> str:
    """Writes to the client's log, if the client asked for that."""
    await ctx.info("Only for those who asked")
    return "Logged."


async def tool_with_progress(ctx: Context) -> str:
    """Reports nothing, half and all done."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(FAILURE_PAUSE_S)
    return "Done."


async def reconnection(ctx: Context) -> str:
    """Ends the stream of its own call before the answer."""
    await ctx.close_sse_stream()
    return "Reconnected."


async def sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))]
    answer = await ctx.session.create_message(
        messages=messages, max_tokens=100, related_request_id=ctx.request_id
    )
    return f"LLM response: {getattr(answer.content, 'text', '')}"


async def elicitation(message: str, ctx: Context) -> str:
    """Asks the user for a name and an address."""
    return await _ask(ctx, message, {"username": {"type": "string"}, "email": {"type": "string"}})


async def elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a default for each kind of field."""
    return await _ask(ctx, "Please check the defaults", DEFAULTS, required=False)


async def elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with each kind of choice."""
    return await _ask(ctx, "Please choose", ENUMS, required=False)


async def _ask(ctx: Context, message: str, fields: Schema, *, required: bool = True) -> str:
    answer = await ctx.session.elicit(
        message=message,
        requested_schema=form(fields, required=required),
        related_request_id=ctx.request_id,
    )
    return f"Answer: action={answer.action}, content={json.dumps(answer.content or {})}"


async def missing_capability(ctx: Context) -> str:
    """Refuses clients that cannot sample."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool needs the client's sampling capability",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "The client can sample."


async def trigger_tool_change(ctx: Context) -> str:
    """Says that the tools have changed."""
    await ctx.send_notification(ToolListChangedNotification())
    return "Changed."


async def trigger_prompt_change(ctx: Context) -> str:
    """Says that the prompts have changed."""
    await ctx.send_notification(PromptListChangedNotification())
    return "Changed."


TOOLS: tuple[Callable[..., Any], ...] = (
    tool_with_logging,
    logging_tool,
    tool_with_progress,
    reconnection,
    sampling,
    elicitation,
    elicitation_sep1034_defaults,
    elicitation_sep1330_enums,
    missing_capability,
    trigger_tool_change,
    trigger_prompt_change,
)


def add_dialogue(server: FastMCP[Any]) -> None:
    """Give a server the suite's tools that talk with the client while they run."""
    for tool in TOOLS:
        server.tool(tool, name=f"test_{tool.__name__}")


def form(fields: Schema, *, required: bool = True) -> Schema:
    """The schema of a form with these fields."""
    return {"type": "object", "properties": fields, "required": list(fields) if required else []}
