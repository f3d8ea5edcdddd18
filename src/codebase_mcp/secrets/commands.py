"""Where do commands and calls take a secret without naming it?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from codebase_mcp.secrets.judging import Evidence, evidence, is_chosen, is_phrase, is_strong
from codebase_mcp.secrets.naming import sort_of
from codebase_mcp.secrets.text import Span, Text

_VALUE = (
    rb"""(?:"(?P<double>[^"\r\n]{4,200})"|'(?P<single>[^'\r\n]{4,200})'"""
    rb"""|(?P<bare>[^\s"'|;<>`]{4,200}))"""
)
_USER = rb"""[ =]?["']?[^\s:%,"']{1,60}["']?[:%,]["']?(?P<bare>[^\s"'|;<>`]{4,200})"""

# What stands before the secret, the programs whose option it is, and where the secret is.
_OPTIONS: tuple[tuple[bytes, bytes, bytes], ...] = (
    (
        b" -p",
        rb"mysql|mysqldump|mysqladmin|mysqlimport|mysqlshow|mariadb|mycli|7z|7za|rar|unrar",
        rb" -p" + _VALUE,
    ),
    (
        b" -p",
        rb"sshpass|docker|podman|helm|oras|nerdctl|twine|az|mongo|mongosh|mongodump|mongorestore|cqlsh|psexec|rdesktop|useradd"
        rb"|usermod|oc|cf|ibmcloud|curlftpfs|samba-tool|security|pscp|plink|openssl|influx|clickhouse-client",
        rb" -pw?(?:[ ]|(?=[\"']))" + _VALUE,
    ),
    (b" -a ", rb"redis-cli|valkey-cli", rb" -a " + _VALUE),
    (
        b" -P",
        rb"sqlcmd|bcp|isql|zip|unzip|ipmitool|mosquitto_pub|mosquitto_sub|tsql|ssh-keygen",
        rb" -P ?" + _VALUE,
    ),
    (b" -p:", rb"winrs", rb" -p:" + _VALUE),
    (b" -w ", rb"security", rb" -w " + _VALUE),
    (b" -N ", rb"ssh-keygen", rb" -N " + _VALUE),
    (
        b" -w ",
        rb"ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd",
        rb" -w " + _VALUE,
    ),
    (b" -u", rb"curl|wget|lftp|jfrog|http|https|xh", rb" -u" + _USER),
    (b" -a ", rb"http|https|xh", rb" -a" + _USER),
    (b"user", rb"curl|wget|svn|etcdctl", rb"user" + _USER),
    (b" -U ", rb"smbclient|rpcclient|curl|net", rb" -U" + _USER),
    (b"creds", rb"skopeo|buildah|crane|podman", rb"creds" + _USER),
    *((lead, rb"curl", rb" -[a-zA-Z]{1,6}u" + _USER) for lead in (b" -s", b" -f", b" -k", b" -i")),
    *(
        (
            lead,
            rb"htpasswd",
            rb" -(?:\w*n\w*\s+(?:-\w+\s+)*|\w*b\w*\s+(?:-\w+\s+)*\S+\s+)\S+\s+" + _VALUE,
        )
        for lead in (b" -b", b" -c", b" -B", b" -n")
    ),
    (b"/user:", rb"net|cmdkey|runas", rb"/user:\S+\s+(?:/pass:)?" + _VALUE),
    (b" user ", rb"net", rb" user \S+\s+" + _VALUE),
    (b" use ", rb"net", rb" use \S+\s+\S+\s+(?P<bare>[^\s/]{4,100})\s+/user"),
    (b"/p:", rb"xfreerdp|wfreerdp|xfreerdp3", rb"/p:" + _VALUE),
    (
        b"config ",
        rb"poetry|bundle",
        rb"config (?:--?\w+ |set )*[\w-]+\.\S+ (?:[^\s:]+[ :])?" + _VALUE,
    ),
    (
        b"secret",
        rb"gh|wrangler|fly|aws|vercel",
        rb"secret\w* \w+ [^\n]{0,80}?(?:-b|--body|<<<)[ =]?" + _VALUE,
    ),
    (b" /rp ", rb"schtasks|sc", rb" /rp " + _VALUE),
    (b"pass:", rb"openssl|cmdkey|runas|apksigner", rb"pass:" + _VALUE),
    (b" -k ", rb"openssl|dotnet|nuget", rb" -k " + _VALUE),
    (b"alias set ", rb"mc", rb"alias set \S+\s+\S+\s+\S+\s+" + _VALUE),
    (b"http-basic.", rb"composer", rb"http-basic\.\S+\s+\S+\s+" + _VALUE),
    (b"-oauth.", rb"composer", rb"-oauth\.\S+\s+" + _VALUE),
    *((lead, rb"snmpwalk|snmpget|snmpset", lead + _VALUE) for lead in (b" -A ", b" -X ")),
    (b" -t ", rb"doctl|influx|linode-cli", rb" -t " + _VALUE),
    (b" key ", rb"tacacs-server|radius-server|isakmp|iwconfig", rb" key (?:\d )?(?:s:)?" + _VALUE),
    (b"rootpw", rb"rootpw", rb"rootpw (?:--\w+ )?" + _VALUE),
    (
        b"--from-literal=",
        rb"kubectl|oc|k",
        rb"""--from-literal=["']?[\w.-]+=["']?(?P<bare>[^\s"']{4,200})""",
    ),
    (b"authtoken ", rb"ngrok", rb"authtoken " + _VALUE),
    (b"add_user ", rb"rabbitmqctl", rb"add_user \S+\s+" + _VALUE),
    (b"change_password ", rb"rabbitmqctl", rb"change_password \S+\s+" + _VALUE),
    (b" login ", rb"vault|cargo|wandb|heroku|fly", rb" login (?:-\S+\s+)*" + _VALUE),
    (b" --auth", rb"netlify|firebase|vercel|surge", rb" --auth[ =]" + _VALUE),
    (b"community ", rb"snmp-server|rocommunity|rwcommunity", rb"community " + _VALUE),
    (b" -c ", rb"snmpwalk|snmpget|snmpset|snmpbulkwalk", rb" -c " + _VALUE),
    (b"wpa_passphrase", rb"wpa_passphrase", rb"wpa_passphrase \S+\s+" + _VALUE),
    *(
        (lead, lead, lead + rb" (?:-\w+\s+|target )*\w+/[\"']?(?P<bare>[^\s@/\"']{4,100})")
        for lead in (b"sqlplus", b"expdp", b"impdp", b"rman")
    ),
    (b" auth ", rb"stats", rb" auth \w+:(?P<bare>\S{4,100})"),
)
_Option = tuple[frozenset[bytes], re.Pattern[bytes], re.Pattern[bytes]]


