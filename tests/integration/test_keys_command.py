"""``codebase-mcp keys``, and a server that others can reach."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.integration.conftest import Shell

from codebase_mcp.cli.terminal import console
from codebase_mcp.database.connection import Embedded
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.secrets.masking import mask

COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]


@pytest.fixture
def fresh(scratch: Path) -> Iterator[dict[str, str]]:
    """The environment of a product whose database has no key yet."""
    folder = Path(tempfile.mkdtemp(prefix="cbm-", dir=scratch))
    folder.chmod(0o755)
    target = Embedded(folder / "data", idle_minutes=0.001)
    yield {
        **os.environ,
        "CODEBASE_MCP_DATA_DIR": str(target.data_dir),
        "CODEBASE_MCP_IDLE_MINUTES": "0.001",
    }
    EmbeddedServer(target).wait_until_ended()
    shutil.rmtree(folder)


def test_a_server_for_other_machines_starts_only_if_someone_has_a_key(
    fresh: dict[str, str],
) -> None:
    serve = [*COMMAND, "serve", "--transport", "http", "--host", "0.0.0.0", "--port", "0"]
    serve += ["--allowed-hosts", "127.0.0.1"]
    refused = subprocess.run(serve, env=fresh, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "no key" in refused.stderr
    assert "codebase-mcp keys create" in refused.stderr
    assert "--no-auth" in refused.stderr
    create = [*COMMAND, "keys", "create", "alice", "--expires", "1h"]
    key = subprocess.run(create, env=fresh, capture_output=True, text=True, check=True)
    with subprocess.Popen(serve, env=fresh, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = ""
        while "callers:" not in lines:
            lines += (line := server.stderr.readline())
            assert line, lines
        port = re.search(r"http://0\.0\.0\.0:(\d+)/mcp", lines)[1]  # type: ignore[index]
        url = f"http://127.0.0.1:{port}/openapi.json"
        assert "callers: with a key" in lines
        headers = {"Authorization": f"Bearer {key.stdout.strip()}"}
        assert httpx2.get(url, headers=headers).status_code == 200
        assert httpx2.get(url).status_code == 401
        server.terminate()


def test_keys_are_made_listed_rotated_and_revoked(shell: Shell) -> None:
    options = ["--scopes", "read", "--projects", "team-*, shop", "--expires", "90d"]
    made = shell("keys", "create", "alice", *options, "--requests-per-minute", "60", "--json")
    assert "no effect" not in made.stderr
    key = json.loads(made.stdout)
    text = key.pop("key")
    assert text.startswith(f"{key['id']}_")
    assert (key["owner"], key["scopes"], key["projects"], key["requests_per_minute"]) == (
        "alice", ["read"], ["team-*", "shop"], 60,
    )  # fmt: skip
    assert key["expires_at"] > key["created_at"]

    def listed() -> dict[str, object]:
        keys = json.loads(shell("keys", "--json").stdout)["keys"]
        found: dict[str, object] = next(one for one in keys if one["id"] == key["id"])
        return found

    assert listed() == key
    rotated = shell("keys", "rotate", key["id"], "--grace", "1h")
    assert rotated.stdout.startswith(f"{key['id']}_")
    assert rotated.stdout.strip() != text
    assert "only now" in rotated.stderr
    revoked = shell("keys", "revoke", text)
    assert f"{key['id']} of alice" in revoked.stdout
    assert listed()["state"] == "revoked"
    whole = shell("keys", "list").stdout + revoked.stdout
    assert key["id"] in whole
    assert text.rpartition("_")[2] not in whole
    for again in (["revoke", key["id"]], ["rotate", key["id"]], ["revoke", "cbm_unknown"]):
        answer = shell("keys", *again)
        assert answer.returncode == 1
        assert "No valid key" in answer.stderr


def test_a_key_indexes_where_nothing_is_allowed_for_all_or_it_has_roots_of_its_own(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The list has the keys of other tests too, some of them long: nothing in it may wrap.
    monkeypatch.setattr(console, "width", 10_000)

    def made(*options: str) -> tuple[object, object]:
        answer = shell("keys", *options, "--json")
        assert "no effect" not in answer.stderr
        key = json.loads(answer.stdout)
        return key["scopes"], key["roots"]

    create = ["create", "alice"]
    assert made(*create) == (["read", "write", "index"], None)
    assert made(*create, "--root", "/srv/code") == (["read", "write"], None)
    assert made("--root", "/srv/code", *create) == (["read", "write"], None)
    roots = ["--roots", "/srv/code/a,/srv/code/b"]
    both = ["/srv/code/a", "/srv/code/b"]
    assert made(*create, "--root", "/srv/code", *roots) == (["read", "write", "index"], both)
    assert made(*create, "--scopes", "read", *roots) == (["read"], both)
    listed = json.loads(shell("keys", "list", "--json").stdout)["keys"]
    assert {json.dumps(key["roots"]) for key in listed} >= {"null", json.dumps(both)}
    assert "/srv/code" in shell("keys", "list").stdout


def test_a_limit_of_requests_is_the_keys_wherever_it_stands(shell: Shell) -> None:
    limit = ["--requests-per-minute", "60"]
    for before, between, after in ((limit, [], []), ([], limit, []), ([], [], limit)):
        made = shell(*before, "keys", *between, "create", "alice", *after, "--json")
        assert "no effect" not in made.stderr
        assert json.loads(made.stdout)["requests_per_minute"] == 60
    assert shell(*limit, "keys", "list").stderr == ""


def test_a_server_on_stdio_alone_says_that_a_flag_is_for_http(
    fresh: dict[str, str], shell: Shell
) -> None:
    allowed = ["--root", "/srv/code"]
    serve = [*COMMAND, "serve", *allowed]
    served = subprocess.run(
        serve, env=fresh, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert "--root has no effect on stdio" in served.stderr
    assert "no effect" not in shell("keys", "list", *allowed).stderr


@pytest.mark.parametrize(
    "options",
    [
        ["alice", "--scopes", "read,root"],
        ["alice", "--scopes", ""],
        ["alice", "--projects", ","],
        ["alice", "--roots", "code"],
        ["alice", "--roots", ","],
        ["alice", "--expires", "soon"],
        ["alice", "--expires", "0d"],
        ["alice", "--expires", "-1d"],
        ["alice", "--requests-per-minute", "0"],
        [" "],
        ["a\nb"],
    ],
)
def test_options_of_a_key_without_a_meaning_are_refused(shell: Shell, options: list[str]) -> None:
    answer = shell("keys", "create", *options)
    assert answer.returncode != 0
    assert not answer.stdout
    assert "must be" in answer.stderr or "expected one argument" in answer.stderr


def test_keys_in_code_are_masked_like_every_other_secret(shell: Shell) -> None:
    text = json.loads(shell("keys", "create", "alice", "--json").stdout)["key"]
    assert text[4:] not in mask(f"curl -H 'X: {text}' # how it is called").text
