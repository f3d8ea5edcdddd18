"""How much does a value look like a secret?

The name and the place say how much evidence they need; this says how much a value has.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise


class Evidence(IntEnum):
    """What a value looks like, from certainly no secret to certainly a secret."""

    NONE = 0
    """A placeholder, an expression, a path, prose, or the name of something."""
    WORD = 1
    """A word: a weak password, or a name."""
    MIXED = 2
    """Letters with digits or signs among them, as people choose passwords."""
    RANDOM = 3
    """As a machine draws keys."""


SHORTEST = 6
_FEWEST_BESIDE_SEQUENCE = 4
_LENGTH_OF_SALTS = 50
_LONGEST_JUDGED = 200
_SPOKEN = re.compile(rb"[a-z]{5}")
_WORDS_OF_WALLETS = re.compile(rb"[a-z]{3,8}(?: [a-z]{3,8}){11,23}")
_SHORTEST_RANDOM = 16

# Words that say that a real value belongs here.
_PLACEHOLDER_WORDS = frozenset(
    b"example changeme placeholder dummy redacted filtered masked your yours insert replace todo"
    b" fixme sample fake mock change hidden removed censored".split()
)
# A value made of these alone is no secret either.
_EMPTY_WORDS = frozenset(
    b"test tests testing user username users pass pw passwd password passwords passphrase pwd"
    b" secret secrets token tokens my foo bar baz qux admin root some super top default the a"
    b" an of api auth bot key keys word wd me in to new old is not no none null nil true false"
    b" undefined this that here value val string str text name id access refresh client app"
    b" private public login session bearer basic hash salt code demo guest local dev prod db"
    b" database server host service invalid valid wrong bad good correct incorrect required"
    b" optional missing empty blank unknown confirm confirmation current reset and or on off"
    b" for with from hello world data shared file authorization authentication header cookie"
    b" csrf jwt oauth hmac aes rsa encryption encrypted signing license master account webhook"
    b" config setting settings env var variable input anonymous community".split()
)
_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Well-known words with digits: the rest of a value counts.
_TECHNICAL = re.compile(
    rb"[a-z]+\d*-hmac-sha\d+|sha-?\d+|md[45]|utf-?(?:8|16|32)|base-?(?:16|32|36|58|64)|b64|s3|ec2"
    rb"|oauth-?[12]|k8s|i18n"
    rb"|l10n|x509|pbkdf2?|argon2(?:id|i|d)?|http[23s]|ipv[46]|u?int\d+|\b[iuf](?:8|16|32|64)\b"
    rb"|p12|pkcs\d+|aes-?\d+|ed25519|curve25519|x25519|log4j|h2|win32|x86|x64|amd64|p2p|b2b|e2e"
    rb"|\b[vrn]\d+\b|sql92|latin1|iso\d+|rfc[ ]?\d+|es\d+|p-?256|hs\d{3}|rs\d{3}|ps\d{3}",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    rb"\$\{|\$\(|\{\{|\{%|<%|#\{|%\(|\$\[\[|\*\*\*|xxxx|(?-i:EXAMPLE)|\.\.\.$|^\.\.\.|\xe2\x80\xa6|^op://"
    rb"|\{_?[a-z]+(?:[_.][a-z]+)*(?:![rsa])?\}|(?-i:%[sdvqx@])(?![a-z])|%\w+\[|(?-i:%[A-Z_]{4,})"
    rb"|(?-i:A-Za|a-zA|(?<![A-Za-z])[aA]-[fzFZ](?![A-Za-z]))|(?<!\d)0-9(?!\d)|\[\^"
    rb"|\\[dws](?:[+*{\])]|$)"  # regular expressions
    rb"|^<[\w ./:-]*>?$|^\[[A-Z_ -]+\]$|^%\w+%$|^%\d$|^\$\d$|^\$+[A-Za-z_]\w*$|^\$env:"
    rb"|^[:@!]{1,2}[A-Za-z_]+$|^!(?:Ref|Sub|GetAtt|vault|secret)",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(
    rb"abcdef[a-z]*|0?1234567?8?9?0?|9876543210?|(.)\1{3,}|qwertyuiop|asdfgh|deadbeef|cafebabe"
    rb"|(?:0123|4567|89ab|cdef){2,}|(..)\2{3,}",
    re.IGNORECASE,
)
# Names as languages write them, alone or joined by dots and the like.
_EXAMPLES = re.compile(rb"(?i:example|changeme|placeholder|dummy|redacted|your|insert|xxxx|\*\*\*)")
_PART = (
    rb"_*(?:[a-z]+(?:[_-][a-z]+)+[_-]\d+|[a-z]+(?:[_-][a-z]+)*|[A-Z]+(?:_[A-Z]+)*"
    rb"|[a-z]+(?:[A-Z][a-z]*)+|[A-Z]{0,5}(?:[A-Z][a-z]+)+[A-Z]{0,3})\d?_*"
)
_IDENTIFIER = re.compile(
    rb"[$@&*!]?%s(?:(?:\.|::|->|/|:|\?\.|!\.|\\)%s)*(?:[?*.]|(?<!\d)!)?" % (_PART, _PART)
)
# Letters with digits within, be the rest as it may; but no format, variable, call or index.
_ODD = re.compile(
    rb"(?=.*[a-zA-Z]\d+[a-zA-Z])(?=.*[A-Z])(?=.*[a-z])(?!.*(?:\$[{(]|%\(|\{\{?[ ]|\{\w+[.\[]))"
    rb"(?!\w+[.(\[]\w*[(\[]|<[^>]*>|\\)[^\s,;]{8,60}(?<![)\]>}])"
)
_OF_CODE = re.compile(rb"[\s(){},;<>]")
# Letters, digits, and capitals or signs among them.
_STRONG = re.compile(
    rb"(?=[^a-zA-Z]*[a-zA-Z])(?=[^\d]*\d)(?=[^A-Z!#$%&*+?^@~-]*[A-Z!#$%&*+?^@~-])"
    rb"[^\s/\\(){}<>\"'`]{8,40}"
)
_MEMBER = re.compile(rb"[a-z_/]*#[a-z_]+[?!]?")
# Words joined by a dot or the like, and a digit: rather chosen than a name, where it is a text.
_CHOSEN = re.compile(
    rb"(?=.*[A-Z])(?=.*[a-z])[A-Za-z]+(?:[._:-][A-Za-z]+)+_?\d|[A-Za-z]{6,}\d[!?*]"
)
_NUMBERED = re.compile(rb"[A-Za-z]+(?:[._-][A-Za-z]+)*[._-]?\d+[!?*]?")
_NUMBER = re.compile(
    rb"[-+]?(?:0x[0-9a-f]{1,16}|[\d_.,:/-]+(?:e[-+]?\d+)?)(?:px|r?em|[mun]?s|[hdwnluf%]|[kmg]i?b?)?",
    re.IGNORECASE,
)
_FILE = re.compile(
    rb"(?:[\w@.+-]*[/\\])*[\w@+-]+(?:\.[a-z]\w{0,9})?\.(?:pem|key|crt|cer|txt|json|ya?ml|toml"
    rb"|[jt]sx?|py|rb|go|java|cs|php|[ch]|md|html?|xml|log|conf|ini|env|enc|csv|sql|sh|gz|zip|pdf"
    rb"|png|jpe?g|svg)|[\w.-]+:\d{2,5}|\w+://.*|(?:[\w-]+:)?(?:arn|urn):.*|data:[a-z]+/.*",
    re.IGNORECASE,
)
_PATH = re.compile(
    rb"(?:\.{1,2}|~)/[\w./-]*$|/(?:etc|run|var|usr|home|opt|tmp|srv|dev|proc|root|api|v\d)(?:/|$)"
    rb"|[A-Za-z]:\\|\d{2,5}/|.+/\d{8}/|/?[a-z_-]+(?:/[a-z_:-]+)+/?$",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(
    rb"^[\"'`]|^\\&|^[?:,]\w(?:\D*$|\w*[.(\[])|^[\w.:>$@&*!-]+\(|^[\w.$>-]+\[|\)$|=>|->\w|&&|\|\||::\w+|===|^//|/\*"
    rb"|^(?:new|await) |^lambda|^\w+ [?=] |[\w)] (?:==|[+*/<>-]) [\w(]|[\w\])]\.\w+\("
    rb"|\w\[[\w\"':]*\]|^(?:function|return|if|def|fn)\b|^[a-z_]+=[A-Za-z_.]*$|^[\[({][^\w]*$"
    rb"|^/.*/[gimsuy]*$|\.[+*][?)]?|\(\?|;\s*$"
)
_CALL = re.compile(rb"[\w.$>:?!-]+[(\[].*[)\]]+[;,?!]*")
# Words of sentences, in which no password is written.
_SENTENCE = re.compile(
    rb"(?:^|\s)(?:is|are|was|be|been|must|should|can|can't|cannot|will|not|don't|doesn't|the|an?|of"
    rb"|to|for|with|from|your|you|has|have|when|at|by|or|and|if|that|this|in|enter|please|must|use"
    rb"|der|die|das|ist|nicht|ein|eine|und|oder|de|du|des|la|le|les|el|los|su|una?|il|di|per|het"
    rb"|een|van|uw|ihr|votre|tu|vous|sie|wrong|invalid|missing|required|forgot|forgotten|changed"
    rb"|change|confirm|new|current|old|password|passwort|passphrase|token|secret|key|user|field"
    rb"|expired|incorrect|unless|only|no|as|on|it|we|set|get|used|read|string)(?:[\s.,:;!?]|$)",
    re.IGNORECASE,
)
_PHRASE = re.compile(rb"[\w\x80-\xff][\w\x80-\xff,&!'+-]*(?: [\w\x80-\xff,&!?'+-]+){1,9}[.]?")
# Words of sentences about secrets, and of messages to a person at the keyboard.
_ABOUT_SECRETS = re.compile(
    rb"(?i:pass|secret|token|kennwor|wachtwoor|contrase|senha|clave|character|zeichen|eingeben"
    rb"|vergessen|forgot|repeat|again|invalid|required|missing|confirm|\b(?:pwd|key|user|login|enter"
    rb"|your|please|ihr|must|read|from|if|is|are|the|too|short|long|weak|strong|least|empty"
    rb"|cannot|can't|type|match|reset|show|hide|new|old|not|no|for|of|with|error|failed|field|value|return|raise|true|false|none)\b)"
)
_BYTES = re.compile(rb"(?:\\x[0-9a-fA-F]{2}){8,}")
_FOUR_BY_FOUR = re.compile(rb"[a-z]{4}(?: [a-z]{4}){3}")
_ESCAPE = re.compile(rb"\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|&\w+;|%[0-9A-F]{2}|\\[nrt]|\$\$")
_CHANGE_OF_CASE = re.compile(rb"[a-z](?=[A-Z])|[A-Z](?=[a-z])")
_ODD_CHANGES = 4
# The words of a name in code are longer.
_LENGTH_OF_ODD_CASE = 8
_SHORTEST_PART = 2.1
_VOWEL = re.compile(rb"[aeiouAEIOU\d]")
# A word has more vowels; digits count as such, as they are judged by themselves.
_FEWEST_VOWELS = 0.27
_LEAST_ENTROPY = 3.2
_SIGN = re.compile(rb"[^\w\s./:\x80-\xff-]")


# Words for "password" in many languages: names of secrets, and as values the labels of a form.
PASSWORD_WORDS = (
    "kennwort wachtwoord contraseña contrasena clave palavrapasse haslo hasło senha heslo parola"
    " lösenord losenord adgangskode salasana jelszo lozinka parool geslo zaporka sifre şifre"
    " motdepasse jelszó hemlighet kodeord heslá parolă sandi slaptažodis κωδικός"
    " пароль Пароль ПАРОЛЬ 密码 パスワード 비밀번호"
).encode().split()  # fmt: skip

# What passwords and fields are said to be.
_SAID_OF_PASSWORDS = frozenset(
    b"required optional string number boolean unknown hidden encrypted object buffer secure unsafe"
    b" unused visible correct falsch richtig erforderlich abgelaufen leer sicher notwendig"
    b" something anything nothing whatever whether already always never either neither really"
    b" provided generated default mandatory forbidden deprecated ignored needed strong weaker"
    b" plaintext cleartext unchanged somewhere written sensitive verboten obligatoire requis"
    b" incorrecte correcte valide invalide faible expirado opcional obligatoria obligatorio"
    b" requerida requerido debole scaduta errata sbagliata obbligatoria verplicht onjuist"
    b" prompt prompts option options argument arguments parameter parameters setting settings"
    b" instead because before after during without within between through entered equals exactly"
    b" manager managers policy policies protection protected changes prevent continue improve"
    b" ensure regain secret requires needs takes means sets gives varchar integer nullable".split()
)
_DESCRIBES = re.compile(
    (
        r"(?i:[\w-]*(?:ed|able|ible|only|less|free|ive|ing|like|é|ée|ados?|adas?|idos?|idas?"
        r"|at[oa]|it[oa]|ut[oa])|(?:non?|un|pre|auto|self|user|read|write|in)-.*)"
    ).encode()
)


def describes(value: bytes) -> bool:
    """Whether a word says how a password is, or what to do with it."""
    return value.lower() in _SAID_OF_PASSWORDS or _DESCRIBES.fullmatch(value) is not None


def is_placeholder(value: bytes) -> bool:
    """Whether a value stands for a secret that is kept elsewhere."""
    value = value[:_LONGEST_JUDGED]
    if len(value) < SHORTEST or _TEMPLATE.search(value):
        return True
    if value.decode(errors="replace").lower().encode() in PASSWORD_WORDS:
        return True  # a label in another language
    rest = _SEQUENCE.sub(b"", value)
    if len(rest) < len(value) and (len(rest) < _FEWEST_BESIDE_SEQUENCE or rest.isalpha()):
        rest_words = {word.lower() for word in _WORD.findall(rest)}
        if len(rest) < _FEWEST_BESIDE_SEQUENCE or _EMPTY_WORDS.issuperset(rest_words):
            return True
    words = [word.lower() for word in _WORD.findall(value)]
    if not _PLACEHOLDER_WORDS.isdisjoint(words):
        return True
    letters = sum(map(len, words))
    others = len(re.sub(rb"[\s_.:/@-]", b"", value)) - letters
    return bool(words) and others < 4 and _EMPTY_WORDS.issuperset(words)


def is_chosen(value: bytes) -> bool:
    """Whether a value may be a password where a command or a call takes a password."""
    had = evidence(value)
    is_numbered = had is Evidence.WORD and _NUMBERED.fullmatch(value) is not None
    return had >= Evidence.MIXED or (is_numbered and _TECHNICAL.search(value) is None)


def is_odd(value: bytes) -> bool:
    """Whether a text in quotes is a password although it may look like code or a placeholder."""
    return _ODD.fullmatch(value) is not None and not _EXAMPLES.search(value)


def is_strong(value: bytes) -> bool:
    """Whether a value can be nothing but a password or a key, wherever it stands."""
    if _OF_CODE.search(value):
        return False
    had = evidence(value)
    return had is Evidence.RANDOM or (
        had is Evidence.MIXED and _STRONG.fullmatch(value) is not None
    )


def is_phrase(value: bytes) -> bool:
    """Whether words may be a passphrase, where nothing but a value can stand."""
    return (
        _PHRASE.fullmatch(value) is not None
        and not is_placeholder(value)
        and _ABOUT_SECRETS.search(value) is None
    )


def evidence(value: bytes, *, is_literal: bool = True) -> Evidence:
    """What a value looks like. Without ``is_literal`` it may be the name of a variable.

    A long value is judged by its beginning.
    """
    return _evidence(value[:_LONGEST_JUDGED], is_literal=is_literal)


# Each value is judged several times, for each place that it may stand in.
@lru_cache(maxsize=256)
def _evidence(value: bytes, *, is_literal: bool) -> Evidence:
    if is_placeholder(value) or _FILE.fullmatch(value):
        return Evidence.NONE
    if _BYTES.fullmatch(value):
        return Evidence.RANDOM
    if value[:1] + value[-1:] in (b"{}", b"[]"):
        value = value[1:-1]
    if b" " in value or b"\t" in value:
        is_long = len(value) >= _LENGTH_OF_SALTS and not _SPOKEN.search(value)
        is_salt = is_long and _is_random_with_signs(value)
        return Evidence.RANDOM if is_salt else _of_words(value)
    # A text may hold the signs of an expression; code may look random for its signs.
    is_call = _CALL.fullmatch(value) is not None
    is_random = _is_random(value) or (is_literal and _is_random_with_signs(value))
    if is_call or (not is_random and _is_code(value)):
        return Evidence.NONE
    if is_random or _is_random_with_signs(value):
        return Evidence.RANDOM
    return _of_one_word(value, is_literal=is_literal)


def _is_code(value: bytes) -> bool:
    """Whether a value is an expression, a path, or the name of a member."""
    is_expression = _EXPRESSION.search(value) is not None
    return is_expression or bool(_PATH.match(value) or _MEMBER.fullmatch(value))


def _of_one_word(value: bytes, *, is_literal: bool) -> Evidence:
    """The evidence of a value without spaces that is neither random nor code."""
    if _NUMBER.fullmatch(value):
        return Evidence.WORD if value.isdigit() else Evidence.NONE
    if _IDENTIFIER.fullmatch(value):
        if len(value) >= _LENGTH_OF_ODD_CASE and (
            len(_CHANGE_OF_CASE.findall(value)) * _SHORTEST_PART > len(value)
        ):
            return Evidence.MIXED
        is_chosen = is_literal and _CHOSEN.fullmatch(value) and not _TECHNICAL.search(value)
        return Evidence.MIXED if is_chosen else Evidence.WORD
    plain = _TECHNICAL.sub(b"", _ESCAPE.sub(b"!", value))
    if not re.search(rb"[A-Za-z\x80-\xff]", plain):
        return Evidence.NONE
    has_sign = _SIGN.search(plain) is not None
    is_odd = len(_CHANGE_OF_CASE.findall(plain)) >= _ODD_CHANGES
    if re.search(rb"\d", plain) or is_odd or (has_sign and is_literal):
        return Evidence.MIXED
    return Evidence.WORD if is_literal else Evidence.NONE


def _of_words(value: bytes) -> Evidence:
    """The evidence of a value with spaces: a passphrase, or a sentence."""
    if _WORDS_OF_WALLETS.fullmatch(value):
        return Evidence.MIXED
    if _SENTENCE.search(value) or _EXPRESSION.search(value) or len(value) > 100:
        return Evidence.NONE
    if _FOUR_BY_FOUR.fullmatch(value):
        return Evidence.MIXED
    words = value.split()
    if len(words) > 8 or re.search(rb"[.,:;?!)]$|[=<>|(){}\"]|, |: ", value):
        return Evidence.NONE
    plain = _TECHNICAL.sub(b"", value)
    if re.search(rb"[A-Za-z]", plain) and re.search(rb"\d", plain):
        return Evidence.MIXED
    return Evidence.WORD if len(words) >= 3 or not value[:1].isupper() else Evidence.NONE


def _is_random(value: bytes) -> bool:
    """Whether a value looks random: letters and digits change often, few repeat."""
    if len(value) < _SHORTEST_RANDOM or not re.fullmatch(rb"[\w+/=.~:%-]+", value):
        return False
    if (
        value.isalnum()
        and len(_VOWEL.findall(value)) < len(value) * _FEWEST_VOWELS
        and (not value.isdigit() and _entropy(value) > _LEAST_ENTROPY)
    ):
        return True
    if _IDENTIFIER.fullmatch(value) or value.count(b"%") > len(value) / 8:
        return False
    text = re.sub(rb"[^A-Za-z0-9]", b"", _TECHNICAL.sub(b"", value)).decode()
    if len(text) < _SHORTEST_RANDOM // 2:
        return False
    kinds = _entropy(value)
    to_digits = sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))
    to_others = sum(_class(a) != _class(b) for a, b in pairwise(text))
    share = 0.36 if len(text) >= 24 else 0.45
    return (to_digits >= 4 and kinds >= 3.2) or (to_others >= len(text) * share and kinds >= 3.8)


def _is_random_with_signs(value: bytes) -> bool:
    """Whether a value is a long mixture of letters, digits and many signs."""
    if not 20 <= len(value) <= 200:
        return False
    signs = len(_SIGN.findall(value))
    kinds = len({_class(character) for character in value.decode("latin-1")})
    has_digit = any(character.isdigit() for character in value.decode("latin-1"))
    return (
        has_digit
        and kinds >= 2
        and len(value) / 8 <= signs
        and len(set(value)) >= len(value) * 0.55
    )


def _class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.isupper() else 2


def _entropy(value: bytes) -> float:
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
