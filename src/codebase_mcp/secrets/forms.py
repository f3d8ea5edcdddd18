"""Which secrets are told by their own form, or by the text directly around them?

One table: a literal that is searched first, as that is fast, the pattern around it, and what the
value must look like. Formats of further providers are Kingfisher's.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from typing import NamedTuple

from codebase_mcp.secrets.judging import Evidence, evidence, is_chosen, is_phrase, is_placeholder
from codebase_mcp.secrets.naming import CODE, Name, Span, Text, sort_of
from codebase_mcp.secrets.sentences import is_joined


def _beside_user(value: bytes) -> bool:
    """Whether a text behind a user's name is a password, and no name in code."""
    is_text = is_joined(value) and not value.islower() and sort_of(value) is None
    return is_text or is_chosen(value)


def _random(value: bytes) -> bool:
    return evidence(value) is Evidence.RANDOM


def _password(value: bytes) -> bool:
    """Whether a value is at most a weak password, but no label."""
    if evidence(value) < Evidence.WORD:
        return False
    if re.search(rb"\d|[a-z][A-Z]|[!#$%^&*+=\x80-\xff]", value):
        return True
    return (
        re.fullmatch(rb"[A-Z]?[a-z]{6,}|.*[a-zA-Z]{2}[-_.][a-zA-Z]{2}.*", value) is not None
        and sort_of(value) is None
    )


def _login(value: bytes) -> bool:
    """Whether a text in base64 may sign in: it is a short text, or looks random."""
    try:
        text = b64decode(value, validate=True)
    except ValueError:
        return len(value) >= _SHORTEST_LOGIN and evidence(value) >= Evidence.MIXED
    return evidence(value) >= Evidence.MIXED or (text.isascii() and text.decode().isprintable())


def _key_text(value: bytes) -> bool:
    """Whether this is the text of a key: long runs of base64 or of hexadecimal digits."""
    if re.search(rb"(.)\1{20}", value):
        return False
    runs = re.findall(rb"[A-Za-z0-9+/=]{16,}", value)
    return sum(map(len, runs)) * 2 >= len(value)


_SHORTEST_LOGIN = 12

Check = Callable[[bytes], bool]

