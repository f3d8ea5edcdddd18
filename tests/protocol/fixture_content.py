"""What does the conformance suite find to read? Tools, resources and prompts with fixed content."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.prompts import Message
from fastmcp.tools.function_tool import FunctionTool
from mcp_types import (
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

# One red pixel, and a WAV header without samples.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
CITIES = ("paris", "parma", "prague")


def simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


def image_content() -> ImageContent:
    """Answers with an image."""
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def audio_content() -> AudioContent:
    """Answers with a sound."""
    return AudioContent(type="audio", data=WAV, mime_type="audio/wav")


def embedded_resource() -> EmbeddedResource:
    """Answers with a resource inside the result."""
    text = "This is an embedded resource content."
    return _embedded("test://embedded-resource", "text/plain", text)


def multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Answers with a text, an image and a resource at once."""
    return [
        TextContent(type="text", text="Multiple content types test:"),
        image_content(),
        _embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        ),
    ]


def error_handling() -> str:
    """Fails each time."""
    raise RuntimeError("This tool intentionally returns an error for testing")


def mirrored_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """Takes an argument that the client repeats in a header."""
    return f"Region {region}"


TOOLS: tuple[Callable[..., Any], ...] = (
    simple_text,
    image_content,
    audio_content,
    embedded_resource,
    multiple_content_types,
    error_handling,
    mirrored_header,
)

# Each keyword of JSON Schema 2020-12 that must reach the client as it was written.
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


def static_binary() -> bytes:
    """An image that never changes."""
    return base64.b64decode(PNG)


def watched_resource() -> str:
    """A resource that clients ask to be told about."""
    return "Watched resource content."


def from_template(id: str) -> str:
    """A resource for each id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's
    """A prompt that carries a resource."""
    text = "Embedded resource content for testing."
    return [
        Message(_embedded(resourceUri, "text/plain", text)),
        Message("Please process the embedded resource above."),
    ]


def prompt_with_image() -> list[Message]:
    """A prompt that carries an image."""
    return [Message(image_content()), Message("Please analyze the image above.")]


PROMPTS: tuple[Callable[..., Any], ...] = (
    simple_prompt,
    prompt_with_arguments,
    prompt_with_embedded_resource,
    prompt_with_image,
)


async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion:
    """Cities that begin with what was typed."""
    values = [city for city in CITIES if city.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


def add_content(server: FastMCP[Any]) -> None:
    """Give a server the suite's tools, resources and prompts, by the names that it asks for."""
    for tool in TOOLS:
        server.tool(tool, name=f"test_{tool.__name__}")
    server.add_tool(
        FunctionTool(
            fn=simple_text,
            name="json_schema_2020_12_tool",
            description="Tool with JSON Schema 2020-12 features.",
            parameters=SCHEMA_2020_12,
        )
    )
    for name, function, mime_type in (
        ("static-text", static_text, "text/plain"),
        ("static-binary", static_binary, "image/png"),
        ("watched-resource", watched_resource, "text/plain"),
        ("template/{id}/data", from_template, "application/json"),
    ):
        server.resource(f"test://{name}", mime_type=mime_type)(function)
    for prompt in PROMPTS:
        server.prompt(prompt, name=f"test_{prompt.__name__}")
    server.completion(complete)


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)
