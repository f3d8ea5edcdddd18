"""Runs git for our clones: over the network, with progress, and stoppable.

Also explains git's failures to users. ``clone.py`` says what to fetch.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from codebase_mcp.errors import CodebaseError, IndexingFailed, InvalidInput
from codebase_mcp.source.git import start_for_clone
from codebase_mcp.source.remote import ACCEPTED, Remote

# A credential helper passes the password to git only. Arguments are visible in the process list,
# and a URL with a password would appear in messages and in the clone's configuration.
_HELPER = (
    '!f() { test "$1" = get || exit 0;'
    ' printf "username=%s\\npassword=%s\\n" "$CODEBASE_GIT_USERNAME" "$CODEBASE_GIT_PASSWORD"; }; f'
)
# The user may have configured another protocol for a host (url.….insteadOf).
_PROTOCOLS = {
    "https": ("https", "ssh"),
    "http": ("http", "https", "ssh"),
    "ssh": ("ssh", "https"),
    "file": ("file",),
}
_PROGRESS = re.compile(rb"^(?:remote: )?([A-Z][\w ]+):\s+(?:\d+% \((\d+)/(\d+)\)|\d+)")
_MESSAGE = re.compile(rb"^(?:fatal|error|remote|ERROR|ssh|git)\b")
_GRACE_S = 5.0


class GitFailed(Exception):
    """A git command failed; the text is its error message, empty if git cannot be started."""


class Stopped(Exception):
    """The transfer was stopped."""


class Transfer:
    """Runs git for the clone of a repository, a command at a time.

    ``on_progress`` is called with git's progress. ``stop`` may be called from any thread: it ends
    the running command, and prevents further ones.
    """

    def __init__(self, remote: Remote, on_progress: Callable[[str], None] = lambda _: None) -> None:
        self.remote = remote
        self._on_progress = on_progress
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._process_group: int | None = None

    def stop(self) -> None:
        """Stop the running command, and prevent further ones."""
        with self._lock:
            self._stopped.set()
            if self._process_group is not None:
                self._signal(self._process_group, signal.SIGTERM)
                last = threading.Timer(_GRACE_S, self._kill, (self._process_group,))
                last.daemon = True
                last.start()

    def wait(self, seconds: float) -> None:
        """Wait, unless stopped.

        Raises:
            Stopped: the transfer was stopped.
        """
        if self._stopped.wait(seconds):
            raise Stopped

    def run(self, directory: Path, *arguments: str, over_network: bool = False) -> str:
        """The output of a git command in the directory of a clone.

        Raises:
            GitFailed, Stopped: it did not succeed.
        """
        configuration, variables = _credentials(self.remote) if over_network else ([], {})
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._stopped.is_set():
                    raise Stopped
                process = start_for_clone(
                    directory,
                    arguments,
                    output,
                    network=_PROTOCOLS[self.remote.scheme] if over_network else None,
                    configuration=configuration,
                    variables=variables,
                )
                if process is None:
                    raise GitFailed("")
                self._process_group = process.pid
            assert process.stderr is not None
            with process, process.stderr as stream:
                message = self._listen(stream)
                status = process.wait()
                with self._lock:
                    self._process_group = None
            if self._stopped.is_set():
                raise Stopped
            if status != 0:
                raise GitFailed(message or f"git {arguments[0]} ended with status {status}")
            output.seek(0)
            return output.read().decode("utf-8", "backslashreplace")

    def _listen(self, stream: IO[bytes]) -> str:
        """Read standard error to its end, reporting progress; returns the last error lines."""
        kept: deque[bytes] = deque(maxlen=20)
        rest = b""
        while part := os.read(stream.fileno(), 65_536):
            *lines, rest = re.split(rb"[\r\n]", (rest + part)[-65_536:])
            for line in lines:
                if progress := _PROGRESS.match(line):
                    name, done, total = (group.decode() for group in progress.groups(b""))
                    self._on_progress(f"{name} {done}/{total}" if done else name)
                elif line:
                    kept.append(line)
        lines = [line for line in (*kept, rest) if _MESSAGE.match(line)] or [*kept, rest]
        return b"\n".join(lines).decode("utf-8", "backslashreplace").strip()

    def _kill(self, process_group: int) -> None:
        with self._lock:
            if self._process_group == process_group:
                self._signal(process_group, signal.SIGKILL)

    @staticmethod
    def _signal(process_group: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process_group, number)


def _credentials(remote: Remote) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Configuration and variables that pass user and password to git."""
    if remote.username is None or remote.scheme not in ("http", "https"):
        return [], {}
    authority = remote.url.split("/", 3)[2]
    key = f"credential.{remote.scheme}://{authority}"
    variables = {
        "CODEBASE_GIT_USERNAME": remote.username,
        "CODEBASE_GIT_PASSWORD": remote.password or "",
    }
    if remote.password is None:  # the user's own helpers may have it; a token needs none
        first = (f"{key}.username", remote.username)
    else:
        first = (f"{key}.helper", "")  # no helper but ours
    return [first, (f"{key}.helper", _HELPER)], variables