def _words_of(programs: bytes) -> frozenset[bytes]:
    """The first words of programs' names, to tell quickly that a text has none."""
    return frozenset(re.split(rb"[^a-z0-9]", name)[0] for name in programs.split(b"|"))


_SHORT: dict[bytes, list[_Option]] = defaultdict(list)
_LONG: list[tuple[bytes, _Option]] = []
for _lead, _programs, _value in _OPTIONS:
    _called = rb"(?:^|[\s;|&\"'`(@/\\$])(?:%s)(?:\.exe)?(?:\s|$)" % _programs
    _option = (_words_of(_programs), re.compile(_called), re.compile(_value))
    if _lead.startswith(b" -") and not _lead.startswith(b" --"):
        _SHORT[_lead[2:3]].append(_option)
    else:
        _LONG.append((_lead, _option))
_SHORT_LEAD = re.compile(rb" -[%s]" % b"".join(_SHORT))
_SHORT_WORDS = frozenset(
    word for options in _SHORT.values() for words, *_ in options for word in words
)
# echo … | docker login --password-stdin     echo "user:…" | chpasswd
_PIPED = re.compile(
    rb"""(?:echo|printf)\s+(?:-\w+\s+|["']?%s(?:\\n)?["']?\s+)*["']?(?:(?P<user>[\w-]{1,60}):)?"""
    rb"""(?P<value>[^\s"'|:]{6,500})["']?\s*\|\s*"""
    rb"""[^\n|]{0,200}?(?:-stdin|--with-token|passwd|sudo -S| login|passphrase-fd|cryptsetup"""
    rb"""|su |kinit|secrets? |vault)"""
)
_LONGEST_COMMAND = 500
# Of any program: -u user … -p …   and what a command reads: <<< "…"
_AFTER_USER = re.compile(
    rb" -(?:u|-user(?:name)?)[ =]\S{1,60}[^\n|;]{0,80}?[ ]-[pPw][ =]?" + _VALUE
)
_HERE = re.compile(rb"<<<[ ]?" + _VALUE)
_HEREDOC = re.compile(
    rb"passwd\b[^\r\n]{0,40}<<-?[ ]?[\"']?(?P<end>\w{1,20})[\"']?\r?\n"
    rb"(?P<value>(?:(?!(?P=end))\S{6,100}\r?\n){1,2})"
)
_END_OF_COMMAND = re.compile(rb"(?<![\\^`])(?<![\\^`]\r)\r?\n")  # a line may go on in the next
_PRINTED = frozenset((b"echo", b"printf"))
_SEND = frozenset((b"send", b"sendline"))
# send "…\r" after expect "password:"
_SENT = re.compile(
    rb"""send(?:line)?[ (]+(?:-- )?["'](?P<value>[^"'\r\n]{4,100}?)(?:\\[rn])*["']"""
)
_ASKED = re.compile(
    rb"""ass(?:word|phrase)[: ]*["'})\]]*\s*[;{]?\s*(?:\w{1,20}\.)?$""", re.IGNORECASE
)

