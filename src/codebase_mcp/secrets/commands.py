"""Where do commands and calls take a secret without naming it?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codebase_mcp.secrets.judging import Evidence, evidence
from codebase_mcp.secrets.places import Span

_ARGUMENT = rb"""(?:"(?P<double>[^"\r\n]{4,200})"|'(?P<single>[^'\r\n]{4,200})'|(?P<bare>[^\s"'|;<>]{4,200}))"""
_REST = rb"(?:[^\n|;&]|\\\r?\n)"

# The program, what stands before its secret, and whether the secret is joined to that.
_COMMANDS: tuple[tuple[bytes, bytes], ...] = (
    (rb"mysql(?:dump|admin|import|show)?|mariadb(?:-dump)?|mycli|7z[ar]?|rar|unrar", rb"\s-p"),
    (rb"sshpass|docker|podman|helm|oras|nerdctl|twine|az|mongo(?:sh|dump|restore)?|ansible|cqlsh|psexec|rdesktop|keytool|useradd|usermod|openssl|oc|cf|ibmcloud|gp|winrm|curlftpfs|xfreerdp|htdigest|samba-tool|pscp|plink", rb"\s(?:-p|-pw|/p:|-P)[ ]?"),
    (rb"redis-cli|valkey-cli|ansible-vault|mosquitto_(?:pub|sub)", rb"\s-(?:a|P)[ ]"),
    (rb"sqlcmd|bcp|isql|zip|unzip|ipmitool|mosquitto_(?:pub|sub)|tsql|ssh-keygen", rb"\s-[PN][ ]?"),
    (rb"ldap\w+|kinit|smbpasswd|net", rb"\s-[wW][ ]"),
    (rb"curl|wget|https?|xh|lftp|svn|smbclient|rpcclient|artifactory|jfrog|skopeo|buildah|crane|git", rb"\s(?:-u|--user|-a|-U|--creds|--src-creds|--dest-creds|--proxy-user)[ =]?[\"']?[^\s:%,\"']{1,60}[:%,]"),
    (rb"htpasswd", rb"\s-\w*b\w*\s+(?:-\w+\s+)*\S+\s+\S+\s+"),
    (rb"net", rb"\suse\s[^\n]*?/user:\S+\s+"),
    (rb"schtasks|sc|runas|wmic|cmdkey|xfreerdp", rb"\s/(?:rp|pass|password|p)[ :]"),
    (rb"openssl|keytool|jarsigner", rb"\s(?:-pass(?:in|out)?\s+pass:|-(?:store|key|src\w*|dest\w*)pass\s+|-k\s+)"),
    (rb"mc", rb"\s(?:alias\s+set|config\s+host\s+add)\s+\S+\s+\S+\s+\S+\s+"),
    (rb"composer", rb"\sconfig\s(?:-\S+\s+)*[\w.-]*http-basic\.\S+\s+\S+\s+"),
    (rb"ngrok", rb"\s(?:config\s+add-)?authtoken\s+"),
    (rb"rabbitmqctl", rb"\s(?:add_user|change_password)\s+\S+\s+"),
    (rb"vault|cargo|npm|gem|heroku|doctl|fly|wandb|huggingface-cli", rb"\s(?:login|auth)\s+"),
    (rb"netlify|vercel|surge|firebase|doctl|snyk|codecov", rb"\s(?:-t|--auth|--token|auth)[ =]"),
    (rb"dotnet|nuget", rb"\s(?:-k|-ApiKey|--api-key)\s+"),
    (rb"snmp\w*", rb"\s-c\s+"),
    (rb"snmp-server", rb"\s+community\s+"),
    (rb"wpa_passphrase", rb"\s+\S+\s+"),
    (rb"sqlplus|exp|imp|expdp|impdp|sqlldr", rb"\s+\w+/"),
    (rb"stats|htaccess", rb"\s+auth\s+\w+:"),
)
_JOINED = re.compile(
    rb"(?m)(?:^|[\s;|&\"'`(@/$>])(?:%s)(?:\.exe)?(?=\s)"
    % rb"|".join(programs for programs, _ in _COMMANDS)
)
_OPTIONS = tuple(
    (re.compile(programs), re.compile(rb"%s*?%s%s" % (_REST, before, _ARGUMENT)))
    for programs, before in _COMMANDS
)
# echo … | docker login --password-stdin     echo "user:…" | chpasswd
_PIPED = re.compile(
    rb"""(?:echo|printf)\s+(?:-\w+\s+)*["']?(?:%%s\S*\s+)?(?P<value>[^\s"'|]{6,500})["']?\s*\|\s*(?:sudo\s+)?"""
    rb"""(?:(?P<users>chpasswd)|[^\n|]*(?:-stdin|--with-token|login|\s-S\b|passwd))"""
)
# send "…\r" after expect "password:"
_SENT = re.compile(rb"""(?i:password|passphrase):?\W{0,8}\s*\n?\s*send(?:line)?[ (]+["'](?P<value>[^"'\r\n]{4,100}?)(?:\\[rn])*["']""")

