"""Runs git for our clones: over the network, with progress, and stoppable.

Also explains git's failures to users. ``clone.py`` decides what is fetched.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
_PROGRESS = re.compile(rb"^(?:remote: )?([A-Z][\w ]+):\s+(?:\d+% \((\d+)/(\d+)\)|(\d+))")
_MESSAGE = re.compile(rb"^(?:fatal|error|remote|ERROR|ssh|git)\b")
_GRACE_S = 5.0


class GitFailed(Exception):
    """A git command failed; the text is its error message, empty if git cannot be started."""


class Stopped(Exception):
    """The transfer was stopped."""


class Transfer:
    """Runs git for the clone of one repository, a command at a time.

    ``on_progress`` is called with git's progress. ``stop`` may be called from any thread: it ends
    the running command, and no other can start after it.
    """

    def __init__(self, remote: Remote, on_progress: Callable[[str], None] = lambda _: None) -> None:
        self._remote = remote
        self._on_progress = on_progress
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._process_group: int | None = None

    def stop(self) -> None:
        """Stop the running command, and prevent further ones."""
        with self._lock:
            self._stopped.set()
            self._signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Wait, unless stopped.

        Raises:
            Stopped: the transfer was stopped.
        """
        if self._stopped.wait(seconds):
            raise Stopped

    def run_local(self, directory: Path, *arguments: str) -> str:
        """The output of a command that does not use the network.

        Raises:
            GitFailed, Stopped: it did not succeed.
        """
        return self._run(directory, arguments, directory)

    def init(self, directory: Path) -> None:
        """Initialise a bare repository in an empty directory.

        Raises:
            GitFailed, Stopped: it did not succeed.
        """
        self._run(directory, ["init", "--bare", "--quiet", "--template="], None)

    def run_remote(self, directory: Path, *arguments: str, is_clone: bool) -> str:
        """The output of a command that contacts the remote.

        Raises:
            GitFailed, Stopped: it did not succeed.
        """
        git_dir = directory if is_clone else Path(os.devnull)
        protocols = _PROTOCOLS[self._remote.scheme]
        configuration, variables = _credentials(self._remote)
        return self._run(
            directory,
            arguments,
            git_dir,
            network=protocols,
            configuration=configuration,
            variables=variables,
        )

    def _run(
        self,
        directory: Path,
        arguments: Sequence[str],
        git_dir: Path | None,
        *,
        network: Sequence[str] | None = None,
        configuration: Sequence[tuple[str, str]] = (),
        variables: Mapping[str, str] | None = None,
    ) -> str:
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._stopped.is_set():
                    raise Stopped
                process = start_for_clone(
                    directory,
                    arguments,
                    git_dir=git_dir,
                    output=output,
                    network=network,
                    configuration=configuration,
                    variables=variables,
                )
                if process is None:
                    raise GitFailed("")
                self._process_group = process.pid
            assert process.stderr is not None
            with process, process.stderr as stream:
                complaint = self._listen(stream)
                status = process.wait()
                with self._lock:
                    self._process_group = None
            if self._stopped.is_set():
                raise Stopped
            if status != 0:
                raise GitFailed(complaint or f"git {arguments[0]} ended with status {status}")
            output.seek(0)
            return output.read().decode("utf-8", "backslashreplace")

    def _listen(self, stream: IO[bytes]) -> str:
        """Read standard error to its end, reporting progress; returns the last error lines."""
        kept: deque[bytes] = deque(maxlen=20)
        rest = b""
        while part := os.read(stream.fileno(), 65_536):
            *lines, rest = re.split(rb"[\r\n]", (rest + part)[-65_536:])
            for line in lines:
                if shown := _PROGRESS.match(line):
                    self._on_progress(_step(shown))
                elif line:
                    kept.append(line)
        lines = [line for line in (*kept, rest) if _MESSAGE.match(line)] or [*kept, rest]
        return b"\n".join(lines).decode("utf-8", "backslashreplace").strip()

    def _signal(self, number: int) -> None:
        if self._process_group is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process_group, number)
        if number == signal.SIGTERM and self._process_group is not None:
            last = threading.Timer(_GRACE_S, self._kill, (self._process_group,))
            last.daemon = True
            last.start()

    def _kill(self, process_group: int) -> None:
        with self._lock:
            if self._process_group == process_group:
                self._signal(signal.SIGKILL)


def _step(shown: re.Match[bytes]) -> str:
    name = shown[1].decode("ascii", "replace")
    return f"{name} {shown[2].decode()}/{shown[3].decode()}" if shown[2] else name


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
    # With only a user name, the user's own helpers may have the password; a token needs none.
    first = (
        (f"{key}.helper", "")
        if remote.password is not None
        else (
            f"{key}.username",
            remote.username,
        )
    )
    return [first, (f"{key}.helper", _HELPER)], variables


def explained(error: GitFailed, remote: Remote) -> CodebaseError:
    """The error that explains a failed command to the user."""
    complaint = str(error)
    if not complaint:
        return IndexingFailed(
            "git is needed to fetch a repository, and is not installed",
            hint="Install git, or index a directory.",
            details=_details(remote),
        )
    for error_class, pattern, message, hint in _MEANINGS:
        if re.search(pattern, complaint, re.IGNORECASE):
            text = message.format(url=remote.url, host=remote.host)
            if error_class is InvalidInput:
                return InvalidInput.of("path", remote.url, text, rule=_RULE, hint=hint)
            return error_class(text, hint=hint, details=_details(remote))
    return IndexingFailed(
        f"git could not fetch {remote.url}: {complaint.splitlines()[-1]}",
        hint="Check that `git ls-remote` works with this URL. To start again, run codebase-mcp"
        " remove URL.",
        details=_details(remote),
    )


def _details(remote: Remote) -> dict[str, str]:
    return {"field": "path", "value": remote.url}


_RULE = "the URL of a git repository that can be read"
# The order matters: the message for one cause may contain words of another.
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