# Calls that take a user and a password, or an id and a key, as texts, by what their names end with.
_OPENED = (
    rb"""(?:s|ion|entication|enticate|\w{0,9}(?<=256|ith)|iv|parser|store|\.encode|\.decode|\.new"""
    rb"""|edstring|\w{0,12}slice|\w{0,9}secret)?[ ]?(?:\("""
    rb"""|["']?[ ]?[=:][ ]?[\[(]|[ ](?=["'][^"'\n]{1,60}["'],))"""
)
_LOGINS = frozenset(b"credential auth login basic pdo mysqli".split())
_PAIRS = tuple(
    b"credential auth connect login create_user pgp_sym_encrypt basic pdo mysqli wifi.begin".split()
)
_CALLS = tuple(
    (re.split(rb"[._]", name)[0], re.compile(name + _OPENED), name in _PAIRS)
    for name in (
        *_PAIRS,
        *b"client sign verify hmac serializer crypt cipher cookie fernet jwt environment"
        b" algoliasearch".split(),
    )
)
# Those that are parts of other words: newCookieStore.
_PARTS = frozenset(
    b"credential auth connect login client sign hmac crypt cipher cookie environment".split()
)
_ARGUMENTS = re.compile(
    rb"""(?:[^;()\[\]"']|"[^"\r\n]{0,200}"|'[^'\r\n]{0,200}'|\([^;()]{0,80}\)|\[[^;\[\]]{0,80}\]){0,300}+"""
)
_TEXT = re.compile(
    rb"""(?:^|[\s,(])(?:(?:\[\])?\w{1,12}\(|b|(?:key|secret)=)?["'](?P<value>[^"'\r\n]{1,200})["'](?!\s*[:=])"""
)


# -p of these is a port or a project, unless they log in.
_OTHER_P = re.compile(rb"\b(?:docker|podman|nerdctl|helm|oc)\b(?![^\n]*\blogin\b)")
_NAME = re.compile(rb"[a-z0-9_.]+")
_ADDRESS = re.compile(rb"[\w.+-]{1,60}@[\w-]{1,60}\.[\w.-]{2,60}")
_JOINED = re.compile(rb"[\w\x80-\xff]{2}[-_.+&][\w\x80-\xff]")


