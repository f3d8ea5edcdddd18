"""Which arguments of calls are secrets, by their place?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from codebase_mcp.secrets.commands import positions_of
from codebase_mcp.secrets.judging import Evidence, evidence, is_chosen, is_phrase
from codebase_mcp.secrets.naming import Span, Text, is_given_password

# Calls with a password, by its place among the arguments, in small letters.
_PASSWORD_AT: dict[int, bytes] = {
    0: b"hashsync generate_password_hash password_hash make_password hashpw hash_password pbkdf2"
    b" pbkdf2sync scryptsync"
    b" setpassword set_password withpassword",
    1: b"setbasicauth httpbasicauth httpdigestauth basicauth basic_auth digest_auth basic login"
    b" networkcredential passwordauthentication usernamepasswordcredentials log_in sign_in signin"
    b" usernamepasswordauthenticationtoken simple_bind_s simple_bind bind_s auth_password"
    b" userauth_password signinwithemailandpassword createuserwithemailandpassword"
    b" usernamepasswordcredential wifi.begin sta.config wlan.connect username_pw_set bind"
    b" pbkdf2_hmac",
    2: b"getconnection mysqli mysqli_connect mysql_connect pdo create_superuser create_user"
    b" imap_open ldap_bind load_cert_chain set_password ftp ftp_tls ftp_login plainauth connect"
    b" createsuperuser",
    3: b"connect",
}
# Calls that decode a text: a key, where the words before say so.
_DECODERS = frozenset(
    b"buffer.from fromhex unhexlify b64decode base64.decode frombase64string hex2bin parsehex"
    b" base64_decode decodestring base64decode atob decodehex".split()
)
_KEY_BEFORE = re.compile(rb"(?<!public)(?<!public[_ ])(?:key|secret)[\w\s:=(.,?]*$")
_HOST = re.compile(rb"\s*[\"'](?:localhost|db|[^\"'\s]*[.:;=/][^\"']*)[\"']")
_PLACES_OF_CALLS: dict[bytes, list[int]] = defaultdict(list)
for _place, _names in _PASSWORD_AT.items():
    for _name in _names.split():
        _PLACES_OF_CALLS[_name].append(_place)
_PLACES_OF_CALLS.update((name, [0]) for name in _DECODERS)
_WORDS_OF_CALLS = {name: frozenset(re.split(rb"[_.]", name)) for name in _PLACES_OF_CALLS}
_ARGUMENT = re.compile(
    rb"""\s*(?:\w{1,12}\.)?(?:b|@)?(?:"(?P<double>(?:\\.|[^"\\\r\n]){0,200})"|'(?P<single>(?:\\.|[^'\\\r\n]){0,200})'"""
    rb"""|(?:[^,()"']|\([^()]{0,80}\)){1,100}+)(?:\.\w{1,20}\(\))?\s*(?P<end>[,)])"""
)
# Calls that take a user and a password, or an id and a key, as texts, by what their names end with.
_OPENED = (
    rb"""(?:s?(?:::|\.)new|s|ion|entication|enticate|\w{0,9}(?<=256|ith)|iv|parser|store|\.encode|\.decode"""
    rb"""|edstring|\w{0,12}slice|\w{0,9}secret)?[ ]?(?:\("""
    rb"""|["']?[ ]?[=:][ ]?[\[(]|[ ](?=["'][^"'\n]{1,60}["'],))"""
)
_LOGINS = frozenset(b"credential auth login basic pdo mysqli".split())
_PAIRS = tuple(
    b"credential auth connect login create_user pgp_sym_encrypt basic pdo mysqli wifi.begin"
    b" sta.config".split()
)
_CALLS = tuple(
    (re.split(rb"[._]", name)[0], re.compile(name + _OPENED), name in _PAIRS)
    for name in (
        *_PAIRS,
        *b"client sign verify hmac serializer crypt cipher cookie fernet jwt environment"
        b" algoliasearch".split(),
    )
)
# Names that are parts of longer words: newCookieStore.
_PARTS = frozenset(
    b"credential auth connect login client sign hmac crypt cipher cookie environment".split()
)
_ARGUMENTS = re.compile(
    rb"""(?:[^;()\[\]"']|"[^"\r\n]{0,200}"|'[^'\r\n]{0,200}'|\([^;()]{0,80}\)|\[[^;\[\]]{0,80}\]){0,300}+"""
)
_TEXT = re.compile(
    rb"""(?:^|[\s,(])(?:(?:\[\])?\w{1,12}\(|b|(?:key|secret)=)?["'](?P<value>[^"'\r\n]{1,200})["'](?!\s*[:=])"""
)
_NAME = re.compile(rb"[a-z0-9_.:]+")
_CAMEL_CASE = re.compile(rb"[a-z][A-Z]")
_ADDRESS = re.compile(rb"[\w.+-]{1,60}@[\w-]{1,60}\.[\w.-]{2,60}")


def find(text: Text) -> Iterator[Span]:
    """The secrets among the arguments of calls."""
    for word, opened, takes_pair in _CALLS:
        if word in text.words or (word in _PARTS and word in text.vocabulary):
            for match in opened.finditer(text.lower):
                is_login = word in _LOGINS
                yield from _of_call(
                    text.data, match.end() - 1, takes_pair=takes_pair, is_login=is_login
                )
    yield from _by_place(text)


def _by_place(text: Text) -> Iterator[Span]:
    """The passwords among the arguments of well-known calls, and the keys that decoders take."""
    for name, places in _PLACES_OF_CALLS.items():
        if _WORDS_OF_CALLS[name] <= text.words:
            for start in positions_of(text.lower, name + b"("):
                if _may_take_secret(text, name, start):
                    yield from _arguments_at(text.data, name, start + len(name) + 1, places)


def _may_take_secret(text: Text, name: bytes, start: int) -> bool:
    """Whether it is a call of this name, with a host if many calls have it, or of a key."""
    if text.lower[start - 1 : start].isalnum():
        return False
    if name in (b"connect", b"bind"):
        return _HOST.match(text.data, start + len(name) + 1) is not None
    return name not in _DECODERS or (
        _KEY_BEFORE.search(text.lower, max(0, start - 80), start) is not None
    )


def _arguments_at(data: bytes, name: bytes, end: int, places: list[int]) -> Iterator[Span]:
    """The secrets at some places among the arguments that begin at ``end``."""
    is_decoder = name in _DECODERS
    for number in range(max(places) + 1):
        argument = _ARGUMENT.match(data, end)
        if argument is None:
            return
        group = "double" if argument["double"] is not None else "single"
        value = argument[group]
        if value and number in places and value[:1] != b"<":
            if is_decoder and evidence(value) is Evidence.RANDOM:
                yield *argument.span(group), "secret given to a call"
            elif not is_decoder and (is_given_password(value) or is_phrase(value)):
                yield *argument.span(group), "password given to a call"
        if argument["end"] == b")":
            return
        end = argument.end()


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
            and (
                is_chosen(value)
                or (takes_words and is_given_password(value) and _CAMEL_CASE.search(value) is None)
            )
        ):
            yield *text.span("value"), "secret given to a call"
