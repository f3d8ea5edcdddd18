"""Which secrets are told by their own form, or by the text directly around them?

One table: a literal that is searched first, as that is fast, the pattern around it, and what the
value must look like. Formats of further providers are Kingfisher's.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from codebase_mcp.secrets.judging import (
    Evidence,
    evidence,
    is_chosen,
    is_phrase,
    is_placeholder,
    is_strong,
)
from codebase_mcp.secrets.naming import CODE, Name, is_capitalized_password, sort_of
from codebase_mcp.secrets.settings import is_joined
from codebase_mcp.secrets.text import Span, Text


def _any(value: bytes) -> bool:
    return not is_placeholder(value)


def _word(value: bytes) -> bool:
    return evidence(value) >= Evidence.WORD


def _word_or_phrase(value: bytes) -> bool:
    return _word(value) or is_phrase(value)


def _beside_user(value: bytes) -> bool:
    """Whether a text in quotes behind a user's name is a password, and no name in code."""
    return (
        is_chosen(value)
        or is_capitalized_password(value)
        or (is_joined(value) and not value.islower() and sort_of(value) is None)
    )


def _has_random_part(value: bytes) -> bool:
    return any(_random(part) for part in re.split(rb"[/@]", value))


def _mixed(value: bytes) -> bool:
    return evidence(value) >= Evidence.MIXED


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
        return len(value) >= _SHORTEST_LOGIN and _mixed(value)
    return _mixed(value) or (text.isascii() and text.decode().isprintable())


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
    rb"|(?P<token_by_its_form>(?!sha\d|pk_|pub)[a-z][a-z0-9]{1,11}[_-](?:[A-Za-z0-9]{2,12}"
    rb"[_-]){0,2}"
    rb"[A-Za-z0-9]{30,120}(?![\w+/=-]))"
    rb"|(?P<codebase_mcp_key>cbm_[A-Za-z0-9]{12}_[A-Za-z0-9]{43}(?![A-Za-z0-9]))"
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

# The words of literals that begin with their second letter, as the first may be large.
_WORDS = {
    word[1:]: word
    for word in b"bearer basic cookie signature log login sign privatekey zugang anmelden auth"
    b" account".split()
}
_LITERAL = re.compile(rb"(?:[^][\\(){}?*+|.^$]|\\[^\w])+(?![?*{])|\\n[a-z ]+")


class _Form(NamedTuple):
    """A form of secrets, which a text has only if it has a literal and a word."""

    kind: str
    is_secret: Check
    lead: bytes
    word: bytes
    pattern: re.Pattern[bytes]
    begins: bool


def _literal(pattern: bytes) -> bytes:
    """The text with which all matches of a pattern begin."""
    match = _LITERAL.match(pattern)
    return re.sub(rb"\\(\W)", rb"\1", match[0]).replace(rb"\n", b"\n") if match else b""


def _word_of(lead: bytes) -> bytes:
    """The word that a text has if it has this literal; empty if there is none."""
    parts: list[bytes] = re.findall(rb"[a-z0-9]+", lead.lower())
    word = max(parts, key=len, default=b"")
    return _WORDS.get(word, word)


def _form(kind: str, check: Check, pattern: bytes, leads: Sequence[bytes] = ()) -> Iterator[_Form]:
    """The forms of a pattern, one for each literal that a text must have.

    ``<<lead>>`` stands for the literal; where none is given, the pattern begins with it.
    """
    for lead in leads or (_literal(pattern),):
        expression = re.compile(pattern.replace(b"<<lead>>", re.escape(lead)))
        yield _Form(kind, check, lead, _word_of(lead), expression, not leads)


_LOGINS = (b"og in ", b"ogin", b"ugang", b"nmelden", b"uth", b"ign in ", b"ccount")

