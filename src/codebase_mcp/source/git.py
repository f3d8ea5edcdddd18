"""What does git know about this directory?

The only file of the room that starts programs, and the only program is git. A repository may be
hostile: its configuration, hooks and index must not make git run anything, nor name anything
outside the directory that was asked about. Which files are worth reading is ``walk.py``'s.
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
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git_directory import common_dir, git_dir_of, work_tree_of
from codebase_mcp.source.ignore import is_pipe_or_device, read_ignore_file

log = logging.getLogger(__name__)

# Long enough for a million files on a slow disk.
TIME_LIMIT_S = 30.0
# After so long it is looked whether git waits for ever, at a pipe posing as .gitignore.
_PATIENCE_S = 1.0

# Whatever the repository's configuration says, these decide: each names a program otherwise.
_HARMLESS = (
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
)
# Where a person's own configuration lies is theirs to say; every other GIT_ variable would let
# the hook or the shell that started us redirect git to another repository.
_KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
# How a person reaches other machines is theirs to say as well.
_NETWORK_VARIABLES = re.compile(
    r"GIT_(?:SSH(?:_COMMAND|_VARIANT)?|SSL_\w+|PROXY_\w+|HTTP_\w+"
    r"|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
# Whatever a person's configuration says, a clone of ours runs none of these.
_FOR_CLONES = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("credential.interactive", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("transfer.bundleURI", "false"),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
    ("http.lowSpeedLimit", "1"),  # a server that says nothing for a minute says nothing
    ("http.lowSpeedTime", "60"),
    ("safe.directory", "*"),
)
_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*)/': ", re.MULTILINE)
# What leads out of the tree or into git's own records; git refuses to write such an index, but
# reads a forged one.
_LEAVES = re.compile(rb"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)
_SUBMODULE = b"160000"


# What is read of an answer at once, and what is shown of a complaint.
_PIECE_BYTES = 1 << 16
_COMPLAINT_BYTES = 500


class GitTookTooLong(IndexingFailed):
    """git was ended before it had answered all."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out: no branch where HEAD is detached, no commit before the first one."""

    branch: str | None
    commit: str | None


