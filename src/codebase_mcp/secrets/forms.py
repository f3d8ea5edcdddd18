"""Which secrets are told by their own form, or by the text directly around them?

One table: a literal that is searched first, as that is fast, the pattern around it, and what the
value must look like. Formats of further providers are Kingfisher's.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator

from codebase_mcp.secrets.judging import (
    Evidence,
    evidence,
    is_chosen,
    is_phrase,
    is_placeholder,
    is_strong,
)
from codebase_mcp.secrets.naming import CODE, Name, sort_of
from codebase_mcp.secrets.text import Span, Text


def _any(value: bytes) -> bool:
    return not is_placeholder(value)


def _word(value: bytes) -> bool:
    return evidence(value) >= Evidence.WORD


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
    rb"|(?P<token_by_its_form>(?!sha\d|pk_|pub)[a-z][a-z0-9]{1,11}[_-](?:[A-Za-z0-9]{2,12}[_-]){0,2}"
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

_QUOTED = rb"""\\*["'](?P<value>(?:[^"'`\r\n\\]|'')+)\\*["']"""

_FORMS: tuple[tuple[str, bytes, bytes, Check], ...] = (
    # Headers
    ("token in a header", b"earer ", rb"earer[ ]+(?P<value>[\w.~+/-]{16,2000}={0,2})", _random),
    (
        "password in a header",
        b"asic ",
        rb"asic[ ]+(?P<value>[A-Za-z0-9+/]{6,500}={0,2})(?![\w+/.])",
        _login,
    ),
    (
        "session in a cookie",
        b"ookie: ",
        rb"ookie: [^\r\n]{0,200}?\b[\w.-]{0,40}(?i:sid|sess\w*|token|auth|remember[\w-]*)="
        rb"(?P<value>[\w.~+/%-]{16,500})",
        _random,
    ),
    (
        "session in a cookie",
        b'ookie"',
        rb"""ookie",?\s*"?(?:value)?"?\s*[:,]\s*"[^"\r\n]{0,200}?\b[\w.-]{0,40}(?i:sid|sess\w*|token|auth|remember[\w-]*)="""
        rb"""(?P<value>[\w.~+/%-]{16,500})""",
        _random,
    ),
    (
        "password of a registry",
        b'"auth"',
        rb'"auth"\s*:\s*"(?P<value>[A-Za-z0-9+/]{8,500}={0,2})"',
        _login,
    ),
    # In addresses and connection strings
    *(
        (
            "password in a URL",
            lead,
            re.escape(lead)
            + rb"""[^\s/@:"'<>?]{0,100}:(?P<value>(?!\d+[/,:?])[^\s@"'<>]{1,200}?(?:@[^\s@/"'<>]{2,60})?)"""
            rb"""@[\w\[{$%][^\s/@"'<>]{0,200}(?:[/\s"'<>`]|\Z)""",
            _password,
        )
        for lead in (b"://", b":\\/\\/")
    ),
    *(
        ("key in a URL", lead, re.escape(lead) + rb"v\d/(?P<value>[\w-]{32,64})", _random)
        for lead in (b"infura.io/", b"alchemy.com/", b"g.alchemy.com/")
    ),
    (
        "secret of a provider",
        b"provider :",
        rb"provider :\w+,\s*[^\s,]+,\s*[\"'](?P<value>[^\"'\s]{16,200})[\"']",
        _mixed,
    ),
    (
        "password",
        b".toCharArray()",
        rb"\"(?P<value>(?=[^\"]*[a-z])[^\"\\\r\n]{6,100})\"\.toCharArray\(\)",
        _password,
    ),
    ("password", b"\nuser ", b"\nuser " + rb"\S{1,60}[ ](?P<value>\S{6,100})\r?(?=\n)", is_chosen),
    (
        "password in a connection string",
        b".Open ",
        rb"\.Open \"[^\"\r\n]*\", ?\"[^\"\r\n]{1,40}\", ?\"(?P<value>[^\"\r\n]{6,100})\"",
        _password,
    ),
    (
        "key in a URL",
        b"https://",
        rb"""https://(?P<value>[0-9a-zA-Z_-]{20,100})(?::[0-9a-f]{32})?@[\w-]+\.""",
        _random,
    ),
    (
        "password in a connection string",
        b"@tcp(",
        rb"""(?<=[\w"'`= ]:)(?P<value>[^\s/:"'`]{6,100})@tcp\(""",
        _mixed,
    ),
    (
        "signature in a URL",
        b"sig=",
        rb"sig=(?<=[?&;'\"]sig=)(?P<value>[\w%+/.=-]{20,800})",
        _random,
    ),
    (
        "signature in a URL",
        b"ignature=",
        rb"ignature=(?<=[-?&, ][sS]ignature=)(?P<value>[\w%+/.=-]{20,800})",
        _random,
    ),
    ("key in a URL", b"code=", rb"code=(?<=[?&]code=)(?P<value>[\w+/=-]{40,200})", _random),
    ("key in a URL", b"appid=", rb"appid=(?<=[?&]appid=)(?P<value>[0-9a-f]{32})", _random),
    ("key in a URL", b"key=", rb"key=(?<=[?&]key=)(?P<value>[\w%+/.=-]{16,500})", _random),
    (
        "key by its name",
        b"\nkey",
        b"\nkey" + rb"[ ]?[=:][ ]?[\"']?(?P<value>[\w+/=-]{32,200})[\"']?\r?(?=\n|\Z)",
        _random,
    ),
    ("password of Maven", b"<master>{", rb"<master>(?P<value>\{[\w+/=-]{20,200}\})", _any),
    # user:password behind the name of a server
    (
        "password of a source",
        b"BUNDLE_",
        rb"BUNDLE_\w+:[ ]*[\"']?[\w.@+-]{1,60}:(?P<value>[^\s\"'/]{6,200})",
        _word,
    ),
    *(
        (
            "password of a server",
            lead,
            rb"(?m)^\[?[\w.-]{3,100}\]?(?::\d{2,5})?[ \t]+[^\s:]{1,80}:"
            rb"(?P<value>[^\s:/][^\s:]{5,200})\r?$",
            _word,
        )
        for lead in (b"smtp", b"]:587", b"]:465", b"]:25")
    ),
    *(
        (
            "password of a client",
            lead,
            rb"(?m)^\"[^\"\r\n]{1,80}\"\s+\*\s+\"(?P<value>[^\s\"]{6,100})\"[ \t*]*\r?$",
            _word,
        )
        for lead in (b'" * "', b'"\t*\t"', b'"  *  "')
    ),
    (
        "password in a URL",
        b"&p=",
        rb"[?&]u(?:ser)?=[^&\s]{1,60}&p=(?P<value>[^&\s\"'`]{6,200})",
        _password,
    ),
    *(
        (
            "webhook",
            lead,
            rb"https?://[^\s\"'<>]{0,120}" + lead + rb"(?P<value>[\w@/.-]{30,400})",
            _has_random_part,
        )
        for lead in (b"webhook/", b"webhooks/", b"webhookb2/")
    ),
    (
        "password",
        b"SecureString",
        rb"SecureString\s+(?:-\w+\s+){0,2}[\"'](?P<value>[^\"'\r\n$]{6,200})[\"']",
        lambda value: _word(value) or is_phrase(value),
    ),
    (
        "private key",
        b"ivateKey>",
        rb"ivateKey>\s*(?P<value>(?:[A-Za-z0-9+/=]{16,200}\s{0,20}){2,200})<",
        _key_text,
    ),
    (
        "answer of a login",
        b"Digest ",
        rb"Digest [^\r\n]{0,400}?response=\"(?P<value>\w{32})",
        _random,
    ),
    *(
        (
            "password",
            lead,
            re.escape(lead) + rb"b?[\"'][\w.@-]{1,40}:(?P<value>[^\"'\s:]{6,100})[\"']",
            is_chosen,
        )
        for lead in (b"btoa(", b"b64encode(", b"Buffer.from(", b"base64_encode(")
    ),
    ("password", b"AUTH ", rb"(?m)(?:^|> ?)AUTH (?:\w+ )?(?P<value>\S{6,100})\r?$", is_chosen),
    ("key of a framework", b"base64:", rb"base64:(?P<value>[A-Za-z0-9+/]{43}=)", _random),
    *(
        (
            "password of an account",
            lead,
            re.escape(lead) + rb"(?P<value>[^\s:,\"'<>{}]{6,200})",
            _any,
        )
        for lead in (b"{SHA}", b"{SSHA}", b"{PLAIN}", b"{CRYPT}", b"{noop}", b"{bcrypt}")
    ),
    (
        "password of an account",
        b":thin:",
        rb":thin:[\w$]{1,60}/(?P<value>[^\s@\"'/]{4,100})@",
        _mixed,
    ),
    # Sign in as user / password   Login: `user` / `password`
    *(
        (
            "password of an account",
            lead,
            lead + rb"[^\r\n/]{0,40}?(?:" + pattern + rb")",
            check,
        )
        for lead in (b"og in ", b"ogin", b"ugang", b"nmelden", b"uth", b"ign in ", b"ccount")
        for pattern, check in (
            (
                rb"[`\"']{1,2}[\w.@-]{1,40}[`\"']{1,2} ?(?:/|and|und|(?<=`):) ?"
                rb"[`\"']{1,2}(?P<value>[^`\"'\s]{6,60})[`\"']",
                _password,
            ),
            (
                rb"(?<=[ (:])[\w.@-]{2,40} / (?P<value>[^`\"'\s()]{6,60}?)(?=[).,;]?(?:\s|$))",
                is_strong,
            ),
        )
    ),
    (
        "webhook",
        b"hooks.slack.com/",
        rb"hooks.slack.com/services/T\w+/B\w+/(?P<value>\w{20,})",
        _any,
    ),
    # Statements and files of accounts
    *(
        ("password in SQL", lead, lead + rb"\s+" + pattern, check)
        for lead in (b"IDENTIFIED", b"identified")
        for pattern, check in (
            (rb"(?i:(?:with\s+[\w\"'`]+\s+)?(?:by|as)\s+(?:password\s+)?)" + _QUOTED, _word),
            (rb"(?i:by)\s+(?P<value>[\w#$!?+*.-]{6,60})", is_chosen),
        )
    ),
    *(
        (
            "password in SQL",
            lead,
            lead + rb"\s*(?:=\s*)?N?'(?P<value>(?:[^'\r\n]|''){6,200})'",
            _word,
        )
        for lead in (b"PASSWORD ", b"with password ", b"login password ", b"PASSWORD=")
    ),
    ("password in SQL", b"PASSWORD(", rb"PASSWORD\(\s*'(?P<value>[^'\r\n]{6,200})'", _word),
    ("password of a network", b"WIFI:", rb"WIFI:[^\r\n]{0,80}?P:(?P<value>[^;\r\n]{6,64});", _any),
    (
        "password of an account",
        b"users: {",
        rb"uth\(\{\s*users: \{\s*[\"']?[\w.@-]+[\"']?:\s*[\"'](?P<value>[^\"'\r\n]{6,100})[\"']",
        _word,
    ),
    (
        "password of an account",
        b"list:",
        rb"list:[ ]*\|[ ]*\r?\n(?P<value>(?:[ ]+[a-z][\w-]{1,30}:[^\s:]{6,60}\r?\n)+)",
        _any,
    ),
    ("shared secret", b": EAP", rb":\s*EAP\s+" + _QUOTED, _password),
    ("shared secret", b": XAUTH", rb":\s*XAUTH\s+" + _QUOTED, _password),
    (
        "hash of a password",
        b"$",
        rb"\$(?:2[abxy]|1|5|6|7|y|gy|apr1|argon2(?:id?|d)|scrypt)\${1,2}[\w./$=,+-]{20,200}",
        _any,
    ),
    *(
        (
            "password of an account",
            lead,
            rb"(?m)^[\w.*-]+:(?:\d{2,5}|\*):[\w.*-]+:[\w.*-]+:(?P<value>[^\s:]{6,100})\r?$",
            _mixed,
        )
        for lead in (b":5432:", b":*:")
    ),
    # Keys
    (
        "private key",
        b"-----BEGIN",
        rb"-----BEGIN [\w ]{0,40}(?:PRIVATE KEY|[sS]tatic key)(?: BLOCK| V1)?-----"
        rb"(?P<value>(?:[^-]|-(?!----)){40,20000}?)(?=-----END|-----BEGIN|\Z)",
        _key_text,
    ),
    (
        "private key",
        b"Private-Lines:",
        rb"Private-Lines: \d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,64}\s+){1,60})",
        _any,
    ),
    (
        "private key",
        b"BEGIN",
        rb"BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
        rb"(?P<value>(?:[\s\"'+,#*/]|\\n)*(?:[A-Za-z0-9+/=]{32,}(?:[\s\"'+,#*/]|\\n)*)+)",
        _key_text,
    ),
    (
        "private key",
        b"RSAKeyValue",
        rb"<(?:P|Q|D|DP|DQ|InverseQ)>(?P<value>[A-Za-z0-9+/=]{20,})<",
        _any,
    ),
    ("private key", b'"kty"', rb'"(?:d|p|q|dp|dq|qi|k)"\s*:\s*"(?P<value>[\w-]{20,})"', _any),
)


