"""Which texts join a name and its value? One table for all languages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codebase_mcp.secrets.sentences import SAID

# What the slots are made of, as <<name>>.
_PARTS = {
    # What closes a name: quotes (also escaped), brackets, a mark.
    b"closed": rb"""(?:\.value)?(?:\\*["'`]|&quot;|\\u0022|%22|[\])}?!]){0,4}""",
    b"space": rb"[ \t]*",
    b"break": rb"(?:[ \t]|\\?\r?\n|\\[nrt])*",
    b"type": rb"""(?:[ \t]*::?[ \t]*"""
    rb"""(?:&'static[ ]|\[\](?:const[ ])?|mut[ ]|&?\[\w{1,8};[ ])?[&'\w.\[\]<>|*?,]{1,40}?)""",
    # Between a name and "=": the size of an array, a mark, a type that follows.
    b"declared": rb"(?:\[\w*\]|\*|[ ](?:[Aa]s[ ])?[\w.]{2,20})",
    b"assign": rb"(?::=|=>|%3[dD]|%3[aA]|===?|!==?|<-|\?\?=|\|\|=|\?=|\+=|[=:])",
    b"or": rb"(?:\?\?|\|\||\?:|\bor\b)",
    # Between "=" and a value: a type's constructor, YAML's anchor.
    b"lead": (
        rb"(?:&\w+[ ]|(?:new[ ])?(?:str|bytes|b|(?:\[\])?byte|[A-Z]\w{1,30}(?:(?:::|\.)\w+)?)\("
        rb"|<{2})?"
    ),
    b"call": rb"(?>(?:new[ ])?(?:\[\])?\w{1,30}+(?:(?:\.|::|\()\w{1,30}+)?\()",
    # The words in a value before its secret part.
    b"scheme": (
        rb"(?i:(?:(?:bearer|basic|token|ssws|apikey|key|bot)[ =:]+|django-insecure-|base64:)?)"
        rb"(?:[A-Z][\w-]{1,20}[ ](?=[\w.+/=~-]{20,400}[\"'`\r\n]))?"
    ),
    b"quoted": (
        rb"""(?:[bBrRfFuULs@$N*]{0,2}|"(?=\\))(?P<quote>`["']|\\*(?:\"{3}|\"{2}(?=\w)|'{3}|["'`])|&quot;|\\u0022|%22)<<scheme>>"""
        rb"""(?P<quoted>(?:(?P=quote){2}|(?!(?P=quote))(?:\\.|[^\\\r\n])){1,2000})"""
        rb"""(?P=quote)(?![ \t]*(?::[ \t]*[^:=\s]|=>))"""
    ),
    b"percent": (
        rb"(?:(?:%[qQwW]?|qq?)(?:\((?P<round>[^)\r\n]{1,200})\)|\{(?P<curly>[^}\r\n]{1,200})\})"
        rb"|\[\[(?P<square>[^\r\n]{1,200}?)\]\](?!\]))"
    ),
    # Without quotes: up to what cannot belong to it, or to the end of a line of settings.
    b"bare": (
        rb"""<<scheme>>(?P<bare>[^\s"'`<>(){}\[\],;&|\\]{4,2000}+)(?=[\s"'`<>,;&)}\]|]|\\|$)"""
    ),
    b"line": (
        rb"""<<scheme>>(?P<line>[^\s"'`\[(|>][^\r\n]{2,600}?)"""
        rb"""(?=[ \t]{0,8}(?:,?\r?$|[ ][#;]|[ ]//|\\[nr]|[ ]\\\r?$))"""
    ),
}


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that may hold the value of a name.

    It is ``stated`` where a value must follow; ``literal`` where a value without quotes is the text
    itself, and not the name of a variable; a ``setting`` has its line for itself. Where the slot
    says little, a value must be ``strong``. Behind the text ``given_after``, the name included,
    nothing but the value can stand.
    """

    begins: bytes
    pattern: re.Pattern[bytes]
    is_stated: bool = True
    is_literal: bool = False
    only_setting: bool = False
    is_mixed: bool = False
    is_strong: bool = False
    given_after: re.Pattern[bytes] | None = None


def _expanded(pattern: bytes) -> bytes:
    while b"<<" in pattern:
        pattern = re.sub(rb"<<(\w+)>>", lambda part: _PARTS[part[1]], pattern)
    return pattern


def _slot(begins: bytes, pattern: bytes, *marks: str, given_after: bytes | None = None) -> Slot:
    return Slot(
        begins,
        re.compile(_expanded(pattern), re.MULTILINE),
        "near" not in marks,
        "literal" in marks,
        "setting" in marks,
        "mixed" in marks,
        "strong" in marks,
        None if given_after is None else re.compile(rb"(?:%s)$" % given_after),
    )


# What a slot may begin with, after what closes the name and after spaces.
_SIGNS = b":=<-?!|+"
_TEXTS = b"bBrRfFuULs@$\"'`\\&%0123456789"

# Also DB_PASSWORD=…   -F password=…   -var 'password=…'
BARE = _slot(
    _SIGNS + b"%",
    rb"<<closed>><<space>><<assign>><<space>><<bare>>",
    given_after=rb"(?:^|[\s\"'=,])[A-Z][A-Z0-9_]*|[ ]--?[A-Za-z][\w-]*[ =][\"']?[\w.-]+"
    rb"|\b(?:put|write|set|POST|PUT) [^\s()]+ [\w.-]+|\w=[^\s(),\"']+ [\w.-]+"
    rb"|[(\[,]\s*[\"'][\w.-]+",
)
# After a sign or a bracket.
_SLOTS = (
    # password = "…"   "password": "…"   PASSWORD: &str = "…"   password => …   $x['password'] = …
    _slot(
        _SIGNS,
        rb"<<closed>>(?:<<declared>>?<<space>><<assign>>|<<type>><<space>>=)<<break>>(?:<<percent>>|<<lead>><<quoted>>)",
    ),
    # A setting has the rest of its line.
    _slot(_SIGNS, rb"<<closed>><<space>>(?:=>|:=|\?=|[=:])[ \t]*(?:&\w+[ ])?<<line>>", "setting"),
    BARE,
    # ?password=…&   ;Password=…;
    _slot(
        b"=", rb"""=(?:RAW\((?P<round>[^)\s]{4,200})\)|(?P<bare>[^\s"'`<>&;\\,]{4,2000}))""", "near"
    ),
    # ;Password=…;
    _slot(
        b"=", rb"=(?P<line>[^\s;=\"'<>&]+(?:(?:[ ]&[ ]|&amp;|[ &])[^\s;=\"'<>&]+){1,9})(?=[;\"'])"
    ),
    # ${PASSWORD:-…}
    _slot(b":", rb":[-=](?P<bare>[^\s{}]{4,200})\}", "literal"),
    # ${spring.password:…}
    _slot(b":", rb":(?P<bare>[^\s{}]{4,200})\}", "near", "strong", given_after=rb"\$\{[\w.-]*"),
    # process.env.PASSWORD || "…"   getenv("PASSWORD", "…")   ENV["PASSWORD"] ?? "…"
    _slot(
        b",?|o:\r\n",
        rb"<<closed>>(?:<<space>>,(?:<<space>>|<<break>>\w+[:=]<<space>>)|<<break>><<or>><<break>>)<<lead>><<quoted>>",
        "near",
        given_after=rb"(?i:env\w*(?:\.\w+)?|define|put|set|set\w*property|set_?config|fill|type|append)"
        rb"[(\[]\s*[\"'][\w.#-]*|(?:\benv|\benviron|ENV)(?:\.|\[[\"'])\w*"
        rb"|(?:argument|option)\(\s*[\"']--[\w-]*|\{\w+",
    ),
    # getenv(…) ?: "…"
    _slot(
        b":=",
        rb"""<<closed>><<type>>?<<space>>=[^"'`\r\n;,=]{1,60}"""
        rb"""(?:\([^"'`\r\n;=]{0,30}["']\w+["'][^"'`\r\n;=]{0,12}|[^"'`\r\n;=]{0,3})"""
        rb"""(?:,|<<or>>)<<space>><<quoted>>""",
        "near",
    ),
    # = b64decode("…")
    _slot(b"=:", rb"<<closed>><<space>>(?:=>|[=:])<<space>><<call>><<quoted>>", "near"),
    # secret{"…"}   "password" to "…"   "password";s:8:"…"   &lt;password&gt;…
    _slot(
        b"=",
        rb"=\{(?P<curly>(?:[^{}\r\n]|\}\}){4,100})\}",
        *("near", "strong"),
        given_after=rb";[\w ]*",
    ),
    _slot(
        b"{t-;",
        rb"<<closed>>(?:\{[ ]*|[ ](?:to|->)[ ]|;s:\d{1,4}:)<<quoted>>",
        "near",
        given_after=rb"s:\d{1,4}:\\?\"\w*",
    ),
    _slot(b"&", rb"&gt;(?P<element>[^&\s]{4,200})&lt;/"),
    # .password("…")   password.equals("…")   get("#password").type("…")   .unwrap_or_else(|_| "…")
    _slot(
        b".(",
        rb"<<closed>>(?:\.\w+)?<<space>>\((?:\|\w*\|)?<<break>>"
        rb"""(?:["'][\w.@-]{0,40}["'],[ ]?){0,2}<<lead>><<quoted>>""",
        "near",
        given_after=rb"\b(?:set|with|use)_?\w*|\b(?:ssh|user(?:name)?\([^()\n]*\)\s*)\.\w*",
    ),
    _slot(
        b".",
        rb"<<closed>>\.(?:type|fill|setValue|send_?[kK]eys|val|input|enterText)\(<<quoted>>",
        given_after=rb"",
    ),
    _slot(b"{", rb"[ ]*\{[ \w;]{2,40}\}[ ]*=[ ]*<<quoted>>"),
    # "Password" with "…"
    _slot(
        b"w",
        rb"[\"'] with <<quoted>>",
        "near",
        "strong",
        given_after=rb"(?i:\b(?:fill|enter|type|set|put|input)\b[^\n]{0,60})",
    ),
    # On the next line: after ":", "= (" or "|"
    _slot(
        _SIGNS,
        rb"<<closed>><<type>>?<<space>><<assign>><<space>>(?:[(\[{]|[|>][-+]?|\\)?<<space>>"
        rb"\r?\n[ \t]+(?:- )?<<quoted>>",
    ),
    _slot(
        b":",
        rb""":[ ]*(?:[|>][-+]?)?[ ]*\r?\n[ \t]+(?:- )?"""
        rb"""(?P<line>[^\s"'-][^\r\n:]{3,200}?)[ \t]{0,8}\r?$""",
        "literal",
    ),
    # A list: keys = ["…", "…"]
    _slot(_SIGNS, rb"<<closed>><<space>><<assign>><<space>>[\[({]<<space>><<quoted>>"),
)
BY_SIGN = {
    bytes((sign,)): tuple(slot for slot in _SLOTS if sign in slot.begins)
    for sign in {sign for slot in _SLOTS for sign in slot.begins}
}
# Further on in a statement, also behind another text, and in a sentence.
FURTHER_ON = _slot(
    b"",
    rb"""<<closed>>[^"'`;\r\n#]{0,60}?(?:(?P<other>["'])[\w.:/-]{0,40}(?P=other)[^"'`;\r\n]{1,40}?)?"""
    rb"""<<quoted>>""",
    "near",
    "strong",
)
IN_PROSE = _slot(b"", SAID, "near", "strong", "literal")
# … root password?⏎someone: …
ANSWER = _slot(
    b"",
    rb"[^\r\n]{0,60}\?[ ]*\r?\n[^\r\n]{0,40}?[:<>-][ ]`?(?P<bare>[^\s`|<*][^\s`]{5,60})`?\r?$",
    "near",
    "strong",
)
# user … password …   "password" twice, as answers of an installer have it
_BEHIND_USER = (
    rb"(?i:\b(?:user|username|login|host|machine|benutzer|connect|account))[ \t]+(?!and\b|or\b)\S+"
    rb"(?:[ \t]+(?:privilege|role)[ \t]+\w+)?"
    rb"(?:[ \t]*\r?\n[ \t*#;/-]*|[ \t]+)\w*|passw[\w-]*[ \t]+password"
    rb"|\bset(?: --?\w+)* [\w:.-]*"
)
# After spaces alone.
SPACED = (
    # ${PASSWORD}    …
    _slot(b"", rb"\}(?:[ ]{2,20}|\t+)<<bare>>", "near", given_after=rb"(?:^|\n)\$\{\w*"),
    # enable secret 0 …
    _slot(b"0123456789", rb"[ \t]+[0-9][ ]<<bare>>", given_after=rb""),
    # #define PASSWORD "…"   (def password "…")   --password …
    _slot(
        _TEXTS,
        rb"<<closed>>[ \t]+(?:[0-9][ ])?<<quoted>>",
        "near",
        given_after=_BEHIND_USER
        + rb"|\b(?:with|and|using|mit) (?:the )?\w*|[\w.-]*\bpsk|(?:store|key)Password"
        rb"|(?<![\w:]):[\w-]*",
    ),
    _slot(b"", rb"<<closed>>[ \t]+(?!\w+=|--?[A-Za-z])<<bare>>", "near", given_after=_BEHIND_USER),
)
# ENV PASSWORD …
REST = _slot(
    b"", rb"[ \t]+(?!\w+=)(?P<line>[^\s\"'`\[(|>][^\r\n]{2,600}?)(?=[ \t]{0,8};?\r?$)", "literal"
)
# <password>…</password>   <key>Password</key><string>…</string>   <string name="password">…
ELEMENT = _slot(
    b"",
    rb"""(?:["']?[^<>\r\n]{0,80}>|(?=</[\w:-]*(?:key|name)>))"""
    rb"""(?:</[\w:-]+>\s*(?:<[\w-]*type>[^<]{1,60}</[\w-]*type>\s*)?<[\w:-]+>|\s*<[vV]alue>)?\s*"""
    rb"""(?:<!\[CDATA\[(?P<cdata>[^\r\n]{4,2000}?)\]\]>|(?P<element>[^<\r\n]{4,2000}?))\s{0,8}</""",
    "literal",
    given_after=rb"<(?:setting|property|entry|param\w*|add|value|attribute)\b[^<>]*|<[\w:.-]*"
    rb"|-name>\s*[\w.-]*",
)
# <td>password</td><td>…</td>
NEXT_ELEMENT = _slot(
    b"", rb"</\w{1,30}>\s{0,80}<\w[^<>\r\n]{0,80}>(?P<element>[^<\s]{4,200})</", "near"
)
# name: PASSWORD, value: …   variable "password" { default = "…" }   Password, example: …
# The value begins at one of these words; up to four lines without the end of a block may be before.
VALUE_WORDS = frozenset(b"value content default example parametervalue defaultvalue".split())
LONGEST_WITHIN = 300
GAP = re.compile(
    _expanded(
        rb"<<closed>>,?(?:[ :]{0,3}\{)?(?:[^\n{}<>]{0,80}"
        rb"|(?:[^\n}<>]{0,200}\r?\n){1,4}[^\n}<>]{0,40})(?<!\w)(?:[pP]arameter)?"
    )
)
WITHIN = (
    _slot(
        b"",
        rb"(?i:\w{5,7}\b)<<closed>><<space>>[=:]?<<space>><<quoted>>",
        "mixed",
        given_after=rb"(?i:name|key|param|type|id)[\"']?\s*[:=]\s*[\"']?[\w.-]*"
        rb"|(?:argument|option)\([^()]{0,40}[\"']--[\w-]*|variable \"\w*",
    ),
    _slot(b"", rb"\w{5,7}[:= ][ ]*<<bare>>", "mixed", given_after=rb"name: [A-Z_]+"),
)

# A further part of a value, and a further value of a list.
PART = _slot(b"", rb"""(?:\s*(?:\+|\.|\\|\|\||&|<{2})|[ \t]*\r?\n)\s*<<quoted>>""").pattern
NEXT = _slot(b"", rb"\s*,\s*<<quoted>>").pattern
VALUE_GROUPS = ("quoted", "bare", "line", "element", "cdata", "round", "curly", "square")
