"""Which branches and tags does a repository have, and which commit has a name?

Names of refs are untrusted input, and so are the names that callers ask for.

Functions raise ``IndexingFailed`` if git fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Literal, NoReturn

from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.source.git import ask_git_word, read_git, shallow_commits
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import ask_about_objects
from codebase_mcp.source.listing_builder import escape_path

RefKind = Literal["branch", "remote", "tag"]

MAX_NAME_BYTES = 4_096

_RULE = "a branch, a tag or a commit hash, which ~2 or ^2 may follow"
_KINDS: tuple[tuple[bytes, RefKind], ...] = (
    (b"refs/heads/", "branch"),
    (b"refs/remotes/", "remote"),
    (b"refs/tags/", "tag"),
)
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
# What git allows in the name of a ref, then steps to ancestors. Not among them: ranges (a..b),
# paths (a:b), searches (:/text, ^{/text}), whose cost has no bound, and the reflog (a@{1}), which
# differs in every clone.
_REVISION = re.compile(
    rb"((?!-)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\])+)((?:[~^][0-9]{0,9}|\^\{(?:commit)?\}){0,50})"
)
_HASH = re.compile(rb"[0-9a-fA-F]{4,64}")
# Suggestions: comparing all names of a large repository would take seconds.
_MAX_COMPARED = 5_000
_MAX_COMPARED_CHARS = 200


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or tag and its commit; ``committed_at`` in seconds since 1970.

    ``name`` is without ``refs/heads/`` and the like; bytes that are not UTF-8 are ``\\xNN`` in it.
    ``is_head`` marks the branch that is checked out.
    """

    name: str
    kind: RefKind
    commit: str
    committed_at: int
    is_head: bool


def list_refs(repository: GitRepository) -> list[Ref]:
    """The branches, remote branches and tags that lead to commits, sorted by their full names.

    Refs whose commit is damaged or missing are left out, and so are symbolic refs of remotes, such
    as ``origin/HEAD``.
    """
    records = _refs(repository)
    commits = _commits(repository, {object_id for _, object_id, _ in records})
    times = _times(repository, set(commits.values()))
    refs = []
    for name, object_id, is_head in records:
        commit = commits.get(object_id)
        prefix, kind = next(pair for pair in _KINDS if name.startswith(pair[0]))
        if commit in times:
            short = escape_path(name.removeprefix(prefix))
            refs.append(Ref(short, kind, commit, times[commit], is_head))
    return refs


def resolve_commit(repository: GitRepository, ref: str, *, field: str = "ref") -> str:
    """The full hash of the commit with a name.

    A name is a branch, ``origin/x``, a tag, ``HEAD``, a full ref or four or more digits of a hash;
    ``~2`` or ``^2`` may follow. As in git a tag precedes a branch of the same name; ``heads/x`` is
    always the branch. Names that begin with ``-`` need ``heads/`` too. Errors name the parameter
    ``field``.

    Raises:
        InvalidInput: no commit has this name.
    """
    raw = _unescaped(ref)
    parts = _REVISION.fullmatch(raw) if len(raw) <= MAX_NAME_BYTES else None
    if parts is None:
        _refuse_syntax(ref, field)
    commit = _verified(repository, raw)
    if commit is None:
        _refuse_unknown(repository, ref, parts, field)
    return commit


def branch_commits(repository: GitRepository, names: Sequence[str]) -> dict[str, str]:
    """The commits of the names that are local or remote branches, in the order of the names."""
    names_by_ref: dict[bytes, str] = {}
    for name in names:
        raw = _unescaped(name)
        full = [b"refs/" + raw] if raw.startswith((b"heads/", b"remotes/")) else []
        names_by_ref |= dict.fromkeys([b"refs/heads/" + raw, b"refs/remotes/" + raw, *full], name)
    if not names_by_ref:
        return {}
    refs = _refs(repository, *names_by_ref)
    targets = {names_by_ref[ref]: target for ref, target, _ in refs if ref in names_by_ref}
    commits = _commits(repository, targets.values())
    return {name: commits[targets[name]] for name in names if targets.get(name) in commits}


def merge_base(repository: GitRepository, a: str, b: str) -> str | None:
    """The best common ancestor of two commits, by full hashes; None if none is present."""
    return ask_git_word(repository, "merge-base", a, b)


def _unescaped(name: str) -> bytes:
    return _ESCAPE.sub(lambda code: bytes([int(code[1], 16)]), name.encode("utf-8", "replace"))


def _verified(repository: GitRepository, raw: bytes) -> str | None:
    revision = os.fsdecode(raw) + "^{commit}"
    return ask_git_word(repository, "rev-parse", "--quiet", "--verify", revision)


