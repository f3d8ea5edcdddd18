"""Which lines of an issue or a commit message come from a template, or are no prose at all?"""

from __future__ import annotations

import re

# A longer line is a sentence, not a mark of a template.
MAX_MARK_CHARS = 300

# Below these headings is nothing about the code.
_DROPPED_SECTION = re.compile(
    r"""(?:(?:my|your|the|runtime|test|testing|additional|software|build)\ )?
      (?:environment|system|platform|setup|device|desktop|smartphone|hardware|browser|machine)s?
      (?:\ (?:info(?:rmation)?|details|versions?|used))?
    |(?:[\w./+-]+\ ){0,4}versions?(?:\ (?:info(?:rmation)?|used|number|affected|of\ [\w ./]+))?
    |operating\ systems?|os|(?:pr\ |pull\ request\ )?check\ ?list|before\ submitting.*
    |prerequisites?
    |preflight.*|search\ first.*|code\ of\ conduct|contributing|terms|validations?|contribution
    |screen\ ?(?:shots?|recordings?)(?:/videos?)?|are\ you\ willing\ to\ .*
    |types?\ of\ changes?
    |would\ you\ like\ to\ (?:work|help|submit).*|installed\ packages|dependencies|instructions
    |pip\ (?:freeze|list)|package\ ?manager|used\ package\ manager|node|python|info|severity
    |(?:issue\ )?priority|is\ there\ an\ existing\ issue.*|output\ of\ .*|.*\ --version|labels?
    |how\ did\ you\ install.*|where\ are\ you\ running.*|reviewers?|release\ notes?
    |wh(?:ich|at)\ .*\b(?:versions?|browsers?|packages?|operating\ system)\b.*|envinfo""",
    re.IGNORECASE | re.VERBOSE,
)
# These headings say nothing; the text below them does.
_TEMPLATE_SECTION = re.compile(
    r"""(?:please\ )?describe\ (?:the|your|this|alternatives|any)\ .*
    |(?:a\ )?(?:clear|bug|issue|problem|feature|request|short|brief|detailed|general)?\ ?
      (?:description|summary|overview|statement|report|request|details)(?:\ of\ .*)?
    |(?:what\ (?:is|was|are)\ )?(?:the\ )?
      (?:expected|actual|current|observed|desired|proposed|suggested|intended|possible|correct)
      (?:\ (?:and|or|vs\.?|/)\ \w+)?
      \ ?(?:behaviou?r|results?|output|outcome|solution|fix|changes?|api|design|situation)?s?
    |what\ .{0,90}|why\ .{0,50}\?|how\ (?:to|can|do|did|has)\ .{0,50}
    |(?:steps?\ )?(?:to\ |for\ |how\ to\ )?reproduc\w*(?:\ .{0,30})?|steps|repro(?:\ steps)?
    |minimal.{0,40}|(?:code\ |complete\ )?(?:example|sample|snippet)s?(?:\ code)?|context
    |additional\ .{0,30}|(?:any\ )?other\ .{0,30}|more\ .{0,20}|notes?|motivations?|background
    |rationale|use\ cases?|alternatives?.{0,40}|solution|proposal|changes?|fix|bug(?:\ report)?
    |(?:relevant\ )?(?:logs?|error|stack\ ?trace|trace\ ?back|console|terminal)
      (?:\ (?:output|messages?|logs?|trace))*
    |feature|issue|problem|question|is\ your\ feature\ request\ .*|link\ to\ .{0,40}
    |related\ .{0,30}
    |references?|see\ also|testing|tests?|test\ plan|impact|regression|cause
    |(?:possible\ )?root\ cause|analysis|workarounds?|tl;?dr|acceptance\ criteria|tasks?|todo|scope
    |goals?|requirements?
    |(?:does\ this|have\ you|did\ you|do\ you|can\ you)\ .{0,80}|results?|output|observed|expected
    |actual|details|breaking\ changes?""",
    re.IGNORECASE | re.VERBOSE,
)
_TASK_SECTION = re.compile(r"task|to-?do|criteria|requirement|plan", re.IGNORECASE)
_AROUND = re.compile(r"^[^\w/]+|[^\w)+]+$")


