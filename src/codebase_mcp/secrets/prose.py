"""Does a sentence, or a line of a manual, say what a password is?"""

from __future__ import annotations

import re

from codebase_mcp.secrets.judging import describes
from codebase_mcp.secrets.naming import sort_of
from codebase_mcp.secrets.settings import is_joined

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
