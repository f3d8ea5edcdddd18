"""A real git server over HTTP: `git http-backend` behind Python's own web server."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class GitServer:
    """What the server gives, whom it lets in, and what it saw of its callers."""

    root: Path
    port: int = 0
    credentials: str | None = None
    stalls: bool = False
    secret: str | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    seen: list[str] = field(default_factory=list)

    def url(self, path: str, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}/{path}"

    def look_around(self) -> None:
        """Note every process that has the secret in its arguments, where all can read it."""
        if self.secret is None:
            return
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                arguments = (place / "cmdline").read_text(errors="replace")
                if self.secret in arguments:
                    self.seen.append(arguments.replace("\0", " "))


class Handler(BaseHTTPRequestHandler):
    state: GitServer

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.body())

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        return b"".join(parts)

    def answer(self, body: bytes) -> None:
        self.state.asked.set()
        self.state.look_around()
        if self.state.stalls:
            self.state.released.wait()
            return
        if self.state.credentials is not None:
            expected = "Basic " + base64.b64encode(self.state.credentials.encode()).decode()
            if self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
        self.pass_on(backend(self.state.root, self, body))

    def pass_on(self, output: bytes) -> None:
        head, _, content = output.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        fields = {line[0]: line[1] for line in lines if len(line) == 2}
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    """Serve the repositories below a folder."""
    state = GitServer(root)
    with listening(state, Handler):
        yield state


@contextlib.contextmanager
def listening(state: GitServer, handler: type[Handler]) -> Iterator[None]:
    """Answer requests by a handler on a port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), {"state": state}))
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def backend(root: Path, request: BaseHTTPRequestHandler, body: bytes) -> bytes:
    """The answer of git's own program, as a web server calls it."""
    url = urlsplit(request.path)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "REQUEST_METHOD": request.command,
        "PATH_INFO": url.path,
        "QUERY_STRING": url.query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "http-backend"],
        input=body,
        env=environment,
        capture_output=True,
        check=True,
    )
    return done.stdout