def explained(error: GitFailed, remote: Remote) -> CodebaseError:
    """The error that explains a failed command to the user."""
    message = str(error)
    if not message:
        return IndexingFailed(
            "git is needed to fetch a repository, and is not installed",
            hint="Install git, or index a directory.",
            details=_details(remote),
        )
    for error_class, pattern, explanation, hint in _MEANINGS:
        if re.search(pattern, message, re.IGNORECASE):
            text = explanation.format(url=remote.url, host=remote.host)
            if error_class is InvalidInput:
                return InvalidInput.of("path", remote.url, text, rule=_RULE, hint=hint)
            return error_class(text, hint=hint, details=_details(remote))
    return IndexingFailed(
        f"git could not fetch {remote.url}: {message.splitlines()[-1]}",
        hint="Check that `git ls-remote` works with this URL. To start again, run codebase-mcp"
        " remove URL.",
        details=_details(remote),
    )


def _details(remote: Remote) -> dict[str, str]:
    return {"field": "path", "value": remote.url}


_RULE = "the URL of a git repository that can be read"
# The order matters: the message for a cause may contain words of a later entry.
_MEANINGS: tuple[tuple[type[CodebaseError], str, str, str], ...] = (
    (
        IndexingFailed,
        r"no space left|disk quota",
        "The disk is full",
        "Free some space, then run it again.",
    ),
    (
        IndexingFailed,
        r"certificate",
        "The certificate of {host} is not trusted",
        "Configure the certificate authority: git config --global http.sslCAInfo FILE.",
    ),
    (
        InvalidInput,
        r"could not resolve host|name or service not known|could not resolve hostname",
        "Host not found: {host}",
        f"Check the spelling and the network. A URL is {ACCEPTED}.",
    ),
    (
        IndexingFailed,
        r"cannot run ssh|unable to find remote helper",
        "git cannot connect to {host}: a program that it needs is missing",
        "Install ssh, or the full git package.",
    ),
    (
        InvalidInput,
        r"host key verification failed",
        "ssh has no trusted key for the host {host}",
        "Connect to it once with ssh, and check its key.",
    ),
    (
        InvalidInput,
        r"dumb http transport does not support",
        "The server of {url} does not support shallow clones",
        "Add --full.",
    ),
    (
        InvalidInput,
        r"authentication failed|could not read (?:username|password)|terminal prompts disabled"
        r"|unable to get password|permission denied|returned error: 40[13]|invalid credentials"
        r"|access denied",
        "Not allowed to read {url}, or it does not exist",
        "Provide credentials: a credential helper, an ssh key, or https://user:token@host/…",
    ),
    (
        InvalidInput,
        r"returned error: 4\d\d|not found|does not appear to be a git repository"
        r"|no such file or directory|does not exist|is this a git repository",
        "No git repository at {url}",
        f"Check the URL: {ACCEPTED}.",
    ),
    (
        IndexingFailed,
        r"failed to connect|couldn't connect|connection (?:refused|reset|timed out|closed)"
        r"|timed out|timeout|unreachable|hung up|early eof|rpc failed|too slow|disconnect",
        "{host} does not answer, or closed the connection",
        "Try again. What was fetched before is kept.",
    ),
)