_FORMS = (
    *_form("token in a header", _random, rb"earer[ ]+(?P<value>[\w.~+/-]{16,2000}={0,2})"),
    *_form(
        "password in a header", _login, rb"asic[ ]+(?P<value>[A-Za-z0-9+/]{6,500}={0,2})(?![\w+/.])"
    ),
    *_form(
        "session in a cookie",
        _random,
        rb"""ookie(?:: |",?\s*"?(?:value)?"?\s*[:,]\s*")[^"\r\n]{0,200}?\b[\w.-]{0,40}"""
        rb"(?i:sid|sess\w*|token|auth|remember[\w-]*)=(?P<value>[\w.~+/%-]{16,500})",
    ),
    *_form(
        "password of a registry", _login, rb'"auth"\s*:\s*"(?P<value>[A-Za-z0-9+/]{8,500}={0,2})"'
    ),
    *_form(
        "password in a URL",
        _password,
        rb"""<<lead>>[^\s/@:"'<>?]{0,100}:"""
        rb"""(?P<value>(?!\d+[/,:?])[^\s@"'<>]{1,200}?(?:@[^\s@/"'<>]{2,60})?)@[\w\[{$%]"""
        rb"""[^\s/@"'<>]{0,200}(?:[/\s"'<>`]|\Z)""",
        (b"://", b":\\/\\/"),
    ),
    *_form(
        "key in a URL",
        _random,
        rb"<<lead>>v\d/(?P<value>[\w-]{32,64})",
        (b"infura.io/", b"alchemy.com/"),
    ),
    *_form(
        "secret of a provider",
        _mixed,
        rb"""provider :\w+,\s*[^\s,]+,\s*["'](?P<value>[^"'\s]{16,200})["']""",
    ),
    *_form(
        "password",
        _password,
        rb'"(?P<value>(?=[^"]*[a-z])[^"\\\r\n]{6,100})"\.toCharArray\(\)',
        (b".toCharArray()",),
    ),
    *_form("password", is_chosen, rb"\nuser \S{1,60}[ ](?P<value>\S{6,100})\r?(?=\n)"),
    *_form(
        "password in a connection string",
        _password,
        rb'\.Open "[^"\r\n]*", ?"[^"\r\n]{1,40}", ?"(?P<value>[^"\r\n]{6,100})"',
    ),
    *_form(
        "key in a URL",
        _random,
        rb"https://(?P<value>[0-9a-zA-Z_-]{20,100})(?::[0-9a-f]{32})?@[\w-]+\.",
    ),
    *_form(
        "password in a connection string",
        _mixed,
        rb"""(?<=[\w"'`= ]:)(?P<value>[^\s/:"'`]{6,100})@tcp\(""",
        (b"@tcp(",),
    ),
    *_form(
        "signature in a URL", _random, rb"""sig=(?<=[?&;'"]sig=)(?P<value>[\w%+/.=-]{20,800})"""
    ),
    *_form(
        "signature in a URL",
        _random,
        rb"ignature=(?<=[-?&, ][sS]ignature=)(?P<value>[\w%+/.=-]{20,800})",
    ),
    *_form("key in a URL", _random, rb"code=(?<=[?&]code=)(?P<value>[\w+/=-]{40,200})"),
    *_form("key in a URL", _random, rb"appid=(?<=[?&]appid=)(?P<value>[0-9a-f]{32})"),
    *_form("key in a URL", _random, rb"key=(?<=[?&]key=)(?P<value>[\w%+/.=-]{16,500})"),
    *_form(
        "key by its name",
        _random,
        rb"""\nkey[ ]?[=:][ ]?["']?(?P<value>[\w+/=-]{32,200})["']?\r?(?=\n|\Z)""",
    ),
    *_form("password of Maven", _any, rb"<master>(?P<value>\{[\w+/=-]{20,200}\})"),
    *_form(
        "password of a source",
        _word,
        rb"""BUNDLE_\w+:[ ]*["']?[\w.@+-]{1,60}:(?P<value>[^\s"'/]{6,200})""",
    ),
    *_form(
        "password of a server",
        _word,
        rb"(?m)^\[?[\w.-]{3,100}\]?(?::\d{2,5})?[ \t]+[^\s:]{1,80}:"
        rb"(?P<value>[^\s:/][^\s:]{5,200})\r?$",
        (b"smtp", b"]:587", b"]:465", b"]:25"),
    ),
    *_form(
        "password of a client",
        _word,
        rb'(?m)^"[^"\r\n]{1,80}"\s+\*\s+"(?P<value>[^\s"]{6,100})"[ \t*]*\r?$',
        (b'" * "', b'"\t*\t"', b'"  *  "'),
    ),
    *_form(
        "password in a URL",
        _password,
        rb"""[?&]u(?:ser)?=[^&\s]{1,60}&p=(?P<value>[^&\s"'`]{6,200})""",
        (b"&p=",),
    ),
    *_form(
        "webhook",
        _has_random_part,
        rb"""https?://[^\s"'<>]{0,120}<<lead>>(?P<value>[\w@/.-]{30,400})""",
        (b"webhook/", b"webhooks/", b"webhookb2/"),
    ),
    *_form(
        "password",
        _word_or_phrase,
        rb"""SecureString\s+(?:-\w+\s+){0,2}["'](?P<value>[^"'\r\n$]{6,200})["']""",
    ),
    *_form(
        "private key",
        _key_text,
        rb"rivateKey>\s*(?P<value>(?:[A-Za-z0-9+/=]{16,200}\s{0,20}){2,200})<",
    ),
    *_form("answer of a login", _random, rb'Digest [^\r\n]{0,400}?response="(?P<value>\w{32})'),
    *_form(
        "password",
        is_chosen,
        rb"""<<lead>>b?["'][\w.@-]{1,40}:(?P<value>[^"'\s:]{6,100})["']""",
        (b"btoa(", b"b64encode(", b"Buffer.from(", b"base64_encode("),
    ),
    *_form(
        "password", is_chosen, rb"(?m)(?:^|> ?)AUTH (?:\w+ )?(?P<value>\S{6,100})\r?$", (b"AUTH ",)
    ),
    *_form("key of a framework", _random, rb"base64:(?P<value>[A-Za-z0-9+/]{43}=)"),
    *_form(
        "password of an account",
        _any,
        rb"""<<lead>>(?P<value>[^\s:,"'<>{}]{6,200})""",
        (b"{SHA}", b"{SSHA}", b"{PLAIN}", b"{CRYPT}", b"{noop}", b"{bcrypt}"),
    ),
    *_form(
        "password of an account", _mixed, rb""":thin:[\w$]{1,60}/(?P<value>[^\s@"'/]{4,100})@"""
    ),
    # Sign in as user / password   Login: `user` / `password`
    *_form(
        "password of an account",
        _beside_user,
        rb"""<<lead>>[^\r\n/]{0,40}?[`"']{1,2}[\w.@-]{1,40}[`"']{1,2}(?: ?/|(?<=`):) ?"""
        rb"""[`"']{1,2}(?P<value>[^`"'\s]{6,60})[`"']""",
        _LOGINS,
    ),
    *_form(
        "password of an account",
        is_strong,
        rb"<<lead>>[^\r\n/]{0,40}?(?<=[ (:])[\w.@-]{2,40} / "
        rb"""(?P<value>[^`"'\s()]{6,60}?)(?=[).,;]?(?:\s|$))""",
        _LOGINS,
    ),
    *_form("webhook", _any, rb"hooks\.slack\.com/services/T\w+/B\w+/(?P<value>\w{20,})"),
    *_form(
        "password in SQL",
        _word,
        rb"""<<lead>>\s+(?i:(?:with\s+[\w"'`]+\s+)?(?:by|as)\s+(?:password\s+)?)\\*["']"""
        rb"""(?P<value>(?:[^"'`\r\n\\]|'')+)\\*["']""",
        (b"IDENTIFIED", b"identified"),
    ),
    *_form(
        "password in SQL",
        is_chosen,
        rb"<<lead>>\s+(?i:by)\s+(?P<value>[\w#$!?+*.-]{6,60})",
        (b"IDENTIFIED", b"identified"),
    ),
    *_form(
        "password in SQL",
        _word,
        rb"<<lead>>\s*(?:=\s*)?N?'(?P<value>(?:[^'\r\n]|''){6,200})'",
        (b"PASSWORD ", b"with password ", b"login password ", b"PASSWORD="),
    ),
    *_form("password in SQL", _word, rb"PASSWORD\(\s*'(?P<value>[^'\r\n]{6,200})'"),
    *_form("password of a network", _any, rb"WIFI:[^\r\n]{0,80}?P:(?P<value>[^;\r\n]{6,64});"),
    *_form(
        "password of an account",
        _word,
        rb"""uth\(\{\s*users: \{\s*["']?[\w.@-]+["']?:\s*["'](?P<value>[^"'\r\n]{6,100})["']""",
        (b"users: {",),
    ),
    *_form(
        "password of an account",
        _any,
        rb"list:[ ]*\|[ ]*\r?\n(?P<value>(?:[ ]+[a-z][\w-]{1,30}:[^\s:]{6,60}\r?\n)+)",
    ),
    *_form(
        "shared secret",
        _password,
        rb""":\s*(?:EAP|XAUTH)\s+\\*["'](?P<value>(?:[^"'`\r\n\\]|'')+)\\*["']""",
        (b": EAP", b": XAUTH"),
    ),
    *_form(
        "hash of a password",
        _any,
        rb"\$(?:2[abxy]|1|5|6|7|y|gy|apr1|argon2(?:id?|d)|scrypt)\${1,2}[\w./$=,+-]{20,200}",
    ),
    *_form(
        "password of an account",
        _mixed,
        rb"(?m)^[\w.*-]+:(?:\d{2,5}|\*):[\w.*-]+:[\w.*-]+:(?P<value>[^\s:]{6,100})\r?$",
        (b":5432:", b":*:"),
    ),
    *_form(
        "private key",
        _key_text,
        rb"-----BEGIN [\w ]{0,40}(?:PRIVATE KEY|[sS]tatic key)(?: BLOCK| V1)?-----"
        rb"(?P<value>(?:[^-]|-(?!----)){40,20000}?)(?=-----END|-----BEGIN|\Z)",
    ),
    *_form(
        "private key", _any, rb"Private-Lines: \d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,64}\s+){1,60})"
    ),
    *_form(
        "private key",
        _key_text,
        rb"BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
        rb"""(?P<value>(?:[\s"'+,#*/]|\\n)*(?:[A-Za-z0-9+/=]{32,}(?:[\s"'+,#*/]|\\n)*)+)""",
    ),
    *_form(
        "private key",
        _any,
        rb"<(?:P|Q|D|DP|DQ|InverseQ)>(?P<value>[A-Za-z0-9+/=]{20,})<",
        (b"RSAKeyValue",),
    ),
    *_form(
        "private key", _any, rb'"(?:d|p|q|dp|dq|qi|k)"\s*:\s*"(?P<value>[\w-]{20,})"', (b'"kty"',)
    ),
)

# Patterns that begin with their literal are searched as they are, and these too, where a text has
# the literal; all patterns else in the lines that have it.
_ANYWHERE = frozenset((b"RSAKeyValue", b'"kty"'))


def find(text: Text) -> Iterator[Span]:
    """The secrets in a text that have a form of their own."""
    for form in _FORMS:
        if form.word and form.word not in text.words:
            continue
        for match in _matches(text.data, form):
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


def _matches(data: bytes, form: _Form) -> Iterator[re.Match[bytes]]:
    if form.lead in _ANYWHERE:
        yield from form.pattern.finditer(data) if form.lead in data else ()
        return
    if form.begins:
        yield from form.pattern.finditer(data)  # which looks for its beginning first
        return
    position = data.find(form.lead)
    while position >= 0:
        start = max(data.rfind(b"\n", 0, position) + 1, position - 400)
        end = data.find(b"\n", position)
        end = min(len(data) if end < 0 else end + 1, position + 3000)
        yield from form.pattern.finditer(data, start, end)
        position = data.find(form.lead, end)