# Formats of providers that Kingfisher lacks, or finds only beside certain words. They are compared
# with the long words of a text.
_TOKENS = re.compile(
    rb"(?P<AWS_access_key>A[KS]IA[A-Z0-9]{16}(?!\w))"
    rb"|(?P<Alibaba_access_key>LTAI[A-Za-z0-9]{12,26}(?!\w))"
    rb"|(?P<Tencent_secret_id>AKID[A-Za-z0-9]{28,36}(?!\w))"
    rb"|(?P<Twilio_account>AC[0-9a-f]{32}(?!\w))"
    rb"|(?P<Google_API_key>AIza[\w-]{35}(?![\w-]))"
    rb"|(?P<Google_OAuth_secret>GOCSPX-[\w-]{28}(?![\w-]))"
    rb"|(?P<Facebook_token>EAA[A-Za-z0-9]{60,400}(?!\w))"
    rb"|(?P<Dropbox_token>(?<=\bsl\.)[\w-]{60,300})"
    rb"|(?P<Artifactory_key>AKCp[A-Za-z0-9]{50,90}(?!\w))"
    rb"|(?P<Telegram_bot_token>(?<=\d{8}:)A[\w-]{34}(?![\w-]))"
    rb"|(?P<Discord_bot_token>[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-]))"
    rb"|(?P<Sonar_token>sq[uap]_[0-9a-f]{40}(?!\w))"
    rb"|(?P<Stripe_secret>whsec_[\w+/=]{24,})"
    rb"|(?P<age_key>AGE-SECRET-KEY-1[A-Z0-9]{40,})"
    rb"|(?P<private_key_in_hex>0x[0-9a-f]{64}(?=[\"'],?\]))"
    rb"|(?P<Google_access_token>(?<=ya29\.)[\w-]{40,})"
    rb"|(?P<Hugging_Face_token>hf_[A-Za-z0-9]{34}(?!\w))"
    rb"|(?P<Square_secret>sq0[a-z]{3}-[\w-]{22,50})"
    rb"|(?P<Resend_key>re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}(?!\w))"
    rb"|(?P<Tailscale_key>tskey-\w+-[\w-]{20,})"
    rb"|(?P<New_Relic_key>NR[A-Z]{2}-[\w-]{27,40})"
    rb"|(?P<Mailgun_key>key-[0-9a-f]{32}(?!\w))"
    rb"|(?P<LaunchDarkly_key>sdk-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?!\w))"
    rb"|(?P<encoded_private_key>LS0tLS1CRUdJTiB(?!DRVJU|QVUJM)[A-Za-z0-9+/]{20,}={0,2})"
    rb"|(?P<encoded_registry_login>eyJhdXRocyI6[A-Za-z0-9+/]{20,}={0,2})"
    rb"|(?P<minisign_key>RWRTY0Iy[A-Za-z0-9+/]{40,}={0,2})"
    rb"|(?P<codebase_mcp_key>cbm_[A-Za-z0-9]{12}_[A-Za-z0-9]{43}(?![A-Za-z0-9]))"
    rb"|(?P<token_by_its_form>(?!sha\d|pk_|pub)[a-z][a-z0-9]{1,11}[_-](?:[A-Za-z0-9]{2,12}"
    rb"[_-]){0,2}"
    rb"[A-Za-z0-9]{30,120}(?![\w+/=-]))"
)
# Capitals, small letters and digits in a long run.
_MIXED_CASE = re.compile(
    rb"[_-](?=(?:[^A-Z]*[A-Z]){3})(?=(?:[^a-z]*[a-z]){3})(?=(?:[^\d]*\d){3})[A-Za-z0-9]{30,}$"
)
_DRAWN = re.compile(
    rb"(?!\w*[a-z]{7})(?=(?:[^A-Z]*[A-Z]){3})(?=(?:[^a-z]*[a-z]){3})(?=(?:[^\d]*\d){3})"
    rb"[\w-]{20,200}"
)
_NO_SIGN = re.compile(rb"[A-Za-z0-9]+")
_ID_BEFORE = re.compile(rb"""[iI]d["']?\s*(?:=>|[:=])\s*$""")
_SHORTEST_ALONE = 28
_LONGEST_ALONE = 56
_FEW_BETWEEN = 80
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,400}={0,2}(?![A-Za-z0-9+/=])")
_LOGIN = re.compile(rb"[A-Za-z][\w.@%+-]{0,60}:[!-~]{6,200}")
_BASE64_SIGNS = (b"+", b"/")
# The digits before a token that belong to it.
_NUMBERED = re.compile(rb"\d{8,10}:$")
# Ids are no secrets, but tell that the text beside them is.
_IDS_ALONE = frozenset(("Twilio_account",))
_BESIDE = re.compile(rb"""["']?[\s,;:|]+(?:\w+=)?["']?(?P<value>[\w+/=-]{24,64})(?![\w+/=-])""")

_LITERAL = re.compile(rb"(?:[^][\\(){}?*+|.^$]|\\[^\w])+(?![?*{])|\\n[a-z ]+")


class _Form(NamedTuple):
    """A form of secrets, which a text has only if it has a literal and a word."""

    kind: str
    is_secret: Check
    lead: bytes
    word: bytes
    pattern: re.Pattern[bytes]


def _literal(pattern: bytes) -> bytes:
    """The text with which all matches of a pattern begin."""
    match = _LITERAL.match(pattern)
    return re.sub(rb"\\(\W)", rb"\1", match[0]).replace(rb"\n", b"\n") if match else b""


def _word_of(lead: bytes) -> bytes:
    """The word that a text has if it has this literal; empty if there is none."""
    parts: list[bytes] = re.findall(rb"[a-z0-9]+", lead.lower())
    return max(parts, key=len, default=b"")


_CHECKS: dict[str, Check] = {
    "any": lambda value: not is_placeholder(value),
    "word": lambda value: evidence(value) >= Evidence.WORD,
    "mixed": lambda value: evidence(value) >= Evidence.MIXED,
    "random": _random,
    "word_or_phrase": lambda value: evidence(value) >= Evidence.WORD or is_phrase(value),
    "has_random_part": lambda value: any(map(_random, re.split(rb"[/@]", value))),
    "is_chosen": is_chosen,
    "password": _password,
    "login": _login,
    "key_text": _key_text,
    "beside_user": _beside_user,
}
_LINE = re.compile(
    r"(?m)^(?:(?P<kind>\S.*): (?P<check>\w+)|  (?P<pattern>\S.*)(?:\n  @ (?P<literals>.*))?)$"
)


