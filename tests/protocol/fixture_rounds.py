"""What does the conformance suite answer in rounds? Tools whose result is a question (SEP-2322)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastmcp import Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from tests.protocol.fixture_dialogue import form


async def streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks in the result, with nothing but notifications before."""
    await ctx.report_progress(1, 2)
    return await input_required_result_elicitation(ctx)


async def input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name, in a result."""
    name = _answered(ctx, "user_name", "name")
    if name is None:
        return InputRequiredResult(input_requests={"user_name": _question("name")})
    return f"Hello, {name}!"


async def input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Asks the client's model, in a result."""
    if "capital_question" in _answers(ctx):
        return "The model answered."
    question = _prompt("What is the capital of France?")
    return InputRequiredResult(input_requests={"capital_question": question})


async def input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for the client's roots, in a result."""
    if "client_roots" in _answers(ctx):
        return f"{len(_answers(ctx)['client_roots'].roots)} roots."
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Asks, and knows its own state again."""
    if "confirm" in _answers(ctx) and ctx.request_state == "asked":
        return "state-ok"
    return InputRequiredResult(input_requests={"confirm": _question("ok")}, request_state="asked")


async def input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Asks for three things at once."""
    requests: dict[str, InputRequest] = {
        "user_name": _question("name"),
        "greeting": _prompt("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if requests.keys() <= _answers(ctx).keys():
        return "Complete."
    return InputRequiredResult(input_requests=requests, request_state="asked")


async def input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Asks twice, one after the other."""
    name, color = _answered(ctx, "step1", "name"), _answered(ctx, "step2", "color")
    if ctx.request_state and color is not None:
        return f"{ctx.request_state} likes {color}."
    if ctx.request_state and name is not None:
        step2 = {"step2": _question("color")}
        return InputRequiredResult(input_requests=step2, request_state=str(name))
    return InputRequiredResult(input_requests={"step1": _question("name")}, request_state="nobody")


async def input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """Asks, with a state that the client must leave as it is."""
    return await input_required_result_request_state(ctx)


async def input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
    """Asks only for what the client says it can answer."""
    can = ctx.session.client_capabilities
    requests: dict[str, InputRequest] = {}
    if can is not None and can.sampling is not None:
        requests["greeting"] = _prompt("Say hello")
    if can is not None and can.elicitation is not None:
        requests["user_name"] = _question("name")
    return InputRequiredResult(input_requests=requests, request_state="asked")


async def input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """A prompt that asks before it is written."""
    context = _answered(ctx, "user_context", "context")
    if context is None:
        return InputRequiredResult(input_requests={"user_context": _question("context")})
    return f"Use this context: {context}"


TOOLS: tuple[Callable[..., Any], ...] = (
    streaming_elicitation,
    input_required_result_elicitation,
    input_required_result_sampling,
    input_required_result_list_roots,
    input_required_result_request_state,
    input_required_result_multiple_inputs,
    input_required_result_multi_round,
    input_required_result_tampered_state,
    input_required_result_capabilities,
)


def add_rounds(server: FastMCP[Any]) -> None:
    """Give a server the suite's tools, and its prompt, that ask in their results."""
    for tool in TOOLS:
        server.tool(tool, name=f"test_{tool.__name__}")
    server.prompt(input_required_result_prompt, name="test_input_required_result_prompt")


def _question(field: str) -> ElicitRequest:
    asked = form({field: {"type": "boolean" if field == "ok" else "string"}})
    params = ElicitRequestFormParams(message=f"Your {field}, please?", requested_schema=asked)
    return ElicitRequest(params=params)


def _prompt(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def _answers(ctx: Context) -> dict[str, Any]:
    return dict(ctx.input_responses or {})


def _answered(ctx: Context, key: str, field: str) -> Any:
    """What the user wrote into a field of an answer, if there is one."""
    content = getattr(_answers(ctx).get(key), "content", None)
    return content.get(field) if isinstance(content, dict) else None
