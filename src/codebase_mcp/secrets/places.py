"""Where does the value of a name stand?

``patterns`` has the table of places, each of which begins where the name ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from codebase_mcp.secrets import naming, patterns
from codebase_mcp.secrets.judging import (
    Evidence,
    evidence,
    is_chosen,
    is_odd,
    is_phrase,
    is_placeholder,
    is_strong,
)
from codebase_mcp.secrets.sentences import (
    END_OF_LINE,
    is_joined,
    is_label,
    is_option_value,
    is_said,
    is_text,
)

_DISPATCH = re.compile(rb"""(?:\.value)?(?:\\*["'`]|&quot;|\\u0022|%22|[\])}]){0,4}[ \t]*""")
_SHORT_NAME = 8
_WORDS = re.compile(rb"[a-z\x80-\xff]+(?: [a-z\x80-\xff]+){2,}")
# Where more names stand they have no values; a text made of names would take seconds.
_BLOCK = 1024
_MOST_IN_BLOCK = 48
# Of a text with more names than people write.
_MANY = 4000
_FEW_IN_BLOCK = 12
_FEW_BETWEEN = 24
_FEW_BEFORE = 60
_LONGEST_LEAD = 200
_LONG_WITHOUT_DIGIT = 16
# A value before its name: {"value": "…", "key": "PASSWORD"}
_BEFORE = re.compile(
    rb"""(?i:(?P<value>\bvalue["']?\s*[:=]\s*)?)["'](?P<quoted>[^"'\r\n]{6,500})["']"""
    rb"""(?i:,?\s*["']?(?:name|\w{0,9}key|alias)["']?\s*[:=]\s*["']?|,\s*\w{3,9}:\s*["']"""
    rb"""|\s+where\s+\w+\s*=\s*["']|,\s*)$"""
)
# "…" // token
_COMMENTED = re.compile(
    rb"""["'](?P<quoted>[^"'\r\n]{8,200})["'][;,)\]]{0,4}[ \t]*(?://|#|--)[^"'\r\n]{0,40}$"""
)
# Who signs in, before the password: user:…   user / …
_USER = re.compile(rb"[\w.@%+-]{1,40}(?::|[ ]?/[ ]?)(?=[^\s:/]{6,100}$)")
# A value directly after the name, as shells and commands have it.
_TIGHT = re.compile(rb"=[^\s=]")
_ESCAPED_QUOTE = re.compile(rb"\\+[\"'/]|\"\"|''|&quot;")
_HEX_BYTES = re.compile(rb"[^;{}=]{0,40}=\s*\{\s*(?P<hex>(?:0x[0-9a-fA-F]{2}[,\s]*){8,})\}")
# The text on a line before the name of a setting.
_SETTING = re.compile(
    rb"""[ \t]*(?:[-*#;$]?[ \t]*(?:(?:export|set|env|setx|declare|arg)[ \t]+(?:-\w+[ \t]+)?)?"""
    rb"""|[\w.$-]+:)["']?[:$%{]{0,2}""",
    re.IGNORECASE,
)
# Before a name that is given a value.
_DEFINED = re.compile(rb"""(?:define[( ]["' ]{0,2}|^\s*@|^\s*set(?:[ ]-\w+)*[ ])$""")
# Names that are words of the language too: "pass `x` to it".
_WORDS_OF_CODE = frozenset((b"pass", b"passes", b"auth", b"bearer"))
_CODE = re.compile(rb"\d{4,12}|(?=\w*\d)\w{6,20}")
_OF_TEXTS = re.compile(rb"[\s\\,(){}<>=]")
# Before the name of an argument: ?a=b&   -o user=a,
_QUERY = re.compile(
    rb"[?&;][\w.-]*$| (?:-o|cifs|smb3|fuse) [^\s()]*,[\w.-]*$|\w=[^\s(),\"']+ $"
    rb"| (?:-e|--env|--set|--from-literal)[ =][\"']?[\w.-]*$"
)
# ENV NAME value
_ENV = frozenset((b"env", b"setenv", b"param"))
_VARIABLE_OF_IMAGE = re.compile(rb"\s*(?:ENV|setenv|SetEnv|\w{3,7}_param)[ \t]+\w*")
# env('NAME', '…')
_ENVIRONMENT = re.compile(rb"(?:env\w*(?:\.\w+)?|define)[(\[]\s*[\"']\w*$", re.IGNORECASE)
# The settings beside the password of a connection.
_CONNECTION = re.compile(
    rb"(?i:\b(?:host|hostname|port|server|database|dbname|url|pool|driver|adapter|ssid)\b[\"']?(?:\s*[:=>]|\s+value=)"
    rb"|\b(?:user|username|login|uid)[\"']?\s*[:=>]\s*[\"']?[\w.@-]+[\"']?\s*[,;\r\n}<])"
)
# Names of no field that is shown, and what follows a name in code.
_NEVER_SHOWN = frozenset(b"psk pwd pw passwd pgpassword".split())
_ASSIGNED = re.compile(rb"[\"'\])]{0,3}[ ]?=[ ]?[\"']")
_USER_BEFORE = re.compile(
    rb"(?i:\b(?:user|username|login|host|machine|benutzer))[ \t]+\S+"
    rb"(?:[ \t]*\r?\n[ \t*#;/-]*|[ \t]+)$"
)


def find(text: naming.Text, names: Iterable[naming.Name]) -> Iterator[naming.Span]:
    """The secrets in a text that follow a name, by place."""
    of_block = Counter[int]()
    seen = 0
    for name in sorted(names, key=lambda name: name.start):
        block = name.start // _BLOCK
        of_block[block] += 1
        if of_block[block] <= (_MOST_IN_BLOCK if seen < _MANY else _FEW_IN_BLOCK):
            seen += 1
            yield from _values_of(text, name)


class _Context:
    """The text around a name, which decides whether its value is a secret."""

    def __init__(self, text: naming.Text, name: naming.Name) -> None:
        data = self.data = text.data
        self.text, self.name = text, name
        first = max(0, name.start - _LONGEST_LEAD)
        line = data.rfind(b"\n", first, name.start) + 1
        self.lead = data[max(line, first) : name.start]
        self.its_name = data[name.start : name.end]
        self.follows = data[name.end : name.end + 1]
        self.is_option = (self.its_name[:1] == b"-" and self.follows in (b"=", b" ")) or (
            self.follows == b":" and self.lead.endswith(b" /")
        )
        self.is_argument = self.is_option or (
            self.follows == b"=" and _QUERY.search(self.lead[-100:]) is not None
        )

    @cached_property
    def is_setting(self) -> bool:
        """Whether its line is for the name alone."""
        return _SETTING.fullmatch(self.lead) is not None

    @cached_property
    def is_connection(self) -> bool:
        """Whether a user or a server stands beside it."""
        start, end = max(0, self.name.start - 200), self.name.end + 200
        return _CONNECTION.search(self.data, start, end) is not None

    def is_secret(self, slot: patterns.Slot, match: re.Match[bytes], group: str) -> bool:
        """Whether what a place holds is a secret."""
        value = match[group]
        if group == "quoted":
            value = _ESCAPED_QUOTE.sub(b"'", value)
        if len(self.its_name) > _SHORT_NAME and self.its_name.lower() in value.lower():
            return False  # a constant or the like, which is or holds its name
        is_given = self._is_given(slot, match, group)
        names_user = slot is patterns.IN_PROSE and self.name.sort is naming.SECRET
        if (is_given and naming.is_given_password(value)) or (
            names_user and _is_user_and_password(value)
        ):
            return True
        is_far = slot is patterns.FURTHER_ON and (
            match["other"] is not None or match.start(group) - self.name.end > _FEW_BETWEEN
        )
        is_weak = slot.is_strong and not _is_strong(value, self.name, is_far=is_far)
        if is_weak and not is_given:
            return False
        is_literal = self._is_literal(slot, match, group)
        is_stated = self._is_stated(slot, match, group, is_literal=is_literal)
        if _is_secret(value, self.name, is_stated, is_literal):
            return True
        if b" " in value:
            may_be_phrase = is_given or self._may_be_phrase(slot, group, value)
            return may_be_phrase and is_phrase(value) and naming.sort_of(value) is None
        is_assigned = is_stated and is_literal and self.name.sort is naming.PASSWORD
        return is_assigned and (
            (group == "quoted" and is_odd(value))
            or (
                naming.is_capitalized_password(value)
                and not is_label(self.data, self.name.start, match.end())
            )
        )

    def _is_given(self, slot: patterns.Slot, match: re.Match[bytes], group: str) -> bool:
        """Whether nothing but a password can stand there, be it a single word."""
        if self.name.sort.kind not in (naming.PASSWORD.kind, naming.PASSPHRASE.kind):
            return False
        if slot is patterns.IN_PROSE:
            return self.name.sort is not naming.PASS and is_said(self.lead, match)
        if slot in patterns.SPACED and group == "bare" and not is_option_value(self.lead, match):
            return False
        if self.is_option and (slot in patterns.SPACED or slot is patterns.BARE):
            return True
        if slot is patterns.BARE and not _TIGHT.match(self.data, self.name.end):
            return False
        start = max(0, self.name.start - _LONGEST_LEAD)
        return (
            slot.given_after is not None
            and slot.given_after.search(self.data[start : self.name.end]) is not None
        )

    def _is_literal(self, slot: patterns.Slot, match: re.Match[bytes], group: str) -> bool:
        """Whether a value is the text itself, and not the name of a variable."""
        value = match[group]
        if self.its_name == b"PIN" and self.is_setting:
            return True
        if slot is patterns.WITHIN[1] and self.name.sort.kind == naming.PASSWORD.kind:
            return is_joined(value) and naming.sort_of(value) is None
        return not slot.is_mixed and (
            group not in ("bare", "line")
            or slot.is_literal
            or self.is_argument
            or b" " in value
            or (self.is_setting and is_text(self.data, self.name, value, match.end()))
        )

    def _is_stated(
        self, slot: patterns.Slot, match: re.Match[bytes], group: str, *, is_literal: bool
    ) -> bool:
        """Whether a value must stand there."""
        return bool(
            slot.is_stated
            or _DEFINED.search(self.lead[-40:])
            or (self.is_argument and (self.follows == b"=" or group != "bare"))
            or (
                self.is_setting
                and is_literal
                and self.follows in b" \t"
                and END_OF_LINE.match(self.data, match.end())
            )
        )

    def _may_be_phrase(self, slot: patterns.Slot, group: str, value: bytes) -> bool:
        """Whether words may be a secret: in code, among settings of a connection, by default.

        Elsewhere they are rather a text that is shown beside a field.
        """
        if self.is_option or slot is patterns.REST:
            return True
        kind = self.name.sort.kind
        if _ENVIRONMENT.search(self.lead[-40:]):
            return kind in (naming.PASSWORD.kind, naming.SECRET.kind)
        if slot.is_stated and group == "quoted":
            name = self.its_name.lower()
            if b"phrase" in name or (name.endswith(b"secret") and _WORDS.fullmatch(value)):
                return True
        if not slot.is_stated or kind != naming.PASSWORD.kind:
            return False
        if self.its_name.isupper() or self.lead.endswith(b"<") or _QUERY.search(self.lead[-100:]):
            return True
        is_shown = self.its_name not in _NEVER_SHOWN and not _ASSIGNED.match(
            self.data, self.name.end
        )
        return (group == "quoted" and not is_shown) or self.is_connection


def _values_of(text: naming.Text, name: naming.Name) -> Iterator[naming.Span]:
    context = _Context(text, name)
    if naming.names_no_secret(text.data, name, context.lead):
        return
    for slot, start in _slots_after(context):
        if slot.only_setting and not context.is_setting:
            continue
        match = slot.pattern.match(text.data, start)
        if match is None:
            continue
        group = next(
            group for group in patterns.VALUE_GROUPS if match.groupdict().get(group) is not None
        )
        if context.is_secret(slot, match, group):
            yield *match.span(group), name.sort.kind
            if group == "quoted":
                yield from _further(text.data, match.end(), name)
    yield from _values_before(text, name)
    if context.follows in b"[ =" and (match := _HEX_BYTES.match(text.data, name.end)):
        yield *match.span("hex"), name.sort.kind


def _slots_after(context: _Context) -> Iterator[tuple[patterns.Slot, int]]:
    """The places that may follow a name, by the first sign after it, and where they begin."""
    text, name, data = context.text, context.name, context.data
    end = _DISPATCH.match(data, name.end).end()  # type: ignore[union-attr]
    sign = data[end : end + 1]
    is_spaced = data[end - 1 : end] in (b" ", b"\t")
    is_word = (
        context.its_name.lower() in _WORDS_OF_CODE and data[name.start - 1 : name.start] != b"<"
    )
    for slot in patterns.BY_SIGN.get(sign, ()):
        yield slot, name.end
    if is_spaced:
        is_word = (
            is_word
            and not context.is_option
            and not _USER_BEFORE.search(data, max(0, name.start - 100), name.start)
        )
        if not _ENV.isdisjoint(text.words) and _VARIABLE_OF_IMAGE.fullmatch(context.lead):
            yield patterns.REST, name.end
        for slot in () if is_word else patterns.SPACED:
            if not slot.begins or sign in slot.begins:
                yield slot, name.end
    if is_word and sign not in (b"=", b":"):
        return
    yield patterns.FURTHER_ON, name.end
    if sign in b"*`:i=>|(f" or sign >= b"\x80" or data[end - 1 : end] in (b" ", b"`"):
        yield patterns.IN_PROSE, name.end
    yield from _slots_of_marks(text, name)
    for word in () if patterns.VALUE_WORDS.isdisjoint(text.words) else patterns.VALUE_WORDS:
        match = text.lower.find(word, name.end, name.end + patterns.LONGEST_WITHIN)
        if match >= 0 and patterns.GAP.fullmatch(data, name.end, match):
            yield from ((slot, match) for slot in patterns.WITHIN)


def _slots_of_marks(text: naming.Text, name: naming.Name) -> Iterator[tuple[patterns.Slot, int]]:
    """The places behind a question mark or the end of an element."""
    data = text.data
    if data.find(b"?", name.end, name.end + 60) >= 0:
        yield patterns.ANSWER, name.end
    if data[name.end : name.end + 2] == b"</":
        yield patterns.NEXT_ELEMENT, name.end
    closed = data.find(b">", name.end, name.end + 90) if text.has_elements else -1
    if closed >= 0 and data.find(b"</", closed, closed + 2200) >= 0:
        yield patterns.ELEMENT, name.end


def _is_strong(value: bytes, name: naming.Name, *, is_far: bool = True) -> bool:
    """Whether a value can be nothing but a secret, although its place says little."""
    if len(value) < _LONG_WITHOUT_DIGIT and naming.DIGIT.search(value) is None:
        return False
    if name.sort.kind == naming.PASSWORD.kind:
        is_near = not is_far and naming.DIGIT.search(value) and not _OF_TEXTS.search(value)
        return is_strong(value) or (bool(is_near) and is_chosen(value))
    is_secret = name.sort is naming.SECRET and not is_far
    return is_strong(value) and (is_secret or evidence(value) is Evidence.RANDOM)


def _values_before(text: naming.Text, name: naming.Name) -> Iterator[naming.Span]:
    first = max(name.start - 300, 0)
    before = text.data[first : name.start]
    is_last = before.rstrip(b" ").endswith((b'"', b"'", b":", b"=", b","))
    tail = before[-_FEW_BEFORE:]
    if b'"' not in tail and b"'" not in tail:
        return
    match = _BEFORE.search(before) if is_last else None
    is_stated = match is not None and match["value"] is not None
    if match is None and any(mark in tail for mark in (b"//", b"#", b"--")):
        match = _COMMENTED.search(before)
    if match and (
        _is_secret(match["quoted"], name, True, True)
        if is_stated
        else _is_strong(match["quoted"], name)
    ):
        yield first + match.start("quoted"), first + match.end("quoted"), name.sort.kind


def _further(data: bytes, end: int, name: naming.Name) -> Iterator[naming.Span]:
    """The further parts of a joined text, or further members of a list."""
    while match := patterns.PART.match(data, end):
        if is_placeholder(match["quoted"]) or b" " in match["quoted"]:
            break
        yield *match.span("quoted"), name.sort.kind
        end = match.end()
    while match := patterns.NEXT.match(data, end):
        if not _is_secret(match["quoted"], name, False, True):
            break
        yield *match.span("quoted"), name.sort.kind
        end = match.end()


def _is_user_and_password(value: bytes) -> bool:
    user = _USER.match(value)
    password = value[user.end() :].rstrip(b".") if user else b""
    return is_chosen(password) or (is_joined(password) and naming.sort_of(password) is None)


def _is_secret(value: bytes, name: naming.Name, is_stated: bool, is_literal: bool) -> bool:
    sort = name.sort
    if b" " in value and not is_stated:
        return False
    if sort is naming.CODE:
        return is_stated and is_literal and (_CODE.fullmatch(value) is not None or is_strong(value))
    if (
        sort is not naming.PASSWORD
        and (user := _USER.match(value))
        and is_chosen(value[user.end() :])
    ):
        return True
    if len(value) < sort.shortest:
        return False
    needed = sort.stated if is_stated else sort.near
    had = evidence(value, is_literal=is_literal)
    if had is not Evidence.WORD:
        return had >= needed
    return is_literal and naming.is_weak_password(value, name, is_expected=needed is had)
