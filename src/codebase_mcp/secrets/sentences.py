"""Is the value of a setting a text or code? Does a sentence say what a password is?"""

from __future__ import annotations

import re

from codebase_mcp.secrets.judging import describes
from codebase_mcp.secrets.naming import CAPITALIZED, PASSPHRASE, PASSWORD, Name, sort_of

_LONG_NUMBER = 8
# A variable of a shell or of an environment file: what follows is a text.
_VARIABLE = re.compile(rb"[A-Z][A-Z0-9_]+=(?=\S)")
_CONSTANT = re.compile(rb"[A-Z][A-Z0-9_]+: +")
# A word that may be a password: a name of code rather has capitals within or is joined.
_WORD = re.compile(rb"[a-z]{6,}|[\w!#$%&*+?@^~.-]*\d[\w!#$%&*+?@^~-]*|(?:[a-z]*[A-Z]+){3,}[a-z]*")
# Words joined by signs: where the lines around are settings, no expression.
_JOINED_WORDS = re.compile(
    rb"(?=\D)[\w\x80-\xff]{2,40}(?:[-+&!#*~?.]{1,2}[\w\x80-\xff]{1,40}){0,8}[-+&!#*~?]{0,3}"
)
_SIGNS_OF_TEXTS = re.compile(
    rb"[-+&!#*~?\x80-\xff]|\.\w+\.|[^_]_[a-zA-Z]+_[^_]|^[A-Z]\w*[a-z]_[a-zA-Z]"
)
_SPACED_EQUALS = re.compile(rb"[\"']?(?:[ \t]+=|=[ \t])")
_LINE_OF_CODE = re.compile(
    rb"[(){};,\\]\s*$|\w\(|=>|^\s*(?:def|if|for|return|class|import|from|func|let|var|const|with|try"
    rb"|else|raise|except|yield|elif|assert|self)\b"
)
_LABELLED = re.compile(
    rb"[:=>]\s*[\"'][A-Z\x80-\xff][a-z\x80-\xff]{2,}(?: [\w\x80-\xff]+){0,9}"
    rb"[.!?:\xe2\x80\xa6]{0,3}[\"']"
    rb"|[:=]\s*[A-Z][A-Za-z]+[?!,;]?\s*(?:=.*)?$"
)
# A line of a file of properties.
_PROPERTY = re.compile(
    rb"\s*(?:[#!;].*|\[[\w.: -]+\]|[a-zA-Z][\w.-]*(?P<sign>=)[^\s(),;{}\"']*)?\s*"
)
END_OF_LINE = re.compile(rb"[ \t]*(?:[ ][#;][^\r\n]*)?(?:\r?\n|\Z)")


def is_text(data: bytes, name: Name, value: bytes, end: int) -> bool:
    """Whether the value of a setting is a text although it has no quotes.

    The name of a variable or of a type, or a word of a language, comes more often than once.
    """
    if value.isdigit():
        return len(value) >= _LONG_NUMBER
    if _VARIABLE.match(data, name.start) is not None:
        return True
    if (
        name.sort.kind not in (PASSWORD.kind, PASSPHRASE.kind)
        or END_OF_LINE.match(data, end) is None
    ):
        return False
    is_constant = _CONSTANT.match(data, name.start) is not None and value.islower()
    if is_constant and _is_among_settings(data, name.start):
        return sort_of(value) is None
    is_alone = (
        _WORD.fullmatch(value)
        or _is_property(data, name.start, end)
        or (
            is_joined(value)
            and (b"." not in value or _SPACED_EQUALS.match(data, name.end) is None)
            and _is_among_settings(data, name.start)
        )
    )
    if CAPITALIZED.fullmatch(value):
        is_alone = _is_among_settings(data, name.start) and not is_label(data, name.start, end)
    return bool(is_alone) and data.count(value) == 1 and sort_of(value) is None


def is_label(data: bytes, start: int, end: int) -> bool:
    """Whether a word with a capital is a label or a type: the lines around have such values too."""
    line = data.rfind(b"\n", 0, start) + 1
    before = data[max(line - 300, 0) : max(line - 1, 0)]
    until = data.find(b"\n", end)
    behind = data[until + 1 : until + 300] if until >= 0 else b""
    around = (before.rsplit(b"\n", 1)[-1], behind.split(b"\n", 1)[0], data[line:start][-200:])
    return any(_LABELLED.search(other) for other in around)


def is_joined(value: bytes) -> bool:
    """Whether words are joined as in a text rather than as in a name."""
    return bool(_JOINED_WORDS.fullmatch(value) and _SIGNS_OF_TEXTS.search(value))


def _is_property(data: bytes, start: int, end: int) -> bool:
    """Whether this line and those around it are ``name=value``."""
    line = data.rfind(b"\n", 0, start) + 1
    lines = [
        _PROPERTY.fullmatch(around) for around in (data[line:end], *_lines_around(data, start))
    ]
    return all(lines) and sum(bool(match and match["sign"]) for match in lines) > 1


def _is_among_settings(data: bytes, position: int) -> bool:
    """Whether neither the line before nor the line behind is code."""
    return not any(map(_LINE_OF_CODE.search, _lines_around(data, position)))


def _lines_around(data: bytes, position: int) -> tuple[bytes, bytes]:
    """The line before and the line behind that of a position, in part where they are long."""
    start = data.rfind(b"\n", 0, position)
    end = data.find(b"\n", position)
    before = data[max(data.rfind(b"\n", 0, max(start, 0)) + 1, start - 200) : max(start, 0)]
    behind = data[end + 1 : end + 200].split(b"\n", 1)[0] if end >= 0 else b""
    return before, behind