@dataclass(slots=True)
class GitFiles:
    """The paths git lists below one directory, as bytes relative to it.

    ``untracked`` leaves out what is ignored. ``nested`` are directories that are repositories of
    their own, ``submodules`` those tracked as such, ``unreadable`` those that git could not look
    into.
    """

    tracked: list[bytes] = field(default_factory=list)
    untracked: list[bytes] = field(default_factory=list)
    nested: list[bytes] = field(default_factory=list)
    submodules: list[bytes] = field(default_factory=list)
    unreadable: list[bytes] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing for git, but perhaps submodules."""
        return not (self.tracked or self.untracked or self.nested)


def list_with_git(
    directory: Path, top: Path, paths: Sequence[bytes] | None = None
) -> GitFiles | None:
    """What git lists below the directory of the work tree ``top``; None if git cannot say.

    ``paths`` are the files and directories, relative to the directory, to list alone.
    """
    # -t marks each line with where it comes from; without it an untracked file could be named
    # like the details of a tracked one.
    answer = _git(
        directory,
        top,
        *("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--"),
        *map(os.fsdecode, paths or ()),
    )
    if answer is None:
        return None
    output, complaints = answer
    lead = os.fsencode(directory.relative_to(top)) + b"/" if directory != top else b""
    files = GitFiles(
        unreadable=[path.removeprefix(lead) for path in _UNREADABLE.findall(complaints)]
    )
    previous = b""
    for record in output.split(b"\0"):
        tag, _, rest = record.partition(b" ")
        if not tag:
            continue
        details, _, path = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
        if path == previous or _LEAVES.search(path.removesuffix(b"/")):
            continue
        previous = path
        if details.startswith(_SUBMODULE):
            files.submodules.append(path)
        elif details:
            files.tracked.append(path)
        elif path.endswith(b"/"):
            files.nested.append(path[:-1])
        else:
            files.untracked.append(path)
    return files


def head_of(root: Path) -> Head | None:
    """Branch and commit checked out at the directory; None outside git or without git."""
    top = work_tree_of(root)
    if top is None:
        return None
    # Either may fail by itself: no branch when HEAD is detached, no commit in a new repository.
    branch = _git(root, top, "symbolic-ref", "--quiet", "--short", "HEAD", may_fail=True)
    commit = _git(root, top, "rev-parse", "--quiet", "--verify", "HEAD", may_fail=True)
    if branch is None and commit is None:
        return None
    return Head(*(_word(answer) for answer in (branch, commit)))


def commit_at_head(root: Path, top: Path) -> str | None:
    """The hash of the commit that is checked out; None before the first one."""
    return _word(_git(root, top, "rev-parse", "--quiet", "--verify", "HEAD", may_fail=True))


def shallow_commits(top: Path) -> frozenset[str]:
    """The commits at which a shallow clone ends: those before them are not there."""
    git_dir = git_dir_of(top)
    place = common_dir(git_dir) / "shallow" if git_dir else None
    text = read_ignore_file(os.fsencode(place), follow=True) if place else None
    return frozenset((text or b"").decode("ascii", "replace").split())


def git_pieces(directory: Path, top: Path, *arguments: str, said: bytes = b"") -> Iterator[bytes]:
    """What one git command answers to what is ``said`` to it, piece by piece.

    So a long answer needs little memory. What git complains about goes into the error alone.

    Raises:
        GitTookTooLong: what it answered in time has been handed on.
        IndexingFailed: there is no git, or it failed.
    """
    # Files, as git may answer before it has heard all: two full pipes would wait for each other.
    with tempfile.TemporaryFile() as heard, tempfile.TemporaryFile() as complaints:
        heard.write(said)
        heard.seek(0)
        git = _started(directory, top, arguments, heard, complaints)
        is_late = threading.Event()
        limit = threading.Timer(TIME_LIMIT_S, _end, (git, is_late))
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
            raise GitTookTooLong(
                f"git {arguments[0]} took over {TIME_LIMIT_S:.0f} s", hint="Ask for less of it."
            )
        if status != 0:
            raise IndexingFailed(
                f"git {arguments[0]} failed: {_last_line(complaints)}",
                hint="git fsck tells what is wrong with the repository.",
            )


def _started(
    directory: Path, top: Path, arguments: Sequence[str], heard: IO[bytes], complaints: IO[bytes]
) -> subprocess.Popen[bytes]:
    program = _program(os.environ.get("PATH", os.defpath), directory)
    if program is None:
        raise IndexingFailed("git cannot be found", hint="Install git.")
    place = (f"--git-dir={top / '.git'}", f"--work-tree={top}")
    try:
        return subprocess.Popen(
            [program, *_HARMLESS, *place, *arguments],
            cwd=directory,
            env=_environment(),
            stdin=heard,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
    except OSError as error:
        raise IndexingFailed(
            f"git cannot be started: {error}", hint="See whether git --version works."
        ) from error


def _last_line(complaints: IO[bytes]) -> str:
    """What git said last, which is why it ended."""
    complaints.seek(max(complaints.seek(0, os.SEEK_END) - _COMPLAINT_BYTES, 0))
    said = complaints.read().decode("utf-8", "backslashreplace").strip()
    return said.rpartition("\n")[2]


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


def deciding_files(directory: Path, top: Path | None) -> list[Path]:
    """The files outside a tree that decide, beside its ignore files, what of it git lists."""
    found = [_global_excludes(directory, top)]
    git_dir = git_dir_of(top) if top else None
    if git_dir:
        found += [git_dir / "index", common_dir(git_dir) / "info" / "exclude"]
    return found


def _global_excludes(directory: Path, top: Path | None) -> Path:
    answer = _git(
        directory, top, "config", "--type=path", "--get", "core.excludesFile", may_fail=True
    )
    if answer and (configured := answer[0].rstrip(b"\n")):
        return directory / os.fsdecode(configured)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(home, "git", "ignore")


def _word(answer: tuple[bytes, bytes] | None) -> str | None:
    return answer[0].strip().decode("utf-8", "backslashreplace") or None if answer else None


def _git(
    directory: Path, top: Path | None, *arguments: str, may_fail: bool = False
) -> tuple[bytes, bytes] | None:
    """Output and complaints of one git command, or None when it failed, which is logged.

    Naming the git directory spares git's own search and its refusal of other people's
    repositories; naming the work tree overrules a ``core.worktree`` that points elsewhere.
    """
    program = _program(os.environ.get("PATH", os.defpath), directory)
    if program is None:
        return None
    place = [f"--git-dir={top / '.git'}", f"--work-tree={top}"] if top else ["--git-dir=/dev/null"]
    try:
        git = subprocess.Popen(
            [program, *_HARMLESS, *place, *arguments],
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
            # Of our commands only this one reads ignore files.
            reads_rules = arguments[0] == "ls-files"
            output, complaints = _answer(git, directory, top if reads_rules else None)
        except subprocess.TimeoutExpired as error:
            told = "git %s did not answer within %.0f s in %s"
            log.warning(told, arguments[0], error.timeout, directory)
            return None
        finally:
            git.kill()
    if git.returncode == 0:
        return output, complaints
    if not may_fail:
        complaint = complaints.decode("utf-8", "backslashreplace").strip()
        log.warning("git %s failed in %s: %s", arguments[0], directory, complaint)
    return None


def _answer(git: subprocess.Popen[bytes], directory: Path, top: Path | None) -> tuple[bytes, bytes]:
    """What git says, unless it takes too long or waits at a pipe that poses as an ignore file.

    ``top`` is the work tree whose ignore files it reads, if any.

    Raises:
        subprocess.TimeoutExpired: it is still running.
    """
    try:
        return git.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        if top is not None and _has_pipe_for_rules(directory, top):
            raise
    return git.communicate(timeout=TIME_LIMIT_S)


def _has_pipe_for_rules(directory: Path, top: Path) -> bool:
    """Whether git waits for ever at what should tell it what to ignore."""
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
    """Start git for a clone of our own, in a session of its own; None where there is no git.

    Only a command that may use the ``network``, over these protocols, is under the person's own
    configuration, for keys, helpers and proxies: what it calls filters must not run over a
    stranger's files. ``git_dir`` is None before there is a clone. Complaints are piped.
    """
    program = _program(os.environ.get("PATH", os.defpath), directory)
    if program is None:
        return None
    settings = [part for name, value in _FOR_CLONES for part in ("-c", f"{name}={value}")]
    place = [] if git_dir is None else [f"--git-dir={git_dir}", f"--work-tree={directory}"]
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
        # Without a terminal nothing that git calls can ask anybody, and Ctrl-C is ours to pass on.
        start_new_session=True,
    )


def _network_environment(protocols: Sequence[str]) -> dict[str, str]:
    """What lets git reach others as the person would, but never ask."""
    kept = {n: v for n, v in os.environ.items() if _NETWORK_VARIABLES.fullmatch(n)}
    lasting = {
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    environment = _environment() | kept | lasting
    if "ssh" in protocols and "GIT_SSH" not in kept:
        environment["GIT_SSH_COMMAND"] = _silent_ssh(kept)
    return environment


def _silent_ssh(kept: Mapping[str, str]) -> str:
    """The person's own way to call ssh, told to ask nothing; other programs cannot be told."""
    answer = _git(Path("/"), None, "config", "--get-all", "core.sshCommand", may_fail=True)
    theirs = (_word(answer) or "").split("\n")[:-1]  # the last is the one of `_HARMLESS`
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
        "LC_ALL": "C",  # the complaints that we read are in English
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        # A partial clone would fetch what an index of directories lacks, through any program
        # that its configuration names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        # Whoever can write these would tell another history than the commits do.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
    }


@lru_cache(maxsize=64)
def _program(search_path: str, directory: Path) -> str | None:
    """Git's own file, never one in the directory at hand or in one relative to it."""
    places = [
        place
        for place in search_path.split(os.pathsep)
        if Path(place).is_absolute() and not Path(place).is_relative_to(directory)
    ]
    return shutil.which("git", path=os.pathsep.join(places))
