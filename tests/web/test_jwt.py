"""Tokens of an identity provider, which a small server on loopback stands for."""

from __future__ import annotations

import hmac
import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.web.conftest import serving
from tests.web.test_sign_in import browser, is_signed_in, session_of, sign_in

from codebase_mcp.access.identity import Access
from codebase_mcp.access.keys import create_key
from codebase_mcp.database.connection import Database
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.authentication import Tokens

pytestmark = pytest.mark.anyio

AUDIENCE = "https://code.example.com"


@cache
def key_named(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name})


class Provider(BaseHTTPRequestHandler):
    """Publishes the key ``known``."""

    def do_GET(self) -> None:
        body = json.dumps({"keys": [key_named("known").as_dict(private=False)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(settings: Settings, issuer: str) -> Settings:
    return replace(
        settings,
        require_keys=True,
        jwt_issuer=issuer,
        jwt_audience=AUDIENCE,
        jwt_jwks_url=f"{issuer}/keys",
        jwt_scope_prefix="code:",
        jwt_projects_claim="projects",
        public_url=AUDIENCE,
    )


def token(
    issuer: str, *, key: Any = None, alg: str = "RS256", kid: str = "known", **claims: Any
) -> str:
    """A token that is valid but for what the test says; a claim of None is left out."""
    valid = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": "alice",
        "client_id": "editor",
        "scope": "openid code:read",
        "exp": int(time.time()) + 3600,
        "projects": ["team-*"],
    }
    said = {name: value for name, value in (valid | claims).items() if value is not None}
    header = {"alg": alg, "kid": kid}
    return jwt.encode(header, said, key or key_named("known"), algorithms=[alg])


def unsigned(text: str, alg: str = "none") -> str:
    """The same claims without a signature."""
    return f"{_part(json.dumps({'alg': alg, 'kid': 'known'}).encode())}.{text.split('.')[1]}."


def signed_with_the_public_key(text: str) -> str:
    """The same claims, with what everyone knows as a shared secret."""
    signed = unsigned(text, "HS256").rstrip(".")
    public = key_named("known").as_pem(private=False)
    return f"{signed}.{_part(hmac.digest(public, signed.encode(), 'sha256'))}"


def _part(content: bytes) -> str:
    return b64encode(content, b"-_").decode().rstrip("=")


async def statuses(address: str, *tokens: str) -> list[int]:
    found = []
    async with httpx2.AsyncClient(base_url=address) as http:
        for text in tokens:
            headers = {"Authorization": f"Bearer {text}"}
            answer = await http.get("/openapi.json", headers=headers)
            assert text not in answer.text
            found.append(answer.status_code)
    return found


async def test_only_tokens_of_the_provider_for_this_server_are_accepted(
    settings: Settings, issuer: str
) -> None:
    now = int(time.time())
    valid = [token(issuer), token(f"{issuer}/"), token(issuer, aud=["other", AUDIENCE])]
    invalid = [
        token(issuer, key=key_named("other")),
        token(issuer, key=key_named("other"), kid="other"),
        signed_with_the_public_key(token(issuer)),
        token("http://127.0.0.1:9"),
        token(issuer, iss=None),
        token(issuer, aud="https://other.example.com"),
        token(issuer, aud=None),
        token(issuer, exp=now - 10),
        token(issuer, exp=None),
        token(issuer, nbf=now + 3600),
        unsigned(token(issuer)),
        unsigned(token(issuer), alg="RS256"),
        "a.b.c",
    ]
    async with serving(settings) as server:
        assert await statuses(server.address, *valid) == [200] * len(valid)
        assert await statuses(server.address, *invalid) == [401] * len(invalid)


async def test_a_token_without_a_scope_of_ours_is_valid_and_allows_nothing(
    settings: Settings, issuer: str
) -> None:
    useless = [token(issuer, scope="openid read"), token(issuer, scope=None)]
    async with serving(settings) as server, httpx2.AsyncClient(base_url=server.address) as http:
        for text in useless:
            headers = {"Authorization": f"Bearer {text}"}
            answer = await http.get("/openapi.json", headers=headers)
            assert answer.status_code == 403
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


async def test_scopes_and_projects_are_those_that_the_token_names(
    settings: Settings, issuer: str
) -> None:
    tokens = Tokens(settings)

    async def access(tokens: Tokens = tokens, **claims: Any) -> Access:
        checked = await tokens.verify(token(issuer, **claims))
        assert checked is not None
        return tokens.access(checked)

    assert await access() == Access(frozenset({"read"}), ("team-*",), reads_as_server=False)
    scp = await access(scope=None, scp=["code:write", "code:admin", "code:root"])
    assert scp.scopes == {"read", "write", "index", "admin"}
    assert (await access(scope="code:write")).scopes == {"write"}
    assert (await access(projects="shop team-*")).projects == ("shop", "team-*")
    for nothing in (None, 7, {"a": 1}, [1, None]):
        assert (await access(projects=nothing)).projects == ()
    unset = Tokens(replace(settings, jwt_projects_claim=None, jwt_scope_prefix=""))
    everything = await access(unset, scope="read write admin")
    assert everything.projects == ("*",)
    assert everything.scopes == {"read", "write", "index", "admin"}
    assert (await access(scope="code:index code:write")).scopes == {"index", "write"}
    assert not everything.reads_as_server


async def test_clients_find_the_provider_as_oauth_says(settings: Settings, issuer: str) -> None:
    metadata_path = "/.well-known/oauth-protected-resource/mcp"
    async with serving(settings) as server, httpx2.AsyncClient(base_url=server.address) as http:
        refused = await http.post("/mcp", json={})
        wrong = await http.post("/mcp", json={}, headers={"Authorization": "Bearer x"})
        metadata = (await http.get(metadata_path)).json()
    pointer = f'resource_metadata="{AUDIENCE}{metadata_path}"'
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, f"Bearer {pointer}")
    assert wrong.headers["www-authenticate"] == f'Bearer error="invalid_token", {pointer}'
    assert metadata["resource"] == f"{AUDIENCE}/mcp"
    assert metadata["authorization_servers"] == [f"{issuer}/"]
    assert metadata["scopes_supported"] == [
        "code:read", "code:write", "code:index", "code:admin"
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tokens_and_keys_are_accepted_side_by_side_over_mcp(
    settings: Settings, issuer: str, database: Database, mode: Any
) -> None:
    _, key = await create_key(database, "alice", Access(frozenset({"read"})))
    async with serving(settings) as server:
        for bearer in (key, token(issuer)):
            transport = StreamableHttpTransport(f"{server.address}/mcp")
            async with Client(transport, auth=bearer, mode=mode) as client:
                names = {tool.name for tool in await client.list_tools()}
                assert "search_code" in names
                assert "create_task" not in names


async def test_a_provider_that_is_away_lets_nobody_in(settings: Settings, issuer: str) -> None:
    away = replace(settings, jwt_jwks_url="http://127.0.0.1:9/keys")
    async with serving(away) as server:
        assert await statuses(server.address, token(issuer)) == [401]


async def test_a_token_signs_a_browser_in_until_it_expires(
    settings: Settings, issuer: str, database: Database
) -> None:
    soon = int(time.time()) + 600
    async with browser(replace(settings, public_url=None)) as http:
        cookie = await session_of(http, token(issuer, projects=["*"], exp=soon))
        assert await is_signed_in(http, cookie)
        async with database.catalogue() as tx:
            ends = "SELECT extract(epoch FROM expires_at)::bigint, scopes FROM browser_session"
            assert await tx.fetch_one(f"{ends} WHERE key_id IS NULL") == (soon, ["read"])
        assert (await sign_in(http, token(issuer, scope="openid"))).status_code == 403
        refused = await sign_in(http, token(issuer, exp=soon - 3600))
        assert refused.headers["location"] == "/sign-in?wrong=1"
    async with browser(replace(settings, jwt_issuer=None)) as http:
        assert not await is_signed_in(http, cookie)