# Calls that take a user and a password, or an id and a key, as texts.
_CALL = re.compile(
    rb"""\b[\w.:>-]*?(?:[cC]redentials?|[bB]asic_?[aA]uth\w*|[aA]uth(?:enticate|entication)?|[cC]onnect(?:ion)?|[lL]og_?[iI]n|[cC]lient"""
    rb"""|[sS]ign(?:ed|er|In)?|[hH]mac|HMAC|[eE]ncrypt|[dD]ecrypt|[vV]erify|[eE]nvironment|[sS]ession|[aA]pi|API|SDK|search|[uU]pdater|[bB]ot)"""
    rb"""\s*(?:=\s*)?(?:\(|[ ](?=["']))(?P<arguments>[^;\n]{0,20}(?:[^;()]|\([^;()]{0,80}\)){0,400}?)(?:\)|;|$|\n)""",
    re.MULTILINE,
)
_TEXT = re.compile(rb"""(?<![\w\])=])\s*(?:\w{1,12}\()?["'](?P<value>[^"'\r\n]{4,200})["'](?!\s*[:=])""")
_PAIR = re.compile(rb"(?i:credential|basic_?auth|connect|log_?in|authenticat|^auth|\bauth)")


def find(data: bytes) -> Iterator[Span]:
    """The secrets that commands and calls take in a text."""
    for found in _JOINED.finditer(data):
        yield from _of_command(data, found)
    for kind, pattern in (("password of a command", _PIPED), ("password that is sent", _SENT)):
        for found in pattern.finditer(data):
            yield from _piped(found, kind)
    for found in _CALL.finditer(data):
        yield from _of_call(found)


def _of_command(data: bytes, found: re.Match[bytes]) -> Iterator[Span]:
    program = re.search(rb"[\w-]+(?=(?:\.exe)?$)", found[0])
    if program is None:
        return
    for programs, option in _OPTIONS:
        if programs.fullmatch(program[0]) and (given := option.match(data, found.end())):
            group = given.lastgroup or "bare"
            value = given[group]
            if evidence(value) >= Evidence.MIXED and not re.fullmatch(rb"[\d:.]+", value):
                yield *given.span(group), "password of a command"


def _piped(found: re.Match[bytes], kind: str) -> Iterator[Span]:
    start, end = found.span("value")
    value = found["value"]
    if "users" in found.re.groupindex and found["users"]:
        start += value.find(b":") + 1
        if evidence(value[value.find(b":") + 1 :]) >= Evidence.WORD:
            yield start, end, kind
    elif evidence(value) >= Evidence.MIXED:
        yield start, end, kind


def _of_call(found: re.Match[bytes]) -> Iterator[Span]:
    texts = list(_TEXT.finditer(found["arguments"]))
    first = found.start("arguments")
    takes_pair = _PAIR.search(found[0][: first - found.start()]) is not None
    for number, text in enumerate(texts):
        had = evidence(text["value"])
        is_password = takes_pair and number > 0 and had is Evidence.MIXED
        if is_password or had is Evidence.RANDOM:
            yield first + text.start("value"), first + text.end("value"), "secret given to a call"
