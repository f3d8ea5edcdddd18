"""What does one pattern of an ignore file match?

Turns git's wildcards into regular expressions over bytes, as git itself compares bytes. Which
pattern wins where several match is decided in ``ignore.py``.
"""

from __future__ import annotations

import re

# Markers between the one-byte matchers of a pattern.
_STAR = b"*"  # any run of bytes within one path segment
_DEEP = b"**/"  # no directory, or any number of them
_DEEPER = b"**\\/"  # with the slash escaped, at least one
_REST = b"**"  # all that is left of the path
_SPECIAL = frozenset(b"*?[\\")
_SLASH = ord("/")

_DIRECTORIES = {_DEEP: rb"(?:[^/]*/)*?", _DEEPER: rb"(?:[^/]*/)+?"}

_CLASSES: dict[bytes, frozenset[int]] = {
    name: frozenset(byte for byte in range(128) if re.fullmatch(expression, bytes([byte])))
    for name, expression in {
        b"alnum": rb"[0-9A-Za-z]",
        b"alpha": rb"[A-Za-z]",
        b"blank": rb"[ \t]",
        b"cntrl": rb"[\x00-\x1f\x7f]",
        b"digit": rb"[0-9]",
        b"graph": rb"[!-~]",
        b"lower": rb"[a-z]",
        b"print": rb"[ -~]",
        b"punct": rb"[!-/:-@\[-`{-~]",
        b"space": rb"[ \t-\r]",
        b"upper": rb"[A-Z]",
        b"xdigit": rb"[0-9A-Fa-f]",
    }.items()
}


def is_literal(pattern: bytes) -> bool:
    """Whether the pattern holds no wildcard and no escape."""
    return _SPECIAL.isdisjoint(pattern)


def translate(pattern: bytes) -> bytes | None:
    """The expression whose full match is what the pattern matches; None if nothing does.

    A star never has to be tried twice: what stands between two stars is taken at its first
    place, atomically. So no ignore file, however contrived, makes matching slow.
    """
    tokens = _tokens(pattern)
    if tokens is None:
        return None
    rest = bool(tokens) and tokens[-1] is _REST
    if rest:
        tokens.pop()
    groups: list[tuple[bytes, list[bytes]]] = [(b"", [])]
    for token in tokens:
        if token in _DIRECTORIES:
            groups.append((_DIRECTORIES[token], []))
        else:
            groups[-1][1].append(token)
    parts = [
        b"(?>" + lead + _within(body, last=False) + b")" if lead else _within(body, last=False)
        for lead, body in groups[:-1]
    ]
    lead, body = groups[-1]
    parts.append(lead + _within(body, last=not rest))
    return b"".join(parts) + (b".*" if rest else b"")


def _within(tokens: list[bytes], *, last: bool) -> bytes:
    """The expression of a stretch without ``**``; ``last`` where the end of the path follows."""
    runs: list[list[bytes]] = [[]]
    for token in tokens:
        if token is _STAR:
            runs.append([])
        else:
            runs[-1].append(token)
    first, *others = (b"".join(run) for run in runs)
    for position, run in enumerate(others, 1):
        if last and position == len(others):
            first += b"[^/]*" + run
        else:
            first += b"(?>[^/]*?" + run + b")"
    return first


def _tokens(pattern: bytes) -> list[bytes] | None:
    tokens: list[bytes] = []
    at = 0
    # Git compares the literal start by itself and hands on the remainder, so that a ``**`` right
    # after that start counts as standing at the beginning of a segment.
    literal_end = next((i for i, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            end = at
            while pattern[end : end + 1] == b"*":
                end += 1
            opens = at == literal_end or pattern[at - 1] == _SLASH
            token, at = _star(pattern, end, deep=end - at > 1 and opens)
        elif char == b"?":
            token, at = b"[^/]", at + 1
        elif char == b"[":
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            token, at = bracket
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            token, at = re.escape(pattern[at + 1 : at + 2]), at + 2
        else:
            token, at = re.escape(char), at + 1
        tokens.append(token)
    return tokens


def _star(pattern: bytes, end: int, *, deep: bool) -> tuple[bytes, int]:
    """The marker for stars that end before ``end``, and where the pattern goes on."""
    if deep and end == len(pattern):
        return _REST, end
    if deep and pattern.startswith(b"/", end):
        return _DEEP, end + 1
    if deep and pattern.startswith(b"\\/", end):
        return _DEEPER, end + 2
    return _STAR, end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """The set that begins after ``[``, and where the pattern goes on; None if it is malformed."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    previous: int | None = None
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        item = _bracket_item(pattern, at, previous)
        if item is None:
            return None
        added, previous, at = item
        members |= added
    if negated:
        members = set(range(256)) - members
    members.discard(_SLASH)
    if not members:
        return rb"(?!)", at + 1
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(members)) + b"]", at + 1


def _bracket_item(
    pattern: bytes, at: int, previous: int | None
) -> tuple[frozenset[int], int | None, int] | None:
    """One member of a set: its bytes, the byte a range could start from, the next position."""
    char = pattern[at : at + 1]
    if char == b"-" and previous is not None and pattern[at + 1 : at + 2] not in (b"", b"]"):
        at += 2 if pattern[at + 1 : at + 2] == b"\\" else 1
        if at >= len(pattern):
            return None
        return frozenset(range(previous, pattern[at] + 1)), None, at + 1
    if char == b"[" and pattern[at + 1 : at + 2] == b":":
        end = pattern.find(b"]", at + 2)
        if end < 0:
            return None
        if end > at + 2 and pattern[end - 1 : end] == b":":
            named = _CLASSES.get(pattern[at + 2 : end - 1])
            return None if named is None else (named, None, end + 1)
    if char == b"\\":
        at += 1
    if at >= len(pattern):
        return None
    return frozenset([pattern[at]]), pattern[at], at + 1
