"""``codebase-mcp open`` serves the page and opens a browser, or only opens it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import httpx2
from tests.web.conftest import COMMAND, stop


def test_open_serves_the_page_unless_a_server_is_there(
    environment: dict[str, str], tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    environment |= {"BROWSER": f"{browser} %s", "CODEBASE_MCP_PORT": "0"}
    command = [*COMMAND, "open", "where", "is", "<b>&it"]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        url = opened.read_text().strip()  # waits for the browser
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/search?q=where+is+%3Cb%3E%26it")
        assert "default-src" in httpx2.get(url, timeout=60).headers["content-security-policy"]
        environment["CODEBASE_MCP_PORT"] = url.split(":")[2].split("/")[0]
        second = subprocess.Popen([*COMMAND, "open", "--project", "shop"], env=environment)
        assert opened.read_text().strip().endswith("/?project=shop")
        assert second.wait(60) == 0
    finally:
        stop(first)
    elsewhere = [*COMMAND, "open", "--host", "0.0.0.0"]
    refused = subprocess.run(
        elsewhere, check=False, env=environment, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert "this machine alone" in refused.stderr
