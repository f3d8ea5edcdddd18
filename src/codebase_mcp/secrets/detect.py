"""Where in a text are secrets? Kingfisher's rules, and our own where they fall short.

Kingfisher (MongoDB) knows the formats of hundreds of providers and scans about 70 MB per second,
offline and in this process. It is loaded when a text first holds something long enough to be a
token. Ours find what only its place tells: passwords and keys by their names, in URLs and headers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

from codebase_mcp.secrets import rules_folder

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

Span = tuple[int, int, str]
"""The first byte of a secret, the first after it, and its kind."""

# A text is scanned for tokens if it has a long word with digits beside letters or odd capitals, as
# all have. Few texts do, so most small repositories and notes never load Kingfisher.
_LONG_WORD = re.compile(rb"[A-Za-z0-9_-]{20,}")
_LIKE_TOKEN = re.compile(rb"[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z]{2,}[a-z]")
_LOADING = Lock()

# What follows a name: how it is closed, a type, how a value is assigned, and the value.
_ASSIGNED = (
    rb"[\w.-]{0,24}[\"'\]]{0,2}(?:(?:[ \t]?:)?[ \t]?[\w.\[\]|]{1,24}[ \t]?(?==))?"
    rb"[ \t]{0,20}(?:=>|:=|===?|!==?|[:=,(]|>)[ \t]{0,20}"
    rb"(?:[brf@]?([\"'`])(?P<quoted>[^\s\"'`\\]{8,200})\1|(?P<bare>[^\s\"'`\\(){}\[\]<>,;]{8,200})"
    rb"[ \t]*(?:$|[#;]|</))"
)
_PASSWORDS = tuple(
    re.compile(rb"%s(?:word|wd|phrase|code)?s?(?![a-z])%s" % (name, _ASSIGNED), re.MULTILINE)
    for name in (b"pass", b"pwd")
)
_KEYS = tuple(
    re.compile(rb"%s(?![a-z])%s" % (name, _ASSIGNED), re.MULTILINE)
    for name in (b"secret", b"token", b"key")
)
# Which keys are secret; others are of caches, tables and the public.
_SECRET_KEY = re.compile(
    rb"(?:api|secret|access|private|auth|account|client|master|service|shared|app|storage|webhook"
    rb"|deploy|admin|jwt|hmac|aes|consumer|encrypt(?:ion)?|signing|license)[_. -]?$"
)
# What is no secret although a token or a secret by its name: places in a list, names of types.
_NO_SECRET = re.compile(
    rb"(?:next|page|lock|request|idempotency|continuation|sync|change|public|cancel(?:lation)?"
    rb"|::[\w:]*)[_. -]?$"
)
_HEADERS = tuple(
    re.compile(rb"%s[ ]+(?P<value>[\w.~+/-]{16,500}={0,2})" % scheme)
    for scheme in (b"bearer", b"basic")
)
# The end of a Discord bot token, which is found faster than its beginning.
_DISCORD_END = re.compile(rb"\.[\w-]{6}\.[\w-]{27,38}(?!\w)")
_DISCORD_START = re.compile(rb"(?<!\w)[MNO][\w-]{23,25}$")
_URL = re.compile(rb"://[^\s/@:\"'<>]{0,100}:(?P<value>[^\s/@\"'<>:]{6,200})@")

_TOKENS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("AWS access key", re.compile(rb"AKIA[A-Z2-7]{16}(?!\w)(?<!\w.{20})")),
    ("AWS access key", re.compile(rb"ASIA[A-Z2-7]{16}(?!\w)(?<!\w.{20})")),
    ("Google OAuth secret", re.compile(rb"GOCSPX-[\w-]{28}(?![\w-])")),
    ("Telegram bot token", re.compile(rb":AA[\w-]{33}(?![\w-])(?<=\d{8}.{36})")),
    ("codebase-mcp key", re.compile(rb"cbm_[A-Za-z0-9]{12}_[A-Za-z0-9]{43}(?![A-Za-z0-9])")),
    (
        "private key",
        re.compile(
            rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            rb"(?P<value>[^-]{40,20000})-----END"
        ),
    ),
)

# What people write where a secret would be.
_PLACEHOLDER = re.compile(
    rb"example|changeme|change_me|placeholder|dummy|redacted|your[_-]|<|\$\{|\$\(|\{\{|%\(|%s|\*\*\*"
    rb"|\.\.\.|xxxx|1234567|abcdef|^\$|^%|^\{|^(?:test|user|pass|pw|secret|token|my|foo|bar|admin"
    rb"|root|some|super|top|fake|default|the|a|api|auth|bot|key|word|wd|[-_.:]|\d{1,4}|!)+$"
)
_DOTTED = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->|/|-)[A-Za-z_]\w*)+")


def find_secrets(data: bytes) -> list[Span]:
    """The secrets in a text in UTF-8, by place; they do not overlap."""
    from codebase_mcp.secrets import places
    found = [*places.find(data, data.lower()), *_by_form(data)]
    if _may_have_token(data):
        found += _by_provider(data)
    merged: list[Span] = []
    for start, end, kind in sorted(found):
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = (first, max(last, end), known)
        else:
            merged.append((start, end, kind))
    return merged


def _may_have_token(data: bytes) -> bool:
    return any(_LIKE_TOKEN.search(word[0]) for word in _LONG_WORD.finditer(data))


def _by_provider(data: bytes) -> Iterator[Span]:
    for finding in _scanner().scan(data):
        # A helper says which account a key is for; a secret of letters alone is a name.
        secret = finding.secret.encode()
        if (
            not finding.visible
            or secret.isalpha()
            or (len(secret) < 20 and _is_placeholder(secret))
        ):
            continue
        place = finding.location
        kind = finding.rule_id.partition(".")[2].replace("-", " ")
        first, last = place["start_offset"], place["end_offset"]
        start = data.find(secret, first, last)
        yield (start, start + len(secret), kind) if start >= 0 else (first, last, kind)


@cache
def load_rules() -> Scanner:
    """Kingfisher with its rules; the first call on a machine compiles and keeps them."""
    from kingfisher_sdk import Scanner  # noqa: PLC0415 - loads a native library

    with rules_folder.in_environment():
        return Scanner(base64=False)


def _scanner() -> Scanner:
    with _LOADING:
        return load_rules()


def _by_name(data: bytes) -> Iterator[Span]:
    lower = data.lower()
    for pattern in _PASSWORDS:
        yield from _values(data, lower, pattern, "password", _is_password)
    for pattern in _KEYS:
        yield from _values(data, lower, pattern, "key by its name", _is_key)


def _values(
    data: bytes,
    lower: bytes,
    pattern: re.Pattern[bytes],
    kind: str,
    is_secret: Callable[[bytes], bool],
) -> Iterator[Span]:
    is_key = pattern.pattern.startswith(b"key")
    for found in pattern.finditer(lower):
        before = lower[max(0, found.start() - 24) : found.start()]
        if (is_key and not _SECRET_KEY.search(before)) or _NO_SECRET.search(before):
            continue
        group = "quoted" if found["quoted"] is not None else "bare"
        start, end = found.span(group)
        value = data[start:end]
        if is_secret(value) and not (group == "bare" and _is_code(value)):
            yield start, end, kind


def _by_form(data: bytes) -> Iterator[Span]:
    for kind, pattern in _TOKENS:
        for found in pattern.finditer(data):
            group = "value" if "value" in pattern.groupindex else 0
            if not _is_placeholder(found[group]):
                yield *found.span(group), kind
    for found in _DISCORD_END.finditer(data):
        if before := _DISCORD_START.search(data[max(0, found.start() - 27) : found.start()]):
            yield found.start() - len(before[0]), found.end(), "Discord bot token"
    for found in _URL.finditer(data):
        if _is_url_password(found["value"]):
            yield *found.span("value"), "password in a URL"
    lower = data.lower()
    for pattern in _HEADERS:
        for found in pattern.finditer(lower):
            start, end = found.span("value")
            if _is_key(data[start:end]):
                yield start, end, "token in a header"


def _is_placeholder(value: bytes) -> bool:
    return len(value.decode(errors="replace")) < 6 or _PLACEHOLDER.search(value.lower()) is not None


def _is_password(value: bytes) -> bool:
    """Whether a value mixes characters as passwords do; words alone are not told from names."""
    kinds = (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9_.:/-]")
    mixed = sum(re.search(kind, value) is not None for kind in kinds)
    return mixed >= 3 and not _is_placeholder(value) and not _DOTTED.fullmatch(value)


def _is_url_password(value: bytes) -> bool:
    return re.search(rb"[0-9A-Z]", value) is not None and not _is_placeholder(value)


def _is_key(value: bytes) -> bool:
    """Whether a value looks random: letters and digits change often, few repeat."""
    if len(value) < 16 or _is_placeholder(value) or not re.fullmatch(rb"[\w+/=.~-]+", value):
        return False
    text = re.sub(rb"[^A-Za-z0-9]", b"", value).decode()
    entropy = _entropy(value)
    to_digits = sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))
    to_others = sum(_class(a) != _class(b) for a, b in pairwise(text))
    return (to_digits >= 4 and entropy >= 3.2) or (to_others >= len(text) * 0.45 and entropy >= 4)


def _class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.isupper() else 2


def _is_code(value: bytes) -> bool:
    """Whether a value without quotes is rather a name."""
    return _DOTTED.fullmatch(value) is not None or not re.search(rb"[0-9]", value)


def _entropy(value: bytes) -> float:
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