# The words of literals that begin in the middle of a word, as its first letter may be large.
_WORDS = {b"earer": b"bearer", b"asic": b"basic", b"ookie": b"cookie", b"ignature": b"signature"}
_WORDS |= {b"og": b"log", b"ivatekey": b"privatekey", b"securestring": b"securestring"}
_WORDS |= {b"ogin": b"login", b"ugang": b"zugang", b"nmelden": b"anmelden", b"uth": b"auth"}
_WORDS |= {b"ign": b"sign", b"ccount": b"account", b"chararray": b"tochararray"}


def _word_of(lead: bytes) -> bytes:
    """The word that a text has if it has this literal; empty if there is none."""
    parts: list[bytes] = re.findall(rb"[a-z0-9]+", lead.lower())
    word = max(parts, key=len, default=b"")
    return _WORDS.get(word, word)


_COMPILED = tuple(
    (kind, lead, _word_of(lead), re.compile(pattern), check)
    for kind, lead, pattern, check in _FORMS
)
# Patterns that begin with their literal are searched as they are, and these too, where a text has
# the literal; all patterns else in the lines that have it.
_ANYWHERE = frozenset((b"RSAKeyValue", b'"kty"'))


def find(text: Text) -> Iterator[Span]:
    """The secrets in a text that have a form of their own."""
    for kind, lead, word, pattern, is_secret in _COMPILED:
        if word and word not in text.words:
            continue
        for match in _matches(text.data, lead, pattern):
            group = "value" if "value" in pattern.groupindex else 0
            if is_secret(match[group]):
                yield *match.span(group), kind


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


def _matches(data: bytes, lead: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    if lead in _ANYWHERE:
        yield from pattern.finditer(data) if lead in data else ()
        return
    if pattern.pattern.startswith((lead, rb"\$")):
        yield from pattern.finditer(data)  # which looks for its beginning first
        return
    position = data.find(lead)
    while position >= 0:
        start = max(data.rfind(b"\n", 0, position) + 1, position - 400)
        end = data.find(b"\n", position)
        end = min(len(data) if end < 0 else end + 1, position + 3000)
        yield from pattern.finditer(data, start, end)
        position = data.find(lead, end)
