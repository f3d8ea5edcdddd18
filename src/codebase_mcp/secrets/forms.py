"""Which secrets are told by their own form, or by what stands directly around them?

One table: a literal that is searched first, as that is fast, the pattern around it, and what the
value must look like. Formats of further providers are Kingfisher's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from codebase_mcp.secrets.judging import Evidence, evidence, is_placeholder
from codebase_mcp.secrets.places import Span


def _any(value: bytes) -> bool:
    return not is_placeholder(value)


def _mixed(value: bytes) -> bool:
    return evidence(value) >= Evidence.MIXED


def _random(value: bytes) -> bool:
    return evidence(value) is Evidence.RANDOM


def _password(value: bytes) -> bool:
    """Whether a value is at most a weak password, but no label."""
    return evidence(value) >= Evidence.WORD and re.search(rb"\d|[a-z][A-Z]|[^\w]", value) is not None


def _key_text(value: bytes) -> bool:
    """Whether this is the text of a key: long runs of base64 or of hexadecimal digits."""
    runs = re.findall(rb"[A-Za-z0-9+/=]{16,}", value)
    return sum(map(len, runs)) * 2 >= len(value)


Check = Callable[[bytes], bool]

_QUOTED = rb"""["'`](?P<value>[^"'`\r\n]{4,500})["'`]"""

_FORMS: tuple[tuple[str, bytes, bytes, Check], ...] = (
    # Formats of providers that Kingfisher lacks, or finds only beside certain words.
    ("AWS access key", b"AKIA", rb"(?<!\w)AKIA[A-Z0-9]{16}(?!\w)", _any),
    ("AWS access key", b"ASIA", rb"(?<!\w)ASIA[A-Z0-9]{16}(?!\w)", _any),
    ("Alibaba access key", b"LTAI", rb"(?<!\w)LTAI[A-Za-z0-9]{12,26}(?!\w)", _any),
    ("Tencent secret id", b"AKID", rb"(?<!\w)AKID[A-Za-z0-9]{28,36}(?!\w)", _any),
    ("Google API key", b"AIza", rb"(?<!\w)AIza[\w-]{35}(?![\w-])", _any),
    ("Google OAuth secret", b"GOCSPX-", rb"GOCSPX-[\w-]{28}(?![\w-])", _any),
    ("Facebook token", b"EAA", rb"(?<!\w)EAA[A-Za-z0-9]{60,400}(?!\w)", _random),
    ("Dropbox token", b"sl.", rb"(?<!\w)sl\.[\w-]{60,300}(?![\w-])", _random),
    ("Artifactory key", b"AKCp", rb"(?<!\w)AKCp[A-Za-z0-9]{50,90}(?!\w)", _any),
    ("Telegram bot token", b":A", rb"(?<!\d)(?P<value>\d{8,10}:A[\w-]{34})(?![\w-])", _random),
    ("Sonar token", b"sq", rb"(?<!\w)sq[uap]_[0-9a-f]{40}(?!\w)", _any),
    ("Stripe secret", b"whsec_", rb"whsec_[\w+/=]{24,}", _any),
    ("age key", b"AGE-SECRET", rb"AGE-SECRET-KEY-1[A-Z0-9]{40,}", _any),
    ("codebase-mcp key", b"cbm_", rb"cbm_[A-Za-z0-9]{12}_[A-Za-z0-9]{43}(?![A-Za-z0-9])", _any),
    # A secret beside the id that it belongs to.
    *(
        (
            "secret beside its id",
            lead,
            rb"""(?<!\w)%s\w{12,40}["']?[\s,;:|]+["']?(?P<value>[\w+/=-]{24,64})(?![\w+/=-])""" % lead,
            _random,
        )
        for lead in (b"AKIA", b"ASIA", b"LTAI", b"AKID", b"AC")
    ),
    # Headers
    ("token in a header", b"earer ", rb"[bB]earer[ ]+(?P<value>[\w.~+/-]{16,2000}={0,2})", _random),
    ("password in a header", b"asic ", rb"[bB]asic[ ]+(?P<value>[A-Za-z0-9+/]{12,500}={0,2})(?![\w+/])", _mixed),
    (
        "key in a header",
        b"-",
        rb"""[xX]-[\w-]{0,40}(?:[aA]pi|[kK]ey|[tT]oken|[aA]uth|[sS]ecret)["']?[\s:,=\])]{1,6}["']?(?P<value>[\w.~+/=-]{20,500})""",
        _random,
    ),
    ("session in a cookie", b"ookie: ", rb"[cC]ookie:[^\r\n]{0,200}?\b[\w.-]*(?:sid|sess\w*|token|auth)=(?P<value>[\w.~+/%-]{16,500})", _random),
    # In addresses and connection strings
    ("password in a URL", b"://", rb"""://[^\s/@:"'<>]{0,100}:(?P<value>[^\s@"'<>]{6,200}?)@[\w\[]""", _password),
    ("key in a URL", b"://", rb"""://(?P<value>[0-9a-zA-Z_-]{20,100})@[\w-]+\.""", _random),
    ("password in a connection string", b"@", rb"""(?<=[\w"'`= ]:)(?P<value>[^\s@/:"'`]{6,100})@(?:tcp|unix|\w+)\(""", _mixed),
    ("signature in a URL", b"ig", rb"[?&;'\"](?:sig|[sS]ignature)=(?P<value>[\w%+/.=-]{20,800})", _random),
    ("key in a URL", b"key=", rb"[?&]key=(?P<value>[\w%+/.=-]{16,500})", _random),
    ("password in a URL", b"&p", rb"[?&]u(?:ser)?=[^&\s]{1,60}&p(?:wd?|ass)?=(?P<value>[^&\s\"'`]{6,200})", _password),
    ("webhook", b"hooks.slack.com/", rb"hooks\.slack\.com/services/T\w+/B\w+/(?P<value>\w{20,})", _any),
    # Statements and files of accounts
    ("password in SQL", b"IDENTIFIED", rb"IDENTIFIED\s+(?:WITH\s+[\w\"'`]+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?" + _QUOTED, _password),
    ("password in SQL", b"identified", rb"identified\s+(?:with\s+[\w\"'`]+\s+)?(?:by|as)\s+(?:password\s+)?" + _QUOTED, _password),
    ("shared secret", b": EAP", rb":\s*EAP\s+" + _QUOTED, _password),
    ("shared secret", b": XAUTH", rb":\s*XAUTH\s+" + _QUOTED, _password),
    ("hash of a password", b"$", rb"\${1,2}(?:2[abxy]|1|5|6|7|y|gy|apr1|argon2id?|scrypt)\${1,2}[\w./$=,+-]{20,200}", _any),
    ("password", b":", rb"(?m)^[\w.*-]+:(?:\d{2,5}|\*):[\w.*-]+:[\w.*-]+:(?P<value>[^\s:]{6,100})\r?$", _mixed),
    # Keys
    (
        "private key",
        b"-----BEGIN",
        rb"-----BEGIN [\w ]{0,40}(?:PRIVATE KEY|[sS]tatic key)(?: BLOCK| V1)?-----(?P<value>(?:[^-]|-(?!----)){40,20000}?)(?=-----END|-----BEGIN|\Z)",
        _key_text,
    ),
    ("private key", b"Private-Lines:", rb"Private-Lines: \d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,64}\s+){1,60})", _any),
    ("private key", b"PRIVATE KEY-----", rb"PRIVATE KEY-----(?P<value>(?:[\s\"'+,#*/]|\\n)*(?:[A-Za-z0-9+/=]{32,}(?:[\s\"'+,#*/]|\\n)*)+)", _any),
    ("private key", b"RSAKeyValue", rb"<(?:P|Q|D|DP|DQ|InverseQ)>(?P<value>[A-Za-z0-9+/=]{20,})<", _any),
    ("private key", b'"kty"', rb'"(?:d|p|q|dp|dq|qi|k)"\s*:\s*"(?P<value>[\w-]{20,})"', _any),
)
_COMPILED = tuple((kind, lead, re.compile(pattern), check) for kind, lead, pattern, check in _FORMS)
# Where the literal is not what the pattern begins with, the whole text is searched.
_ELSEWHERE = frozenset((b"RSAKeyValue", b'"kty"'))


def find(data: bytes) -> Iterator[Span]:
    """The secrets in a text that have a form of their own."""
    for kind, lead, pattern, is_secret in _COMPILED:
        if lead not in data:
            continue
        for found in pattern.finditer(data):
            group = "value" if "value" in pattern.groupindex else 0
            if is_secret(found[group]):
                yield *found.span(group), kind