def _refs(repository: GitRepository, *patterns: bytes) -> list[tuple[bytes, str, bool]]:
    """The full name of each ref, the object that it names, and whether it is HEAD's branch.

    ``patterns`` are full names; without them all branches and tags are returned. The objects
    themselves are not read, as git would fail at the first that is missing.
    """
    output = read_git(
        repository,
        *("for-each-ref", "--format=%(HEAD)%00%(symref)%00%(objectname)%00%(refname)"),
        *map(os.fsdecode, patterns or (prefix for prefix, _ in _KINDS)),
    )
    refs = []
    for line in output.split(b"\n")[:-1]:
        head, target, object_id, name = line.split(b"\0")
        if not (target and name.startswith(b"refs/remotes/")):
            refs.append((name, object_id.decode("ascii"), head == b"*"))
    return refs


def _commits(repository: GitRepository, object_ids: Iterable[str]) -> dict[str, str]:
    """The commit that each object is, or that a tag leads to, if it can be read."""
    ordered = sorted(object_ids)
    answers = ask_about_objects(repository, "%(objectname)", [f"{o}^{{commit}}" for o in ordered])
    return {
        object_id: answer.decode("ascii")
        for object_id, answer in zip(ordered, answers, strict=True)
        if answer is not None and not answer.endswith(b"missing")
    }


def _times(repository: GitRepository, commits: Iterable[str]) -> dict[str, int]:
    """When each commit was committed."""
    ordered = sorted(commits)
    if not ordered:
        return {}
    arguments = ("rev-list", "--no-walk=unsorted", "--timestamp", "--stdin")
    words = read_git(repository, *arguments, lines=ordered).decode("ascii").split()
    return dict(zip(words[1::2], map(int, words[::2]), strict=True))


def _refuse_syntax(ref: str, field: str) -> NoReturn:
    shown = ref[:60]
    hint = "Ranges, paths, searches and the reflog are not accepted."
    if ref.startswith("-"):
        hint = f"Write heads/{shown} for a branch of this name."
    message = f"{shown!r} cannot be the name of a commit"
    raise InvalidInput.of(field, shown, message, rule=_RULE, hint=hint)


def _refuse_unknown(
    repository: GitRepository, ref: str, parts: re.Match[bytes], field: str
) -> NoReturn:
    base, steps = parts.groups()
    is_shallow = bool(shallow_commits(repository))
    if steps and _verified(repository, base) is not None:
        message = f"{ref!r} is no commit, though {escape_path(base)!r} is: it has no such ancestor"
        hint = "The clone is shallow: git fetch --unshallow gets the rest." if is_shallow else None
        raise InvalidInput.of(field, ref, message, rule=_RULE, hint=hint)
    message = f"{escape_path(base)!r} is neither a branch nor a tag"
    if _HASH.fullmatch(base):
        message += ", nor do its digits begin the hash of exactly one commit"
    raise InvalidInput.of(field, ref, message, rule=_RULE, hint=_hint(repository, base))


def _hint(repository: GitRepository, base: bytes) -> str:
    """Names the branches and tags most similar to an unknown name, or else the newest."""
    try:
        refs = sorted(list_refs(repository), key=lambda ref: ref.committed_at, reverse=True)
    except IndexingFailed as error:
        return f"{error.message}. {error.hint}"
    if not refs:
        return "The repository has no branch or tag with a commit."
    names = [r.name for r in refs[:_MAX_COMPARED] if len(r.name) <= _MAX_COMPARED_CHARS]
    name = escape_path(base)
    # The branch of that name elsewhere, such as ``origin/name``, then those of similar names.
    near = [candidate for candidate in names if candidate.endswith(f"/{name}")]
    near += get_close_matches(name[:_MAX_COMPARED_CHARS], list(dict.fromkeys(names)), n=3)
    if near:
        return f"Did you mean {' or '.join(list(dict.fromkeys(near))[:3])}?"
    return f"Its newest refs are {', '.join(names[:5])}."


def matching_branches(repository: GitRepository, patterns: Sequence[str]) -> list[str]:
    """The branches that match a pattern, the newest first; also without the name of a remote."""
    matching = []
    for ref in sorted(list_refs(repository), key=lambda ref: -ref.committed_at):
        names = [ref.name]
        if ref.kind == "remote":
            names.append(ref.name.partition("/")[2])
        if ref.kind != "tag" and any(fnmatchcase(n, p) for n in names for p in patterns):
            matching.append(ref.name)
    return matching
