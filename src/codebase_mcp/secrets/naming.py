"""The text that all rules read, and which names in it say that their value is a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from codebase_mcp.secrets.judging import PASSWORD_WORDS, Evidence, describes, evidence, is_chosen

_WORD_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789") | frozenset(range(128, 256))
_TEXT_WORDS = bytes(byte if byte in _WORD_LETTERS else ord(" ") for byte in range(256))

Span = tuple[int, int, str]
"""The first byte of a secret, the first after it, and its kind."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in UTF-8.

    ``words`` has each of its words once, in lower case; ``vocabulary`` has the same in a row.
    It ``has_elements`` if it may be XML or HTML.
    """

    data: bytes
    lower: bytes
    words: frozenset[bytes]
    vocabulary: bytes
    has_elements: bool

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The text with these bytes."""
        lower = data.lower()
        words = frozenset(lower.translate(_TEXT_WORDS).split())
        return cls(data, lower, words, b" ".join(words), b"</" in data)


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort of names, and how much evidence their values need.

    ``stated`` is for a place where a value must follow, ``near`` where a value may follow.
    """

    kind: str
    stated: Evidence
    near: Evidence
    shortest: int = 6


PASSWORD = Sort("password", Evidence.WORD, Evidence.MIXED)
PASS = Sort("password", Evidence.MIXED, Evidence.MIXED)
PASSPHRASE = Sort("passphrase", Evidence.WORD, Evidence.MIXED)
CODE = Sort("access code", Evidence.WORD, Evidence.RANDOM, 4)
SECRET = Sort("secret by its name", Evidence.MIXED, Evidence.RANDOM, 8)
KEY = Sort("key by its name", Evidence.RANDOM, Evidence.RANDOM, 16)

# The last words of names, by their meaning. A word may end with them: ``dbpassword``.
_ENDINGS: tuple[tuple[Sort, tuple[bytes, ...]], ...] = (
    (
        PASSWORD,
        (
            *b"password passwd passwort passw passcode passord pwd mdp passe psk".split(),
            *b"bindpw rootpw userpw dbpw adminpw masterauth".split(),
            *PASSWORD_WORDS,
        ),
    ),
    (PASSPHRASE, tuple(b"passphrase mnemonic seedphrase".split())),
    (
        SECRET,
        (
            *b"secret token salt pepper credential accesskey secretkey authkey jwt bearer".split(),
            *b"zugangsdaten geheimnis geheim segreto segreta secreto secreta".split(),
            *b"segredo secrete".split(),
        ),
    ),
    (
        KEY,
        (
            *b"authorization apikey appkey privatekey signingkey encryptionkey accountkey".split(),
            *b"licensekey sharedkey authident seed".split(),
        ),
    ),
)
DIGIT = re.compile(rb"\d")
# A name of several words, as code writes it.
_IN_PARTS = re.compile(rb"[a-z][A-Z]|\w[_.-]\w")
# Words that end with "pass" and are no passwords.
_NO_PASS = re.compile(
    rb"(?:by|com|tres|sur|encom|over|under|sub|render|multi|mini|surrogate|fore|fast|type|pre)s?pass"
)
_EXACT: dict[bytes, Sort] = {
    **dict.fromkeys((b"pass", b"pw", b"requirepass", b"userpass"), PASSWORD),
    **dict.fromkeys((b"pin", b"pincode"), CODE),
    **dict.fromkeys((b"cred", b"creds"), SECRET),
    **dict.fromkeys((b"totp", b"auth", b"sid", b"sessionid", b"phpsessid", b"jsessionid"), KEY),
}
# Which keys and codes are secret; the rest are of caches, tables, countries and the public.
_SECRET_KEYS = frozenset(
    b"api secret access private auth account client master service shared app application storage"
    b" webhook deploy admin jwt hmac aes des consumer encrypt encryption decryption signing sign"
    b" license unseal validation crypt crypto cipher cookie session subscription server rest"
    b" management ssh pgp gpg rsa ecdsa wallet mac security fernet functions function host write"
    b" logged nonce authentication authtoken machine integration ingest sealing seal owner product"
    b" preshared user account feed blowfish hash lockbox recaptcha tls sig token isakmp".split()
)
_SECRET_CODES = frozenset(
    b"unlock access security pairing pin pass door alarm backup recovery".split()
)
# Words that may follow the word that counts, and change nothing.
_NEUTRAL = frozenset(
    b"value val plain plaintext str confirmation confirm prod production dev live staging base"
    b" default b64 base64 hex raw data old new s key1 key2 api primary secondary fallback"
    b" backup main string text".split()
)
# Names of no secrets that end alike: places in a list, tokens of texts, questions.
_HARMLESS = frozenset(
    b"next prev previous page lock request idempotency continuation change public cancel"
    b" cancellation has is show hide require requires allow forgot eos bos pad mask sep cls unk"
    b" special stop start end begin max min num total prompt completion input output marker"
    b" progress fencing cursor resume delta publishable html css design syntax lexer parser"
    b" stream".split()
)
# Facts about a secret: its name, place or public half.
_ABOUT = frozenset(
    b"id ids address arn version digest checksum fingerprint sha sha1 sha256 thumbprint name names"
    b" url uri path file type".split()
)
KEYS_ABROAD = "chiave schluessel schlüssel cle clé llave chave".encode().split()
_WORDS = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z\x80-\xff]+|\d+")

# Where names can be found fast: each has a literal beginning.
_ANCHORS = tuple(
    (stem.encode(), re.compile(stem.encode() + end))
    for stem, end in (
        ("pass", rb"(?:w|o|e\b|phr|cod|s?\b|[^a-z])"),
        *((s, b"") for s in "pwd secret token mnemonic bearer geheim segret".split()),
        *((stem, rb"\b") for stem in ("pw", "psk", "pepper", "mdp", "seed")),
        *((stem, rb"(?![a-z])") for stem in ("salt", "pin", "pincode")),
        ("cred", rb"(?:en|s?(?![a-z]))"),
        ("community", rb"\b"),
        ("signing", rb"\b"),
        # Most codes and keys are refused at once, by the letter before them.
        ("code", rb"(?:(?<=[ksygrmp]code)|(?<=[ksygnrmp][_-]code))(?![a-z])"),
        (
            "key",
            rb"""(?:(?:(?<=[a-z_.:"'-]key)|(?<=(?:pi|ss|et|te|se) key))s?(?![a-z])"""
            rb"""|s(?=["']?[ ]?[:=][ ]?\[["']))""",
        ),
        ("auth", rb"(?:orization|ident)?(?![a-z])"),
        *(("session", rb"(?:_?id)?\b"), ("role", rb"_id")),
    )
)
_FOREIGN_ANCHORS = tuple(
    (word, re.compile(word)) for word in (*PASSWORD_WORDS, *KEYS_ABROAD, b"zugangsdaten")
)
_FOREIGN_WORDS = frozenset(word for word, _ in _FOREIGN_ANCHORS)
# Words of Chinese, Japanese and Korean end without a space.
_WITHOUT_SPACES = tuple(word for word in PASSWORD_WORDS if word >= "\u3000".encode())
_NAME_BYTES = bytes(
    byte for byte in range(256) if byte >= 128 or chr(byte).isalnum() or byte in b"_.-"
)
_LONGEST_NAME = 100
_NAME_END = re.compile(rb"[\w\x80-\xff-]{0,100}")
_SPACED_KEY = re.compile(rb"(?i:(?:api|access|secret|private|license)[ ]|\w{2,20}::?)$")
_PARENT = re.compile(rb"""\w+["']?\s*(?:(?:=>|[:=])\s*[\[{(]|\(\{)\s*["']?$""")


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a text: its first byte, the first byte after it, and the sort of its value."""

    start: int
    end: int
    sort: Sort


def names_in(text: Text) -> Iterator[Name]:
    """The names in a text that say that their value is a secret."""
    data, seen = text.data, set()
    anchors = _ANCHORS
    if not _FOREIGN_WORDS.isdisjoint(text.words) or (
        not data.isascii() and any(word in text.vocabulary for word in _WITHOUT_SPACES)
    ):
        anchors += _FOREIGN_ANCHORS
    for stem, anchor in anchors:
        if stem not in text.vocabulary:
            continue
        for position in anchor.finditer(text.lower):
            anchored = position.start()
            end = _NAME_END.match(data, anchored).end()  # type: ignore[union-attr]
            if stem in _WITHOUT_SPACES:
                end = position.end()
            if end in seen:
                continue
            seen.add(end)
            before = data[max(0, anchored - _LONGEST_NAME) : anchored]
            start = anchored - len(before) + len(before.rstrip(_NAME_BYTES))
            end -= len(data[start:end]) - len(data[start:end].rstrip(b"-."))
            if anchored == start and stem == b"key":
                start = _start_of_parent(data, start)
            if sort := sort_of(data[start:end]):
                yield Name(start, end, sort)


def _start_of_parent(data: bytes, start: int) -> int:
    """Where the name of the object begins in which a member's name begins: crypt = {key: …}."""
    before = data[max(0, start - 40) : start]
    if spaced := _SPACED_KEY.search(before):
        return start - len(before) + spaced.start()
    parent = _PARENT.search(before) if before[-2:].strip(b"\"' ")[-1:] in b"[{(" else None
    return start - len(before) + parent.start() if parent else start


@lru_cache(maxsize=4096)
def sort_of(name: bytes) -> Sort | None:
    """What a name says of its value."""
    words = [word.lower() for word in _WORDS.findall(name[-_LONGEST_NAME:])]
    while words and (words[-1].isdigit() or words[-1] in _NEUTRAL):
        words.pop()
    if not words or not _HARMLESS.isdisjoint(words[-3:-1]):
        return None
    is_constant = (
        words[-1] == b"key" and len(words) > 1 and name.isupper() and name.endswith(b"KEY")
    )  # TILE_KEY
    return _sort_of_words(words) or (KEY if is_constant else _sort_of_qualified(words))


def _sort_of_qualified(words: list[bytes]) -> Sort | None:
    """What a name says whose last word says which of several: API_KEY_STAGING."""
    is_value = len(words) > 1 and words[-1] not in _ABOUT and words[-1] not in _HARMLESS
    return KEY if is_value and _sort_of_words(words[:-1]) else None


def _sort_of_words(words: list[bytes]) -> Sort | None:
    *before, last = words
    if decide := _BY_WHAT_IS_BEFORE.get(last):
        return decide(before)
    if sort := _EXACT.get(last):
        return sort
    if last.endswith(b"pass"):
        return None if _NO_PASS.fullmatch(last) else PASS
    singular = last.removesuffix(b"s")
    return next(
        (sort for sort, ends in _ENDINGS if last.endswith(ends) or singular.endswith(ends)), None
    )


def _sort_of_key(before: list[bytes]) -> Sort | None:
    if before[-1:] == [b"secret"]:
        return SECRET
    if before[-2:] == [b"pre", b"shared"] or before[-1:] == [b"preshared"]:
        return PASSWORD
    is_header = b"x" in before[:2] and len(before) > 1
    return KEY if is_header or not _SECRET_KEYS.isdisjoint(before[-1:]) else None


def _sort_of_id(before: list[bytes]) -> Sort | None:
    """What the name of an id says: some are half of what signs in."""
    is_key = before[-1:] == [b"key"] and before[-2:-1] in ([b"api"], [b"private"], [b"access"])
    is_half = before[-1:] == [b"secret"] or before[-2:] == [b"vault", b"role"]
    return KEY if is_key or is_half else None


_BY_WHAT_IS_BEFORE = {
    **dict.fromkeys(
        KEYS_ABROAD,
        lambda before: PASSWORD if before[-1:] in ([b"parola"], [b"wlan"], [b"wifi"]) else KEY,
    ),
    **dict.fromkeys((b"key", b"keys"), _sort_of_key),
    b"phrase": lambda before: (
        None if {b"pass", b"seed", b"recovery"}.isdisjoint(before[-1:]) else PASSPHRASE
    ),
    b"signing": lambda before: KEY if before else None,
    b"community": lambda before: PASSWORD if before[-1:] == [b"snmp"] else None,
    **dict.fromkeys(
        (b"credential", b"credentials"),
        lambda before: PASSWORD if before[-1:] in ([b"security"], [b"bind"]) else SECRET,
    ),
    b"ident": lambda before: KEY if before[-1:] == [b"auth"] else None,
    **dict.fromkeys(
        (b"code", b"codes"), lambda before: None if _SECRET_CODES.isdisjoint(before[-1:]) else CODE
    ),
    b"session": lambda before: KEY if before else None,
    b"id": _sort_of_id,
}


def names_no_secret(data: bytes, name: Name, lead: bytes) -> bool:
    """Whether it is part of the name of a thing at Amazon, or a call of a method ``pass``."""
    is_call = data.startswith(b".pass(", name.end - 5)
    is_type = lead.endswith(b"::") and b"." not in data[name.start : name.end]
    return b"arn:" in lead[-80:] or is_type or is_call


def is_weak_password(value: bytes, name: Name, *, is_expected: bool) -> bool:
    """Whether a word is a password, and no name of a secret, of a field or the like."""
    if DIGIT.search(value):
        if name.sort.kind == PASSWORD.kind and is_chosen(value):
            return True
    elif _IN_PARTS.search(value) and sort_of(value) is not None:
        return False
    is_label = b" " in value or re.fullmatch(rb"[A-Z][a-z]+|[A-Z_]+|[^\w\x80-\xff].*", value)
    return is_expected and (name.sort is PASSPHRASE or not is_label)


CAPITALIZED = re.compile(rb"[A-Z][a-z\x80-\xff]{5,}")
_LABEL = re.compile(rb"[A-Z_]+|[^\w\x80-\xff#$%&!?*+=@^~].*")


def is_capitalized_password(value: bytes) -> bool:
    """Whether this is a word with a capital that is no label of a field."""
    return (
        CAPITALIZED.fullmatch(value) is not None
        and evidence(value) >= Evidence.WORD
        and sort_of(value) is None
        and not describes(value)
    )


def is_given_password(value: bytes) -> bool:
    """Whether this is a password, be it a single word, where nothing else can stand."""
    return (
        b" " not in value
        and evidence(value) >= Evidence.WORD
        and _LABEL.fullmatch(value) is None
        and sort_of(value) is None
    ) or is_chosen(value)
