"""Runs git to query a directory.

The only module of the package that starts programs, and the only program is git. A repository may
be hostile: its configuration, hooks and index must not make git run a program, or list a path
outside the directory. ``walk.py`` decides which of the listed files to read.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git_directory import (
    GitRepository,
    common_dir,
    git_dir_of,
    git_repository_at,
)
from codebase_mcp.source.ignore import is_pipe_or_device, read_ignore_file

log = logging.getLogger(__name__)

# Long enough for a million files on a slow disk.
TIME_LIMIT_S = 30.0
# After this time, check whether git is blocked on a pipe named .gitignore.
_PIPE_CHECK_AFTER_S = 1.0

# These override the repository's configuration, in which each could name a program to run.
_SAFE_OPTIONS = (
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.sshCommand=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "advice.graftFileDeprecated=false",
    "-c",
    "safe.directory=*",
    # Larger files are not compared line by line, which would take memory.
    "-c",
    "core.bigFileThreshold=16m",
)
# Users may set the location of their configuration. All other GIT_ variables are removed, as a hook
# or shell that started us may have set them for another repository.
_KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
# Users may also configure how git reaches other machines.
_NETWORK_VARIABLES = re.compile(
    r"GIT_(?:SSH(?:_COMMAND|_VARIANT)?|SSL_\w+|PROXY_\w+|HTTP_\w+"
    r"|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
# These override the user's configuration for our own clones.
_CLONE_CONFIG = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("credential.interactive", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("transfer.bundleURI", "false"),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
    ("http.lowSpeedLimit", "1"),  # give up on a server that sends nothing for a minute
    ("http.lowSpeedTime", "60"),
    ("safe.directory", "*"),
)

_WAY_OUT = "links or alternates in its .git lead out of the allowed roots"

# The size of one read, and how much of an error message is shown.
_PIECE_BYTES = 1 << 16
_COMPLAINT_BYTES = 500
# A small object may be stored as a difference from one of many gigabytes, which git holds in
# memory. Git fails instead.
_MAX_ALLOCATION_BYTES = 1 << 30


class GitTimeout(IndexingFailed):
    """git was killed before its output was complete."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out: no branch if HEAD is detached, no commit in a new repository."""

    branch: str | None
    commit: str | None


def head_of(root: Path) -> Head | None:
    """Branch and commit checked out at the directory; None outside git or without git."""
    repository = git_repository_at(root)
    if repository is None:
        return None
    # Each may fail alone: there is no branch if HEAD is detached, no commit in a new repository.
    branch = run_git(root, repository, "symbolic-ref", "--quiet", "--short", "HEAD", may_fail=True)
    commit = run_git(root, repository, "rev-parse", "--quiet", "--verify", "HEAD", may_fail=True)
    if branch is None and commit is None:
        return None
    return Head(*(_word(answer) for answer in (branch, commit)))


def commit_at_head(repository: GitRepository) -> str | None:
    """The hash of the commit that is checked out; None before the first one."""
    answer = ask_git(repository, "rev-parse", "--quiet", "--verify", "HEAD")
    return None if answer is None else answer.strip().decode() or None


def shallow_commits(repository: GitRepository) -> frozenset[str]:
    """The commits at which a shallow clone ends: their parents are missing."""
    text = read_ignore_file(os.fsencode(repository.store / "shallow"), follow=True)
    return frozenset((text or b"").decode("ascii", "replace").split())


def ask_git(repository: GitRepository, *arguments: str) -> bytes | None:
    """The short output of one git command; None if it failed, which may be the answer."""
    answer = run_git(repository.root, repository, *arguments, may_fail=True)
    return None if answer is None else answer[0]


def stream_git(
    repository: GitRepository,
    *arguments: str,
    stdin: bytes = b"",
    limit_s: float | None = None,
) -> Iterator[bytes]:
    """The output of one git command, in pieces, so that a long output needs little memory.

    What git writes to standard error is only used for the error message. Git is ended when nothing
    more is taken of its output, and after ``limit_s`` or else ``TIME_LIMIT_S`` seconds.

    Raises:
        GitTimeout: it took too long; output until then has been yielded.
        IndexingFailed: git is missing, or it failed.
    """
    # Files instead of pipes for input and errors, to avoid a deadlock of two full pipes.
    with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as stderr_file:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        git = _start(repository, arguments, stdin_file, stderr_file)
        is_late = threading.Event()
        allowed_s = TIME_LIMIT_S if limit_s is None else limit_s
        limit = threading.Timer(allowed_s, _end, (git, is_late))
        limit.start()
        try:
            assert git.stdout is not None
            while piece := os.read(git.stdout.fileno(), _PIECE_BYTES):
                yield piece
            status = git.wait()
        finally:
            limit.cancel()
            git.kill()
            git.communicate()
        if is_late.is_set():
            raise GitTimeout(
                f"git {arguments[0]} took over {allowed_s:.0f} s",
                hint="Reduce the depth of the history.",
            )
        if status != 0:
            raise IndexingFailed(
                f"git {arguments[0]} failed: {_last_line(stderr_file)}",
                hint="Run git fsck to check the repository.",
            )