def section_kind(heading: str) -> str | None:
    """Whether a heading is one of templates: "dropped" with its text, or "template" without."""
    name = bare_heading(heading)
    if _DROPPED_SECTION.fullmatch(name):
        return "dropped"
    return "template" if not name or _TEMPLATE_SECTION.fullmatch(name) else None


def bare_heading(heading: str) -> str:
    """A heading without marks and pictures around it."""
    return _AROUND.sub("", heading[:MAX_MARK_CHARS])


def lists_tasks(heading: str) -> bool:
    """Whether the check list under a heading says what to do."""
    return _TASK_SECTION.search(heading) is not None


CHECK = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+\[[ xX\u2713\u2714]?\]")

_REFERENCE = r"(?:(?:[\w.-]+/[\w.-]+)?(?:\#|gh-|bpo-|!)\d+|https?://\S++|@[\w-]++|[0-9a-f]{7,40}\b)"
_TRAILER = re.compile(
    rf"""\s*(?:[a-z]+(?:-[a-z]+)*-(?:by|to|on|id|url|from|for|at|link|tag|change|revid):\s
      |(?:change-id|cc|link|pr-url|refs?|issue|ticket|bug|jira|closes|fixes|resolves|see|related
        |tags|discussion|backport|approved|message-id
        |release-note|release_notes|reviewers|subscribers
        |differential\ revision|upstream(?:-commit)?|commit|author|date|merge|part-of
        |updated-dependencies|dependency-\w+|update-type|-\ dependency-name)\s?:(?:\s|$)
      |\(?cherry[- ]picked\ from|\[[^\[\]]{{1,100}}\]:\s+\S+$
      |\(?\s*(?:[-*]\s+)?(?:this\ )?(?:(?:partially|also|hopefully|should|will)\ )?
        (?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|references|see(?:\ also)?|re
          |related(?:\ to)?|follow[- ]?up\ (?:to|of)|part\ of|addresses|issue|supersedes
          |backport(?:\ of)?|from|in|via
          |pr|/?cc)?
        [\s:]*+(?:(?:pr|issue|bug|ticket)s?\ )?{_REFERENCE}
        (?:[\s,&|]++(?:and\ )?(?:(?:fix|close|resolve)e?[sd]?\s)?{_REFERENCE})*+[\s.)]*+$)""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKS_OF_TRAILER = (":", "#", "@", "!", "gh-", "GH-", "bpo-", "cherry")

_GREETING = re.compile(
    r"""(?:(?:hi|hello|hey|dear|greetings)\b
        (?:[\s,]+(?:there|all|everyone|everybody|team|guys|folks|maintainers|@?[\w-]+)){0,3}
      |(?:many\ |lots\ of\ |big\ |kind\ |best\ )?(?:thanks|thank\ you|thx|cheers|regards|best)\b
        .{0,60}
      |(?:any|some)\ (?:help|ideas?|pointers?)\b.{0,50}|let\ me\ know\ if\ .{0,80}
      |(?:i\ )?(?:would\ |'d\ )?(?:appreciate|love)\ .{0,60}
      |i(?:\ would|'d|\ am|'m)?\ (?:be\ )?(?:happy|glad|willing)\ to\ .{0,80}
      |great\ (?:work|library|project)\b.{0,40})[\s,.!:)]*$""",
    re.IGNORECASE | re.VERBOSE,
)
_BOILERPLATE = re.compile(
    r"""(?:no\ response|n/?a|none|no|yes|a\ (?:clear\ and\ )?concise\ description\ .*|see\ error
      |if\ applicable,\ add\ .*|add\ any\ other\ .*
      |(?:go\ to|click\ on|scroll\ down\ to)\ ['"]\.+['"].*
      |steps\ to\ reproduce\ the\ (?:behaviou?r|issue|problem)\s*:?.*
      |please\ (?:answer|provide|describe|explain|fill|read|note\ that|search|make\ sure|check).*
      |(?:have\ you|did\ you)\ (?:read|searched|checked|check|search)\b.*
      |describe\ (?:what|the|your)\b.{0,80}|explain\ (?:what|the|how)\b.{0,60}|fixup!.*|squash!.*
      |release\ notes|changelog|commits
      |(?:uploading|image|screenshot)\b.{0,40})[_*)]*[\s.]*$""",
    re.IGNORECASE | re.VERBOSE,
)
_COURTESIES = frozenset(
    """hi hello hey dear greetings many lots big kind best thanks thank thx cheers regards any some
    let i i'd i'm would appreciate love great no n/a na none yes a see if add go click scroll steps
    please have did describe explain fixup squash release changelog
    commits uploading image screenshot""".split()
)
_VERSION = re.compile(
    r"""(?:[-*\u2022]\s*)?[*_`]*(?:(?:[\w.@/+-]+\ ){0,3}(?:versions?|affects|os|platform|browser
        |arch(?:itecture)?|distro|kernel|runtime|shell|terminal|device|model|cpu|gpu|ram|memory
        |python|node(?:\.?js)?|npm|yarn|pnpm|ruby|java|jdk|go|rustc?|cargo|php|dotnet|\.net|gcc
        |clang|docker|chrome|firefox|safari
        |edge|windows|linux|macos|ubuntu|debian|ios|android|operating\ system|binaries|system))
      [*_`]*\s*[:=][*_`]*\s*.{0,120}$
      |(?:[-*\u2022]\s*)?[\w.@/+-]+\s?(?:==|[@:=\s])\s?[v^~]?\d+(?:\.\d+)+[\w.+-]*\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_WORD = re.compile(r"[_*(]*([\w/']+)")
_RULE = re.compile(r"[-=_*~\s|:+]{3,}$|\||\d+\.$|\[(?:skip ci|ci skip)\]")


def is_trailer(line: str) -> bool:
    """Whether a line is a trailer of a commit message, or only refers to issues or people."""
    return any(map(line.__contains__, _MARKS_OF_TRAILER)) and _TRAILER.match(line) is not None


def is_courtesy(stripped: str) -> bool:
    """Whether a line greets, thanks, or repeats the instructions of a template."""
    word = _FIRST_WORD.match(stripped)
    if word is None or word[1].lower() not in _COURTESIES:
        return False
    text = stripped[word.start(1) :]
    return _GREETING.match(text) is not None or _BOILERPLATE.match(text) is not None


def is_version(stripped: str) -> bool:
    """Whether a line names the version of something."""
    has_value = ":" in stripped or "=" in stripped or stripped[-1].isdigit()
    return has_value and len(stripped) < 200 and _VERSION.match(stripped) is not None


def is_rule(stripped: str) -> bool:
    """Whether a line is a row of a table, a rule or an empty item."""
    return stripped[0] in "-=_*~|:+[0123456789" and _RULE.match(stripped) is not None


_CODE_START = re.compile(
    r"""(?:>>>|\.\.\.\ |\$\ |%\ \w|\#!|PS\ [A-Z]:|In\ \[\d|Out\[\d|import\ \w[\w.]*(?:;|$|\ as\ )
      |from\ [\w.]+\ import\ |def\ \w+\(|class\ \w+[\w(.)]*[:{]|function\ \w*\(
      |(?:const|let|var)\ \w+\ =|return\b.*;$|\#include|\#define|typedef\ |@\w[\w.]*(?:\(.*\))?$|<\?
      |<!DOCTYPE|</?\w+[^>]*>\s*$|//\ |/\*|\*/|[{}()\[\];]+\s*[,;]?\s*$|["'][\w-]+["']\s*:\s
      |(?:npm|pip|yarn|git|cargo|docker|make|brew|apt|sudo|go)\ [a-z-]+(?:\ \S+){0,4}$)""",
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"[\w.\[\]\"']+\s*(?:[-+*/|&]|:)?=\s*\S+.*$")
_CODE_END = (";", "{", "}", ");", "=>", ") {")


def is_code_line(stripped: str) -> bool:
    """Whether a line without a fence around it is code, or a command with its prompt."""
    if not stripped or (
        not stripped.endswith(_CODE_END)
        and not _CODE_START.match(stripped)
        and not ("=" in stripped and _ASSIGNMENT.match(stripped))
    ):
        return False
    shown = stripped[:200]
    return sum(char.isalpha() or char == " " for char in shown) < 0.9 * len(shown)
