"""Which identifiers does a text name? Words that can only be code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codebase_mcp.context.paths import is_file_name

_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]{1,200})\1(?!`)")

# A qualified name, with what shows that it is a call.
_NAME = re.compile(
    r"(?<![\w/@.-])[^\W\d][\w$]*+(?:(?:\.|::|->|\#)~?[^\W\d][\w$]*+)*+"
    r"(?:[!?]?\((?:\.{2,3})?\)?)?"
)
_QUOTED_NAME = re.compile(r"(?<!\w)['\"`\u2018“]([^\W\d][\w.]{2,60})['\"`\u2019”](?!\w)")
_SINGLE = re.compile(r"[^\W\d][\w$]*+(?:(?:\.|::|->|#|-)~?[\w$]++)*+[!?]?")
_SEPARATOR = re.compile(r"[.#]|::|->")
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*[A-Za-z\d]")
_CONSTANT = re.compile(r"[A-Z][A-Z\d]*(?:_[A-Z\d]+)+|_+[A-Z]+(?:_[A-Z\d]+)*")
_SNAKE = re.compile(r"_*[^\W_A-Z]+(?:_+[^\W_]+)+_*|__\w+__|_+[^\W\d_]\w+")
_CAMEL = re.compile(r"[a-z][a-z\d]*(?:[A-Z][a-z\d]*)+[a-z\d]*|[a-z]+[A-Z]\w*")
_PASCAL = re.compile(
    r"(?:[A-Z]+[a-z\d]+){2,}[A-Z]*|[A-Z][a-z\d]+(?:[A-Z]+[a-z\d]*)+|[A-Z]{2,}[a-z]{2,}\w*"
)

# Words of more than a hump that are not code: products, formats, units.
_NOT_CODE = frozenset(
    """CMake GitHub GitLab JavaScript TypeScript CoffeeScript PostgreSQL MySQL MariaDB SQLite
    MongoDB NoSQL macOS iOS iPadOS iPhone iPad tvOS watchOS MacBook LinkedIn YouTube
    StackOverflow DevOps OpenSSL LibreSSL WebAssembly WebSocket WebSockets NodeJS VSCode PyPI
    LaTeX OpenAPI GraphQL RabbitMQ JetBrains IntelliJ PyCharm WebStorm OpenJDK FreeBSD OpenBSD
    NetBSD DragonFly PowerShell CircleCI TravisCI AppVeyor BitBucket CloudFlare DigitalOcean
    OAuth OpenID URLs APIs IDs PRs CLIs UIs URIs JSONs ARNs eBay WiFi QoS IPv4 IPv6 MHz GHz kHz
    GiB MiB KiB PhD McDonald README ReadMe TODO CHANGELOG FIXME PDFs CPUs GPUs VMs CSVs TLDs
    OSes FAQs README.md ESLint JSLint RuboCop SonarQube SonarCloud CodeQL DevTools ChatGPT
    OpenAI DeepMind WordPress LaTex TeX Co-authored-by ARMv7 ARMv8 FreeType YAMLs BTW""".split()
)
# Words in code spans that every language has; they select nothing.
_KEYWORDS = frozenset(
    """true false null none nil undefined nan self this super if else elif for while return break
    continue class def function func fn let const var val new import from export default try catch
    except finally throw throws raise async await yield public private protected static final void
    int str string bool boolean float double char long short byte object any unknown never list dict
    set map array tuple number type interface struct enum trait impl use mod pub crate package in is
    not and or with as pass del lambda print main master npm yarn pip git make cargo go python
    python3 node ruby java rust php c cpp js ts sudo cd ls a an the i x y n ok yes no on off error
    value key name id data todo end begin do then case switch""".split()
)
# Endings of host names and of products such as Node.js.
_DOMAIN = re.compile(r"com|org|net|dev|edu|gov|co|app|js")
_MAX_NAME = 80


def code_spans(text: str) -> Iterator[str]:
    """The texts between backticks."""
    for match in _SPAN.finditer(text):
        yield match[2].strip()


def names_of_span(span: str) -> Iterator[str]:
    """The identifiers of a code span: itself if it is a single one, else those in it."""
    text = span.strip("~!;:, ").removeprefix("@").removeprefix("$")
    bare = text.removesuffix("()")
    if _SINGLE.fullmatch(bare):
        if bare.lower() not in _KEYWORDS and not is_file_name(bare) and len(bare) > 1:
            yield bare
        return
    yield from names_of_code(text)


def quoted_names(message: str) -> Iterator[str]:
    """The identifiers that a message of a program quotes: "no attribute 'wait'"."""
    for match in _QUOTED_NAME.finditer(message[:1_000]):
        if match[1].lower() not in _KEYWORDS:
            yield match[1]


def names_of_code(text: str) -> Iterator[str]:
    """The identifiers of a piece of code that are no plain words, and its calls."""
    yield from _names(text, "(")


def names_of_prose(text: str) -> Iterator[str]:
    """The words of a sentence that can only be code."""
    yield from _names(text, ")")


def _names(text: str, call: str) -> Iterator[str]:
    """Flags, words that can only be code, and words with the mark of a call behind them."""
    if "--" in text:
        for match in _FLAG.finditer(text):
            yield match[0]
    for match in _NAME.finditer(text):
        name = match[0]
        if name.isalpha() and (name.islower() or name[1:].islower()):
            continue  # a plain word, as most are
        is_call = name.endswith(call)
        name = name.rstrip("().?!").removeprefix("this.").removeprefix("self.")
        if (is_call and len(name) > 2 and name.lower() not in _KEYWORDS) or is_code_word(name):
            yield name


def is_code_word(word: str) -> bool:
    """Whether a word can only be a name of code: snake_case, camelCase, a.b, A::b, TWO_WORDS."""
    if len(word) < 3 or len(word) > _MAX_NAME or word in _NOT_CODE:
        return False
    if _SEPARATOR.search(word):
        return _is_qualified(word)
    return any(pattern.fullmatch(word) for pattern in (_CONSTANT, _SNAKE, _CAMEL, _PASCAL))


def _is_qualified(word: str) -> bool:
    if "::" in word or "->" in word:
        return True
    parts = word.replace("#", ".").split(".")
    if is_file_name(word) or _DOMAIN.fullmatch(parts[-1]) or "" in parts:
        return False
    if all(len(part) < 2 for part in parts) or word.lower() in {"e.g", "i.e", "a.k.a", "vs.net"}:
        return False
    if any(is_code_word(part) for part in parts):
        return True
    # "done.Then" is two sentences, "Session.close" and "os.path" are not.
    starts_sentence = parts[-1][:1].isupper() and parts[0].islower() and len(parts) == 2
    is_member = "#" not in word or word[0].isupper()  # Queue#client
    return not starts_sentence and is_member and min(map(len, parts)) > 1


def unique(names: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first names, each once."""
    kept: dict[str, None] = {}
    for name in names:
        if 1 < len(name) <= _MAX_NAME:
            kept.setdefault(name)
            if len(kept) == limit:
                break
    return tuple(kept)