def _start(
    repository: GitRepository, arguments: Sequence[str], stdin: IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    program = _program(os.environ.get("PATH", os.defpath), repository.root)
    if program is None:
        raise IndexingFailed("git cannot be found", hint="Install git.")
    if repository.has_way_out:
        raise IndexingFailed(
            f"git is not used at {repository.root}: {_WAY_OUT}",
            hint="Allow the directory that they lead to as a root, too.",
        )
    try:
        return subprocess.Popen(
            [program, *_SAFE_OPTIONS, *_place(repository), *arguments],
            cwd=repository.root,
            env=_environment() | {"GIT_ALLOC_LIMIT": str(_MAX_ALLOCATION_BYTES)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    except OSError as error:
        raise IndexingFailed(
            f"git cannot be started: {error}", hint="Check that git --version works."
        ) from error


def _last_line(stderr: IO[bytes]) -> str:
    """The last line of standard error, which says why git failed."""
    stderr.seek(max(stderr.seek(0, os.SEEK_END) - _COMPLAINT_BYTES, 0))
    text = stderr.read().decode("utf-8", "backslashreplace").strip()
    return text.rpartition("\n")[2]


def _end(git: subprocess.Popen[bytes], is_late: threading.Event) -> None:
    is_late.set()
    git.kill()


def standard_excludes(
    directory: Path, top: Path | None, too_large: list[bytes] | None = None
) -> list[bytes]:
    """The contents of the global excludes file and of ``.git/info/exclude``, weakest first."""
    locations = [_global_excludes(directory, top)]
    git_dir = git_dir_of(top) if top else None
    if git_dir:
        locations.append(common_dir(git_dir) / "info" / "exclude")
    texts = (
        read_ignore_file(os.fsencode(place), follow=True, too_large=too_large)
        for place in locations
    )
    return [text for text in texts if text]


def external_rule_files(directory: Path, top: Path | None) -> list[Path]:
    """The files outside a tree that also affect which of its files git lists."""
    found = [_global_excludes(directory, top)]
    git_dir = git_dir_of(top) if top else None
    if git_dir:
        found += [git_dir / "index", common_dir(git_dir) / "info" / "exclude"]
    return found


def _global_excludes(directory: Path, top: Path | None) -> Path:
    repository = None if top is None else GitRepository(directory, top / ".git", top)
    answer = run_git(
        directory, repository, "config", "--type=path", "--get", "core.excludesFile", may_fail=True
    )
    if answer and (configured := answer[0].rstrip(b"\n")):
        return directory / os.fsdecode(configured)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(home, "git", "ignore")


def _word(answer: tuple[bytes, bytes] | None) -> str | None:
    return answer[0].strip().decode("utf-8", "backslashreplace") or None if answer else None


def run_git(
    directory: Path,
    repository: GitRepository | None,
    *arguments: str,
    may_fail: bool = False,
) -> tuple[bytes, bytes] | None:
    """Standard output and error of one git command, or None if it failed, which is logged.

    ``--git-dir`` avoids git's own search and its refusal of repositories of other users;
    ``--work-tree`` overrides a ``core.worktree`` that points elsewhere.
    """
    program = _program(os.environ.get("PATH", os.defpath), directory)
    if program is None:
        return None
    if repository is not None and repository.has_way_out:
        log.warning("git is not used at %s: %s", directory, _WAY_OUT)
        return None
    try:
        git = subprocess.Popen(
            [program, *_SAFE_OPTIONS, *_place(repository), *arguments],
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        log.warning("git cannot be started in %s: %s", directory, error)
        return None
    with git:
        try:
            # Only this command reads ignore files.
            reads_rules = arguments[0] == "ls-files"
            top = repository.work_tree if repository is not None and reads_rules else None
            output, complaints = _answer(git, directory, top)
        except subprocess.TimeoutExpired as error:
            message = "git %s did not finish within %.0f s in %s"
            log.warning(message, arguments[0], error.timeout, directory)
            return None
        finally:
            git.kill()
    if git.returncode == 0:
        return output, complaints
    if not may_fail:
        complaint = complaints.decode("utf-8", "backslashreplace").strip()
        log.warning("git %s failed in %s: %s", arguments[0], directory, complaint)
    return None


def _place(repository: GitRepository | None) -> list[str]:
    """The options that name a repository, or none at all."""
    if repository is None:
        return ["--git-dir=/dev/null"]
    place = [f"--git-dir={repository.git_dir}"]
    if repository.work_tree is not None:
        place.append(f"--work-tree={repository.work_tree}")
    return place


def _answer(git: subprocess.Popen[bytes], directory: Path, top: Path | None) -> tuple[bytes, bytes]:
    """Wait for git's output, unless it takes too long or is blocked on a pipe named .gitignore.

    ``top`` is the work tree whose ignore files it reads, if any.

    Raises:
        subprocess.TimeoutExpired: git is still running.
    """
    try:
        return git.communicate(timeout=_PIPE_CHECK_AFTER_S)
    except subprocess.TimeoutExpired:
        if top is not None and _has_pipe_for_rules(directory, top):
            raise
    return git.communicate(timeout=TIME_LIMIT_S)


def _has_pipe_for_rules(directory: Path, top: Path) -> bool:
    """Whether an ignore file is a pipe or device, on which git blocks for ever."""
    above = [place for place in directory.parents if place.is_relative_to(top)]
    places = [_global_excludes(directory, top), *(place / ".gitignore" for place in above)]
    if any(is_pipe_or_device(place) for place in places):
        return True
    for here, folders, files in os.walk(directory):
        if ".gitignore" in files and is_pipe_or_device(Path(here, ".gitignore")):
            return True
        folders[:] = [name for name in folders if name != ".git"]
    return False


def start_for_clone(
    directory: Path,
    arguments: Sequence[str],
    *,
    git_dir: Path | None,
    output: IO[bytes],
    network: Sequence[str] | None = None,
    configuration: Sequence[tuple[str, str]] = (),
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes] | None:
    """Start git for one of our clones, in a session of its own; None if git is missing.

    Only commands that may use the ``network``, over these protocols, use the user's configuration,
    for keys, helpers and proxies. Other commands do not, as filters in it must not run on untrusted
    files. ``git_dir`` is None before there is a clone. Standard error is piped.
    """
    program = _program(os.environ.get("PATH", os.defpath), directory)
    if program is None:
        return None
    settings = [part for name, value in _CLONE_CONFIG for part in ("-c", f"{name}={value}")]
    place = [] if git_dir is None else [f"--git-dir={git_dir}"]
    environment = _environment() if network is None else _network_environment(network)
    if network is None:
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    first = int(environment.get("GIT_CONFIG_COUNT", "0") or "0")
    for number, (name, value) in enumerate(configuration, first):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    if configuration:
        environment["GIT_CONFIG_COUNT"] = str(first + len(configuration))
    return subprocess.Popen(
        [program, "--no-pager", *settings, *place, *arguments],
        cwd=directory,
        env=environment | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        # Without a terminal no helper of git can prompt, and Ctrl-C only reaches us.
        start_new_session=True,
    )


def _network_environment(protocols: Sequence[str]) -> dict[str, str]:
    """The environment in which git uses the user's network configuration, but never prompts."""
    kept = {n: v for n, v in os.environ.items() if _NETWORK_VARIABLES.fullmatch(n)}
    lasting = {
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }
    environment = _environment() | kept | lasting
    if "ssh" in protocols and "GIT_SSH" not in kept:
        environment["GIT_SSH_COMMAND"] = _silent_ssh(kept)
    return environment


def _silent_ssh(kept: Mapping[str, str]) -> str:
    """The user's ssh command with options against prompts; other programs are left as they are."""
    answer = run_git(Path("/"), None, "config", "--get-all", "core.sshCommand", may_fail=True)
    theirs = (_word(answer) or "").split("\n")[:-1]  # the last is the one of `_SAFE_OPTIONS`
    command = kept.get("GIT_SSH_COMMAND") or (theirs[-1] if theirs else "ssh")
    if Path(command.split()[0]).name.removesuffix(".exe") != "ssh":
        return command
    return f"{command} -o BatchMode=yes -o ConnectTimeout=30"


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    return kept | {
        "LC_ALL": "C",  # we parse error messages, in English
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        # A partial clone would fetch missing objects, with any program that its configuration
        # names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        # Replacements and grafts would change the history.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
    }


@lru_cache(maxsize=64)
def _program(search_path: str, directory: Path) -> str | None:
    """The path of git, never one inside the directory or from a relative search path."""
    places = [
        place
        for place in search_path.split(os.pathsep)
        if Path(place).is_absolute() and not Path(place).is_relative_to(directory)
    ]
    return shutil.which("git", path=os.pathsep.join(places))