def find(text: Text) -> Iterator[Span]:
    """The secrets that commands and calls take in a text."""
    data, words = text.data, text.words
    yield from _of_options(text)
    if not _PRINTED.isdisjoint(words):
        yield from _piped(data)
    if b"passwd" in text.vocabulary:
        for match in _HEREDOC.finditer(data):
            yield *match.span("value"), "password of a command"
    if b" -u" in data or b" --user" in data:
        yield from _matched(data, _AFTER_USER, is_chosen)
    if b"<<<" in data:
        yield from _matched(data, _HERE, is_strong)
    if b"expect" in words and not _SEND.isdisjoint(words):
        for match in _SENT.finditer(data):
            before = data[max(0, match.start() - 60) : match.start()]
            if _ASKED.search(before) and evidence(match["value"]) >= Evidence.MIXED:
                yield *match.span("value"), "password that is sent"
    for word, opened, takes_pair in _CALLS:
        if word in words or (word in _PARTS and word in text.vocabulary):
            for match in opened.finditer(text.lower):
                yield from _of_call(
                    data, match.end() - 1, takes_pair=takes_pair, is_login=word in _LOGINS
                )


def _matched(
    data: bytes, pattern: re.Pattern[bytes], is_secret: Callable[[bytes], bool]
) -> Iterator[Span]:
    for match in pattern.finditer(data):
        group = match.lastgroup or "bare"
        if is_secret(match[group]):
            yield *match.span(group), "password of a command"


def _of_options(text: Text) -> Iterator[Span]:
    data, words = text.data, text.words
    if not _SHORT_WORDS.isdisjoint(words):
        for match in _SHORT_LEAD.finditer(data):
            for programs, called, value in _SHORT[match[0][2:]]:
                if not programs.isdisjoint(words):
                    yield from _of_option(data, match.start(), 1, called, value)
    for lead, (programs, called, value) in _LONG:
        if not programs.isdisjoint(words):
            for place in _places(data, lead):
                yield from _of_option(data, place, len(lead), called, value)


def _piped(data: bytes) -> Iterator[Span]:
    for lead in _PRINTED:
        for place in _places(data, lead + b" "):
            match = _PIPED.match(data, place)
            if match and (match["user"] or is_chosen(match["value"]) or _is_joined(match["value"])):
                yield *match.span("value"), "password of a command"


def _places(data: bytes, literal: bytes) -> Iterator[int]:
    place = data.find(literal)
    while place >= 0:
        yield place
        place = data.find(literal, place + len(literal))


def _of_option(
    data: bytes, place: int, length: int, programs: re.Pattern[bytes], value: re.Pattern[bytes]
) -> Iterator[Span]:
    match = value.match(data, place)
    if match is None:
        return
    before = data[max(0, place - _LONGEST_COMMAND) : place + length]
    command = _END_OF_COMMAND.split(before)[-1]
    if not programs.search(command):
        return
    group = match.lastgroup or "bare"
    is_secret = (
        is_chosen(match[group])
        or (group != "bare" and is_phrase(match[group]))
        or (_is_joined(match[group]) and _OTHER_P.search(command) is None)
    )
    if is_secret and not re.fullmatch(rb"[\d:.]+", match[group]):
        yield *match.span(group), "password of a command"


def _is_joined(value: bytes) -> bool:
    """Whether words are joined, as in a password, and are not the name of a secret."""
    return (
        b" " not in value
        and _JOINED.search(value) is not None
        and evidence(value) >= Evidence.WORD
        and sort_of(value) is None
    )


def _of_call(data: bytes, start: int, *, takes_pair: bool, is_login: bool) -> Iterator[Span]:
    arguments = _ARGUMENTS.match(data, start + 1)
    if arguments is None:
        return
    had = b""
    for number, text in enumerate(_TEXT.finditer(data, start, arguments.end())):
        before = data[max(start, text.start("value") - 12) : text.start("value") - 1].rstrip(b" b")
        if before.endswith((b":", b"=", b">")) and not before.endswith((b"key=", b"secret=")):
            continue  # it has a name
        is_second = takes_pair and number > 0
        value = text["value"]
        follows_address, had = _ADDRESS.fullmatch(had) is not None, value
        takes_words = (follows_address or is_login) and _NAME.fullmatch(value) is None
        if evidence(value) is Evidence.RANDOM or (
            (is_second or follows_address)
            and b" " not in value
            and (is_chosen(value) or (takes_words and _is_joined(value)))
        ):
            yield *text.span("value"), "secret given to a call"