_VERBS = "is|are|was|to|lautet|ist|war|est|es|è|é|jest|är|er|wynosi"
_DASHES = "\u2013|\u2014"
_WIDE_COLON = "\uff1a"
# From the end of a password's name to the end of the password.
SAID = (
    r"(?:\*\*|_|>|<<closed>>)"
    r"(?P<whose>[ ](?:for|für|of|du|de|del|der|des|von|vom|zum|zu|voor|per|para|pour|do"
    r"|dla|til|för|al)[ ]"
    r"""[^\r\n:=.,;"'`(){}<>*]{1,40}?"""
    rf"(?=[ ]?(?:[:=→]|{_DASHES}|{_WIDE_COLON})|[ ](?:{_VERBS})[\s:])|[ ]\([^()\r\n]{{1,30}}\))?"
    rf"""(?:[ ]?(?P<verb>(?:{_VERBS})(?=[\s:"'`*])|是|は))?"""
    rf"(?:[ ]?(?P<sign>::?|=|/|\||→|=>|{_DASHES}|-(?=[ ])|{_WIDE_COLON}))?(?:\*\*)?"
    rf"(?:[ ]+|(?<={_WIDE_COLON}|是|は))"
    r"""(?:["`](?P<quoted>[^"`\r\n ]{1,30}(?:[ ][^"`\r\n ]{1,30}){1,5})["`]"""
    r"""|(?P<mark>["'`*]{1,2}|<(?:code|b|strong|kbd|tt)>)?(?!\w+=)"""
    r"""(?P<bare>[^\s"'`<>(){}\[\],;&|\\]{6,200}?)(?=["'`*]{0,2}[.,;)]?(?:\s|$|</)))"""
).encode()
_ENDS = re.compile(
    rb"(?:[\"'`*]{0,2}|</\w+>)[.)!,;]?"
    rb"(?:\s*(?:\r?\n|\Z|\(|</)| (?:for|on|at|and|in|bei|pour|para)\b)"
)
_TO_SIGN_IN = re.compile(
    rb"[\"'`*]{0,2} (?:to|for|um|pour|para) (?:sign|log|login|connect|access|sich|se )"
)
_CHANGED = re.compile("(?:changed|geändert|reset|switched)\\b[^.\n]*$".encode())
_LEAD = re.compile(rb"[\s*#/>;|+-]*(?:[\w\x80-\xff@.'-]+[ :,/]+(?:/ )?){0,12}[\"'`*_(]*")
_LABEL = re.compile(rb"(?:\*\*|__)(?:[\w-]+ ){0,3}$|^\s*(?:#|//|--|\* |- )[ *]*(?:[\w-]+ ){0,3}$")
_NAMES_USER = re.compile(rb"(?i:\b(?:user|username|login|benutzer|admin|root|usuario|email)\b|@)")
_ARROWS = tuple(sign.encode() for sign in ("→", "=>", _WIDE_COLON, *_DASHES.split("|")))
_NO_NAME_OF_CODE = re.compile(rb"[-+&!#~\x80-\xff]")
# Between an option and its value in a manual; a command goes on with options, paths or its end.
_SAYS_OPTION = re.compile(
    rb"(?:\b(?:the|an?|with|use|and|or|via|using|pass|set|see|of)|[`(\[<|,])\s*$"
)
_GOES_ON = re.compile(rb"\s*?(?:\r?\n|\Z|[ ]*[-\\\"'`|>&;)]|[ ]+[^\s,.]*[/:.@=]\S)")


def is_said(lead: bytes, match: re.Match[bytes]) -> bool:  # noqa: PLR0911 - a case a line
    """Whether a match of ``SAID`` behind a ``lead`` is a password, be it a single word."""
    value, verb, sign = match["bare"] or match["quoted"], match["verb"], match["sign"]
    value = value.rstrip(b".?")
    if describes(value) or sort_of(value) is not None:
        return False
    is_odd = is_joined(value) and _NO_NAME_OF_CODE.search(value) is not None
    ends = _ENDS.match(match.string, match.end()) is not None
    if verb == b"lautet" or match["quoted"]:
        return verb is not None
    if match["mark"]:
        is_shown = match["mark"] not in (b'"', b"'") and ends
        if sign is None and is_odd and value.lower() != value:
            return True
        return verb is not None or (sign is not None and (is_odd or is_shown))
    if verb == b"to":
        return _CHANGED.search(lead) is not None
    if verb:
        return ends and (verb not in (b"is", b"are", b"was") or is_odd)
    if not sign:
        return _TO_SIGN_IN.match(match.string, match.end()) is not None or (ends and is_odd)
    is_label = match["whose"] is not None
    if sign != b"=":
        is_label = bool(
            is_label or is_odd or sign in _ARROWS or _LABEL.search(lead) or _NAMES_USER.search(lead)
        )
    return ends and is_label and _LEAD.fullmatch(lead) is not None


def is_option_value(lead: bytes, match: re.Match[bytes]) -> bool:
    """Whether the word behind an option is its value, and not part of a sentence."""
    return (
        not describes(match["bare"])
        and _SAYS_OPTION.search(lead) is None
        and _GOES_ON.match(match.string, match.end()) is not None
    )