def _read_table() -> Iterator[_Form]:
    """The forms in the file ``forms.txt``."""
    kind, check = "", _CHECKS["any"]
    table = files("codebase_mcp.secrets").joinpath("forms.txt").read_text(encoding="utf-8")
    for line in _LINE.finditer(table.replace("\n    ", "")):
        if line["kind"]:
            kind, check = line["kind"], _CHECKS[line["check"]]
            continue
        literals = re.findall("`([^`]+)`", (line["literals"] or "").replace(r"\t", "\t"))
        pattern = line["pattern"].encode()
        for lead in [literal.encode() for literal in literals] or [_literal(pattern)]:
            expression = re.compile(pattern.replace(b"<<lead>>", re.escape(lead)))
            yield _Form(kind, check, lead, _word_of(lead), expression)


_FORMS = tuple(_read_table())


def find(text: Text) -> Iterator[Span]:
    """The secrets in a text that have a form of their own."""
    for form in _FORMS:
        if (form.word and form.word not in text.words) or form.lead not in text.data:
            continue
        for match in form.pattern.finditer(text.data):
            group = "value" if "value" in form.pattern.groupindex else 0
            if form.is_secret(match[group]):
                yield *match.span(group), form.kind


def find_tokens(
    data: bytes, words: Iterable[tuple[int, int]], names: Iterable[Name]
) -> Iterator[Span]:
    """The tokens among the long ``words`` of a text, each given by its place."""
    ends = sorted(name.end for name in names if name.sort is not CODE)
    for start, end in words:
        if _is_drawn(data, start, end) and (
            _is_quoted_alone(data, start, end) or _is_beside(data, start, ends)
        ):
            yield start, end, "random text"
            continue
        match = _TOKENS.match(data, start) if data[start - 1 : start] not in _BASE64_SIGNS else None
        if match is None and (login := _BASE64.match(data, start)) and _is_login(login[0]):
            yield *login.span(), "user and password in base64"
        if match is None or match.lastgroup is None or is_placeholder(match[0]):
            continue
        if match.lastgroup == "token_by_its_form" and not _MIXED_CASE.search(match[0]):
            continue
        kind = match.lastgroup.replace("_", " ")
        if match.lastgroup not in _IDS_ALONE:
            numbered = _NUMBERED.search(data[max(0, start - 11) : start])
            yield start - (len(numbered[0]) if numbered else 0), match.end(), kind
        beside = _BESIDE.match(data, match.end())
        if beside and _random(beside["value"]):
            yield *beside.span("value"), "secret beside its id"


def _is_drawn(data: bytes, start: int, end: int) -> bool:
    """Whether a machine drew a word from capitals, small letters and digits."""
    if not _DRAWN.fullmatch(data, start, end):
        return False
    if data[start - 1 : start] in _BASE64_SIGNS or data[end : end + 1] in _BASE64_SIGNS:
        return False
    return _random(data[start:end]) and not _is_text_in_base64(data[start:end])


def _is_quoted_alone(data: bytes, start: int, end: int) -> bool:
    """Whether a word is a text in quotes, and no id."""
    quote = data[start - 1 : start]
    is_quoted = quote in (b'"', b"'", b"`") and data[end : end + 1] == quote
    return (
        is_quoted
        and _SHORTEST_ALONE <= end - start <= _LONGEST_ALONE
        and _NO_SIGN.fullmatch(data, start, end) is not None
        and _ID_BEFORE.search(data[max(0, start - 20) : start - 1]) is None
    )


def _is_beside(data: bytes, start: int, ends: list[int]) -> bool:
    """Whether the name of a secret stands before a word in its line."""
    last = bisect(ends, start) - 1
    return (
        last >= 0
        and start - ends[last] <= _FEW_BETWEEN
        and data.find(b"\n", ends[last], start) < 0
        and data.find(b"arn:", max(0, start - 120), start) < 0
    )


def _is_text_in_base64(value: bytes) -> bool:
    try:
        text = b64decode(value + b"=" * (-len(value) % 4))
    except ValueError:
        return False
    return text.isascii()


def _is_login(value: bytes) -> bool:
    """Whether a text in base64 is a user and a password."""
    try:
        return _LOGIN.fullmatch(b64decode(value, validate=True)) is not None
    except ValueError:
        return False
