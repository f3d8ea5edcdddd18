"""On stdio every line gets a reply, also one that no message can be read from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from tests.web.conftest import Stdio

LEGACY, MODERN = "2025-06-18", "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

DEEP = "[" * 5000 + "]" * 5000


def call(request_id: str, arguments: str) -> str:
    """A request, of which parts may be no JSON."""
    return (
        '{"jsonrpc":"2.0","id":' + request_id + ',"method":"tools/call","params":'
        '{"name":"x","arguments":' + arguments + "}}"
    )


UNREADABLE = [
    ("hello", None, PARSE_ERROR),
    ('{"jsonrpc":"2.0","id":9,', None, PARSE_ERROR),
    ("\ufeff" + call("9", "{}"), None, PARSE_ERROR),
    (call("5", r'{"query":"\ud800"}'), 5, INVALID_REQUEST),
    (call("5", r'{"\udfff":1}'), 5, INVALID_REQUEST),
    (call('"five"', '{"query":' + DEEP + "}"), "five", INVALID_REQUEST),
    ('{"params":{"id":1,"a":' + DEEP + '},"method":"id","id":5}', 5, INVALID_REQUEST),
    ('{"jsonrpc":"2.0","method":"x","params":' + DEEP + "}", None, INVALID_REQUEST),
    (call("5", '{"limit":' + "9" * 5000 + "}"), 5, INVALID_REQUEST),
    (call(r'"\ud800"', "{}"), None, INVALID_REQUEST),
    (call("null", "{}"), None, INVALID_REQUEST),
    (call("1.5", "{}"), None, INVALID_REQUEST),
    ('{"id":9,"method":"ping"}', 9, INVALID_REQUEST),
    ('{"jsonrpc":"2.0","id":9,"method":"tools/list","params":[1]}', 9, INVALID_REQUEST),
    ('[{"jsonrpc":"2.0","id":9,"method":"ping"}]', None, INVALID_REQUEST),
    ("12", None, INVALID_REQUEST),
    # A response has the id of one of the server's requests, not of the client's.
    (r'{"jsonrpc":"2.0","id":9,"result":{"a":"\ud800"}}', None, INVALID_REQUEST),
]


@pytest.fixture(params=[LEGACY, MODERN])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def listing(revision: str) -> dict[str, Any]:
    """A request that the server answers, in the words of a revision of the protocol."""
    params = {"_meta": ENVELOPE} if revision == MODERN else {}
    return {"id": 2, "method": "tools/list", "params": params}


def test_invalid_lines_get_an_error_reply_and_the_server_continues(
    stdio: Callable[..., Stdio], revision: str
) -> None:
    server = stdio()
    if revision == LEGACY:
        server.greet()
    for line, request_id, code in UNREADABLE:
        server.write(line)
        heard = server.hear()
        assert (heard["id"], heard["error"]["code"]) == (request_id, code), line[:80]
    server.say(**listing(revision))
    assert len(server.hear()["result"]["tools"]) == 2


def test_an_unreadable_line_may_be_the_first(stdio: Callable[..., Stdio]) -> None:
    server = stdio()
    server.write("hello")
    assert server.hear()["error"]["code"] == PARSE_ERROR
    server.greet()


def test_blank_lines_and_notifications_get_no_reply_and_a_return_is_a_blank(
    stdio: Callable[..., Stdio],
) -> None:
    server = stdio()
    server.greet()
    for line in ("", "  \t", '{"jsonrpc":"2.0","method":"notifications/unheard-of"}'):
        server.write(line)
    server.write('{"jsonrpc":"2.0",\r"id":2,"method":"ping"}\r')
    assert server.hear() == {"jsonrpc": "2.0", "id": 2, "result": {}}
