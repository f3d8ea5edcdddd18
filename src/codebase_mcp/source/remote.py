"""Which remote repository does a URL name? Parses the URL, without network or disk.

The URL passed to git never contains a password, so neither do git's messages, our errors and the
folder of the clone. ``clone.py`` fetches it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from codebase_mcp.errors import InvalidInput

MAX_URL_CHARS = 2_000
ACCEPTED = "https://host/org/repo, http://…, ssh://…, git@host:org/repo or file:///path"

_DEFAULT_PORTS: Final = {"https": 443, "http": 80, "ssh": 22, "file": None}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|:)")
# user@host:path, the syntax of scp; without a user it could be a file name.
_SCP = re.compile(r"(?P<user>[^/@:\s]+)@(?P<host>\[[^\]]+\]|[^/@:\s]+):(?P<path>.+)", re.DOTALL)
# Looks like a user name and a password, unlike any directory name.
_CREDENTIALS = re.compile(r"(?![/.~])[^@]*:.*@", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+(?:%25\w+)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
# Names that every file system accepts. Other names get a suffix that these cannot have.
_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_INVALID_USER = "The user name in the URL is invalid for ssh"
_MAX_SLUG_CHARS = 60
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote repository.

    ``url`` has no credentials, so it can be shown and stored. ``identity`` is the same for all
    spellings of the URL, and determines ``folder``, the folder of the clone. ``name`` is for
    display.
    """

    url: str
    scheme: str
    host: str
    identity: str
    folder: PurePosixPath
    name: str
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def is_remote(text: str) -> bool:
    """Whether this is a URL rather than a path."""
    return any((_URL.match(text), _SCP.fullmatch(text), _CREDENTIALS.match(text)))


def masked(text: str) -> str:
    """A URL, valid or not, without anything that may be a password."""
    text = re.sub(r"(?<=://).*@|\A[^@]*:.*@", "…@", text, flags=re.DOTALL)
    return re.sub(r"[?#].*", "?…", text, flags=re.DOTALL)[:200]


def parse_remote(text: str) -> Remote:
    """The repository that a URL names.

    Raises:
        InvalidInput: git cannot fetch it, or must not.
    """
    if len(text) > MAX_URL_CHARS:
        raise _refused(text, f"A URL must have at most {MAX_URL_CHARS} characters")
    if _CONTROL.search(text):
        raise _refused(text, "A URL must not contain spaces, backslashes or control characters")
    scp = None if _URL.match(text) else _SCP.fullmatch(text)
    if scp is not None:
        return _scp_remote(text, scp)
    if not _URL.match(text):
        raise _refused(text, "Invalid URL")
    return _url_remote(text)


def _scp_remote(text: str, scp: re.Match[str]) -> Remote:
    user, host, path = scp["user"], scp["host"].strip("[]"), scp["path"]
    _check(_HOST, host, text, "The host in the URL is invalid")
    _check(_USER, user, text, _INVALID_USER)
    if path.startswith("-"):
        raise _refused(text, "The path of a URL must not begin with -")
    # A relative path starts at the user's home.
    path = path if path.startswith("/") else "/~/" + path
    return _remote(text, "ssh", host.lower(), None, path, url=text, user=user)


def _url_remote(text: str) -> Remote:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # its message may contain a password
        raise _refused(text, "Invalid URL") from None
    scheme = parts.scheme.lower()
    if "::" in text.split("/", 1)[0] or scheme not in _DEFAULT_PORTS:
        raise _refused(text, f"Git repositories are not fetched over {scheme or 'this'}")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _refused(text, "The URL of a repository has neither a query nor a fragment")
    host = parts.hostname or ""
    if scheme == "file":
        if host not in ("", "localhost") or "@" in parts.netloc:
            raise _refused(text, "A file:// URL names no host: file:///path/to/repository")
        return _remote(text, scheme, "localhost", None, parts.path, url=f"file://{parts.path}")
    _check(_HOST, host, text, "The host in the URL is invalid")
    if "@" in parts.path:  # the path may contain a part of a password
        raise _refused(text, "In a URL write @ as %40, and / in a password as %2F")
    user, password = _credentials(text, parts)
    if scheme == "ssh":
        if password is not None:
            raise _refused(text, "ssh does not accept a password in a URL; use a key")
        if user is not None:
            _check(_USER, user, text, _INVALID_USER)
        return _remote(text, scheme, host, port, parts.path, url=text, user=user)
    bare = urlunsplit((scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return _remote(text, scheme, host, port, parts.path, url=bare, user=user, password=password)


def _remote(
    text: str,
    scheme: str,
    host: str,
    port: int | None,
    path: str,
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
) -> Remote:
    # On disk a.git and a may both exist; servers treat them as the same.
    trimmed = path.rstrip("/") if scheme == "file" else path.rstrip("/").removesuffix(".git")
    segments = [part for part in trimmed.split("/") if part]
    if not segments or any(unquote(part) in (".", "..") for part in segments):
        raise _refused(text, "The URL names no repository")
    port = None if port == _DEFAULT_PORTS[scheme] else port
    account = f"{user}@" if scheme == "ssh" and user else ""
    authority = f"{account}{host}" + (f":{port}" if port else "")
    identity = f"{scheme}://{authority}/{'/'.join(segments)}"
    shown = [unquote(part) for part in segments if part != "~"]
    shown = shown[-2:] if scheme == "file" else shown
    name = "/".join(shown).removesuffix(".git")
    name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return Remote(
        url,
        scheme,
        host,
        identity,
        _folder(scheme, host, port, segments, identity),
        name[-_MAX_NAME_CHARS:],
        user,
        password,
    )


def _folder(
    scheme: str, host: str, port: int | None, segments: list[str], identity: str
) -> PurePosixPath:
    """Always three levels, so that a clone is never inside another clone."""
    is_plain = len(segments) == 2 and all(_PLAIN.fullmatch(part) for part in (host, *segments))
    if scheme == "https" and port is None and is_plain:
        return PurePosixPath(host, *segments)
    mark = hashlib.sha256(identity.encode()).hexdigest()[:12]
    owner = _slug("-".join(part for part in segments[:-1] if part != "~"))
    return PurePosixPath(_slug(host), owner, f"{_slug(segments[-1])}~{mark}")


def _slug(text: str) -> str:
    return _UNSAFE.sub("-", unquote(text)).strip("-")[:_MAX_SLUG_CHARS] or "_"


def _credentials(text: str, parts: SplitResult) -> tuple[str | None, str | None]:
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    # The protocol of git's credential helpers is line based.
    if any(re.search(r"[\x00-\x1f\x7f]", part) for part in (user or "", password or "")):
        raise _refused(text, "A user name or password must not contain control characters")
    return user, password


def _check(pattern: re.Pattern[str], part: str, text: str, message: str) -> None:
    if not pattern.fullmatch(part):
        raise _refused(text, message)


def _refused(text: str, message: str) -> InvalidInput:
    shown = masked(text)
    return InvalidInput.of(
        "path", shown, f"{message}: {shown}", rule="the URL of a git repository", hint=ACCEPTED
    )
