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
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from codebase_mcp.source.open_file import is_pipe_or_device, read_ignore_file

log = logging.getLogger(__name__)

FSCK_HINT = "Run git fsck to check the repository."

# Long enough for a million files on a slow disk.
TIME_LIMIT_S = 30.0
# After this time, check whether git is blocked on a pipe named .gitignore.
_PIPE_CHECK_AFTER_S = 1.0

# What lists the entries of the index and untracked files. -t tags each line with its type; without
# it the name of an untracked file could look like the details of a tracked file.
LIST_FILES = ("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--")
# Paths that lead out of the tree or into the git directory. Git refuses to write them to an index,
# but reads a forged index.
_OUTSIDE_TREE = re.compile(rb"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)

# These override the user's and the repository's configuration, which could name programs to run.
_ALWAYS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.directory=*")
_FOR_QUERIES = (
    *_ALWAYS,
    "core.sshCommand=false",
    "core.untrackedCache=false",
    "advice.graftFileDeprecated=false",
    "core.bigFileThreshold=16m",  # comparing larger files line by line would take memory
)
_FOR_CLONES = (
    *_ALWAYS,
    "core.askPass=",
    "credential.interactive=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.bundleURI=false",
    "maintenance.auto=false",
    "gc.auto=0",
    "http.lowSpeedLimit=1",  # give up on a server that sends nothing for a minute
    "http.lowSpeedTime=60",
)
# Users may set the location of their configuration. All further GIT_ variables are removed, as a
# hook or shell that started us may have set them for another repository.
_KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
# Users may also configure how git reaches remote machines.
_NETWORK_VARIABLES = re.compile(
    r"GIT_(?:SSH(?:_COMMAND|_VARIANT)?|SSL_\w+|PROXY_\w+|HTTP_\w+"
    r"|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)

# The size of a read, and how much of an error message is shown.
_READ_BYTES = 1 << 16
_MESSAGE_BYTES = 500
# A small object may be stored as a difference from an object of gigabytes, which git holds in
# memory. Git fails instead.
_MAX_ALLOCATION_BYTES = 1 << 30


class GitTimeout(IndexingFailed):
    """git was killed before its output was complete."""


@dataclass(frozen=True, slots=True)
class Head:
    """The checked-out branch and commit.

    ``branch`` is None if HEAD is detached, ``commit`` in a new repository.
    """

    branch: str | None
    commit: str | None


def head_of(root: Path) -> Head | None:
    """Branch and commit checked out at the directory; None outside git or without git."""
    repository = git_repository_at(root)
    if repository is None:
        return None
    branch = ask_git_word(repository, "symbolic-ref", "--quiet", "--short", "HEAD")
    commit = commit_at_head(repository)
    return None if branch is None and commit is None else Head(branch, commit)


def commit_at_head(repository: GitRepository) -> str | None:
    """The hash of the commit that is checked out; None before the first commit."""
    return ask_git_word(repository, "rev-parse", "--quiet", "--verify", "HEAD")


def shallow_commits(repository: GitRepository) -> frozenset[str]:
    """The commits at which a shallow clone ends: their parents are missing."""
    text = read_ignore_file(os.fsencode(repository.store / "shallow"), follow=True)
    return frozenset((text or b"").decode("ascii", "replace").split())


def ask_git(repository: GitRepository, *arguments: str) -> bytes | None:
    """The short output of a git command; None if it failed, which may be the answer."""
    git = run_git(repository.root, repository, *arguments)
    return git.stdout if git is not None and git.returncode == 0 else None


def ask_git_word(repository: GitRepository, *arguments: str) -> str | None:
    """The output of a git command that prints a word; None if it failed or printed nothing."""
    output = ask_git(repository, *arguments) or b""
    return output.strip().decode("utf-8", "backslashreplace") or None


def read_git(
    repository: GitRepository,
    *arguments: str,
    lines: Iterable[str] = (),
    limit_s: float | None = None,
) -> bytes:
    """The output of ``stream_git`` as a whole."""
    return b"".join(stream_git(repository, *arguments, lines=lines, limit_s=limit_s))


def stream_git(
    repository: GitRepository,
    *arguments: str,
    lines: Iterable[str] = (),
    limit_s: float | None = None,
) -> Iterator[bytes]:
    """The output of a git command, in pieces, so that a long output needs little memory.

    Git reads the ``lines`` from its standard input. The error message quotes its standard error.
    Git ends when the caller stops iterating, and after ``limit_s`` or ``TIME_LIMIT_S`` seconds.

    Raises:
        GitTimeout: it took too long; output until then has been yielded.
        IndexingFailed: git is missing, or it failed.
    """
    # Files instead of pipes for input and errors, to avoid a deadlock of two full pipes.
    with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as stderr_file:
        text = "".join(f"{line}\n" for line in lines)
        stdin_file.write(text.encode("utf-8", "surrogateescape"))
        stdin_file.seek(0)
        git = _start(repository.root, repository, arguments, stdin_file, stderr_file)
        allowed_s = TIME_LIMIT_S if limit_s is None else limit_s
        end = time.monotonic() + allowed_s
        limit = threading.Timer(allowed_s, git.kill)
        limit.start()
        try:
            assert git.stdout is not None
            while piece := os.read(git.stdout.fileno(), _READ_BYTES):
                yield piece
            status = git.wait()
        finally:
            limit.cancel()
            git.kill()
            git.communicate()
        if time.monotonic() >= end:
            raise GitTimeout(
                f"git {arguments[0]} took over {allowed_s:.0f} s",
                hint="Reduce the depth of the history.",
            )
        if status != 0:
            stderr_file.seek(max(stderr_file.seek(0, os.SEEK_END) - _MESSAGE_BYTES, 0))
            message = stderr_file.read().decode("utf-8", "backslashreplace").strip()
            _, _, last_line = message.rpartition("\n")
            raise IndexingFailed(f"git {arguments[0]} failed: {last_line}", hint=FSCK_HINT)


def split_records(pieces: Iterator[bytes], separator: bytes) -> Iterator[bytes]:
    """The records of a stream, which end with a separator."""
    rest = b""
    for piece in pieces:
        *records, rest = (rest + piece).split(separator)
        yield from records


def run_git(
    directory: Path, repository: GitRepository | None, *arguments: str
) -> subprocess.CompletedProcess[bytes] | None:
    """Run a git command in a directory; None if git is missing, not allowed or too slow.

    All of these but a missing git are logged. Without a ``repository`` git reads none.
    """
    if _program(directory) is None:
        return None
    # Only this command reads ignore files.
    top = repository.work_tree if repository is not None and arguments[0] == "ls-files" else None
    try:
        git = _start(directory, repository, arguments, subprocess.DEVNULL, subprocess.PIPE)
        with git:
            try:
                output, errors = _communicate(git, directory, top)
            finally:
                git.kill()
    except IndexingFailed as error:
        log.warning("%s", error.message)
        return None
    except subprocess.TimeoutExpired as error:
        message = "git %s did not finish within %.0f s in %s"
        log.warning(message, arguments[0], error.timeout, directory)
        return None
    return subprocess.CompletedProcess(git.args, git.returncode, output, errors)


def listed_entries(output: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The type, details and path of each entry in the output of ``LIST_FILES``.

    The details are mode, hash and stage; empty for untracked files. The path of a directory, which
    is a repository of its own, ends with a slash. Paths that lead out of the tree are left out.
    """
    for record in output.split(b"\0"):
        tag, _, rest = record.partition(b" ")
        details, _, path = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if tag and not is_outside_tree(path.removesuffix(b"/")):
            yield tag, details, path


def is_outside_tree(path: bytes) -> bool:
    """Whether a path leads out of its tree or into a git directory, or has an empty part."""
    return _OUTSIDE_TREE.search(path) is not None


def _communicate(
    git: subprocess.Popen[bytes], directory: Path, top: Path | None
) -> tuple[bytes, bytes]:
    """Wait for git's output, unless it takes too long or is blocked on a pipe named .gitignore.

    ``top`` is the work tree whose ignore files git reads, if any.

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
    above = [folder / ".gitignore" for folder in directory.parents if folder.is_relative_to(top)]
    if any(map(is_pipe_or_device, (_global_excludes(directory, top), *above))):
        return True
    for folder, subfolders, files in os.walk(directory):
        if ".gitignore" in files and is_pipe_or_device(Path(folder, ".gitignore")):
            return True
        subfolders[:] = [name for name in subfolders if name != ".git"]
    return False


def _start(
    directory: Path,
    repository: GitRepository | None,
    arguments: Sequence[str],
    stdin: IO[bytes] | int,
    stderr: IO[bytes] | int,
) -> subprocess.Popen[bytes]:
    """Start git for a query.

    ``--git-dir`` avoids git's own search and its refusal of repositories of another user;
    ``--work-tree`` overrides a ``core.worktree`` that points elsewhere.

    Raises:
        IndexingFailed: git is missing, not allowed here, or cannot be started.
    """
    program = _program(directory)
    if program is None:
        raise IndexingFailed("git cannot be found", hint="Install git.")
    options = [f"--git-dir={os.devnull if repository is None else repository.git_dir}"]
    if repository is not None and repository.has_way_out:
        raise IndexingFailed(
            f"git is not used at {directory}: links or alternates in its .git lead out of the"
            " allowed roots",
            hint="Allow the directory that they lead to as a root, too.",
        )
    if repository is not None and repository.work_tree is not None:
        options.append(f"--work-tree={repository.work_tree}")
    settings = ("--no-pager", "--literal-pathspecs", *_configuration(_FOR_QUERIES))
    try:
        return subprocess.Popen(
            [program, *settings, *options, *arguments],
            cwd=directory,
            env=_environment() | {"GIT_ALLOC_LIMIT": str(_MAX_ALLOCATION_BYTES)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    except OSError as error:
        raise IndexingFailed(
            f"git cannot be started in {directory}: {error}", hint="Check that git --version works."
        ) from error


def standard_excludes(
    directory: Path, top: Path | None, too_large: list[bytes] | None = None
) -> list[bytes]:
    """The contents of the global excludes file and of ``.git/info/exclude``, weakest first."""
    texts = (
        read_ignore_file(os.fsencode(location), follow=True, too_large=too_large)
        for location in external_rule_files(directory, top)[:2]  # the index has no rules
    )
    return [text for text in texts if text]


def external_rule_files(directory: Path, top: Path | None) -> list[Path]:
    """The files outside a tree that also affect which of its files git lists."""
    locations = [_global_excludes(directory, top)]
    if top and (git_dir := git_dir_of(top)):
        locations += [common_dir(git_dir) / "info" / "exclude", git_dir / "index"]
    return locations


def _global_excludes(directory: Path, top: Path | None) -> Path:
    repository = None if top is None else GitRepository(directory, top)
    git = run_git(directory, repository, "config", "--type=path", "--get", "core.excludesFile")
    if git is not None and git.returncode == 0 and (configured := git.stdout.rstrip(b"\n")):
        return directory / os.fsdecode(configured)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(home, "git", "ignore")


def start_for_clone(
    git_dir: Path,
    arguments: Sequence[str],
    output: IO[bytes],
    *,
    network: Sequence[str] | None,
    configuration: Sequence[tuple[str, str]],
    variables: Mapping[str, str],
) -> subprocess.Popen[bytes] | None:
    """Start git for a clone of ours, in a session of its own; None if git is missing.

    Only commands that may use the ``network``, over these protocols, use the user's configuration,
    for keys, helpers and proxies. Other commands do not, as filters in it must not run on untrusted
    files. Standard error is piped.
    """
    program = _program(git_dir)
    if program is None:
        return None
    if network is None:
        environment = _environment()
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    else:
        environment = _network_environment(network)
    first = int(environment.get("GIT_CONFIG_COUNT", "0") or "0")
    for number, (name, value) in enumerate(configuration, first):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    if configuration:
        environment["GIT_CONFIG_COUNT"] = str(first + len(configuration))
    options = ("--no-pager", *_configuration(_FOR_CLONES), f"--git-dir={git_dir}")
    return subprocess.Popen(
        [program, *options, *arguments],
        cwd=git_dir,
        env=environment | dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        # Without a terminal no helper of git can prompt, and Ctrl-C only reaches us.
        start_new_session=True,
    )


def _configuration(settings: Sequence[str]) -> list[str]:
    return [argument for setting in settings for argument in ("-c", setting)]


def _network_environment(protocols: Sequence[str]) -> dict[str, str]:
    """The environment in which git uses the user's network configuration, but never prompts."""
    kept = {n: v for n, v in os.environ.items() if _NETWORK_VARIABLES.fullmatch(n)}
    environment = _environment() | kept
    environment |= {
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }
    if "ssh" in protocols and "GIT_SSH" not in kept:
        environment["GIT_SSH_COMMAND"] = _silent_ssh(kept.get("GIT_SSH_COMMAND"))
    return environment


def _silent_ssh(command: str | None) -> str:
    """The user's ssh command, with options against prompts if it runs OpenSSH's ``ssh``."""
    if not command:
        git = run_git(Path("/"), None, "config", "--get-all", "core.sshCommand")
        output = git.stdout.decode("utf-8", "backslashreplace") if git is not None else ""
        configured = output.strip().split("\n")[:-1]  # the last is that of `_FOR_QUERIES`
        command = configured[-1] if configured else "ssh"
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


def _program(directory: Path) -> str | None:
    return _program_on(os.environ.get("PATH", os.defpath), directory)


@lru_cache(maxsize=64)
def _program_on(search_path: str, directory: Path) -> str | None:
    """The path of git, never inside the directory or from a relative search path."""
    folders = (
        folder
        for folder in search_path.split(os.pathsep)
        if Path(folder).is_absolute() and not Path(folder).is_relative_to(directory)
    )
    return shutil.which("git", path=os.pathsep.join(folders))
