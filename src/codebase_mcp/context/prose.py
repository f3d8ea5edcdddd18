"""What does a task say in sentences? Without templates, check lists, tables, logs and code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

MAX_SENTENCE_CHARS = 400

# Headings of templates. Below those of the first kind is nothing about the code.
_DROPPED_SECTION = re.compile(
    r"(?:(?:my |your |the |runtime |test(?:ing)? |additional |software |build )?(?:environment|system|platform|setup|device"
    r"|desktop|smartphone|hardware|browser|machine)s?\b(?: info(?:rmation)?| details| versions?| used)?"
    r"|(?:[\w./ +-]{0,30} )?versions?(?: info(?:rmation)?| used| of [\w ./]+| number| affected)?|operating systems?|os"
    r"|(?:package |tool )?versions?|checklist|pr checklist|pull request checklist|check ?list|before submitting.*|prerequisites?"
    r"|preflight.*|search first.*|code of conduct|contributing|terms|screenshots?(?:/videos?)?|screen ?recordings?|browsers?"
    r"|validations?|are you willing to submit.*|would you like to (?:work|help|submit).*|contribution|type of change|types of changes"
    r"|installed packages|dependencies|pip (?:freeze|list)|package ?manager|node|python|used package manager|info|system info.*"
    r"|severity|priority|issue priority|duplicates?|is there an existing issue.*|output of .*|.* --version|how did you install.*"
    r"|where are you running.*|which .* (?:versions?|browsers?|packages?).*|release notes?|labels?|reviewers?)",
    re.IGNORECASE,
)
_HEADING_WORDS = re.compile(
    r"""(?:(?:please\ )?describe\ (?:the|your|this)\ .*|(?:a\ )?(?:clear\ )?(?:bug|issue|problem|feature|request|short|brief|detailed|general)?
      \s?(?:description|summary|overview|statement|report|request|details)(?:\ of\ .*)?
      |(?:what\ (?:is|was|are)\ )?(?:the\ )?(?:expected|actual|current|observed|desired|proposed|suggested|intended|possible|correct|wanted)
      (?:\ (?:and|or|vs\.?|/)\ \w+)?\ ?(?:behaviou?r|results?|output|outcome|solution|fix|change|changes|api|design|implementation|situation)?s?
      |what\ .{0,60}|why\ .{0,50}\?|how\ (?:to|can|do|did|has)\ .{0,50}|(?:steps?\ )?(?:to\ |for\ |how\ to\ )?reproduc\w*(?:\ .{0,30})?
      |steps|repro(?:\ steps)?|minimal.{0,40}|(?:code\ |complete\ )?(?:example|sample|snippet)s?(?:\ code)?|context|additional\ .{0,30}
      |(?:any\ )?other\ .{0,30}|more\ .{0,20}|notes?|motivations?|background|rationale|use\ cases?|alternatives?.{0,40}|solution|proposal|changes|change|fix
      |(?:relevant\ )?(?:logs?|error|stack\ ?trace|trace\ ?back|console|terminal)(?:\ (?:and\ \w+|output|messages?|logs?|log\ output|trace))*|bug|bug\ report|feature|issue|problem|question
      |is\ your\ feature\ request\ .*|link\ to\ .{0,40}|related\ .{0,30}|references?|see\ also|testing|tests?|test\ plan|impact|regression|(?:possible\ )?root\ cause|cause|analysis|workarounds?|tl;?dr|acceptance\ criteria|tasks?|todo|scope|goals?|requirements?|
      (?:does\ this|have\ you|did\ you|do\ you|can\ you)\ .{0,80}|reproduction(?:\ .*)?|result|results|output|observed|expected|actual|details)""",
    re.IGNORECASE | re.VERBOSE,
)
_LABEL = re.compile(
    r"\s*(?:[-*]\s+)?(?:\*\*|__)?([A-Z][\w '/()-]{2,40}?)(?:\*\*|__)?\s?:(?:\*\*|__)?\s+(?=\S)"
)
_EMPHASIZED = re.compile(r"\s*(?:\*\*|__)([^*_]{2,100})(?:\*\*|__)\s*:?\s*(.*)$")
_ATX = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})\s*$")
_DECORATION = re.compile(r"[^\w/+.-]+$|^[^\w/]+")

_CHECK = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\[[ xX✓✔]?\]")
_TRAILER = re.compile(
    r"""\s*(?:[A-Z][A-Za-z]+(?:-[A-Za-z]+)*-(?:by|to|on|id|url|from|for|at|link|tag|change):\s|(?:Change-Id|Cc|CC|Link|PR-URL|Refs?|Issue|Ticket|
      Bug|BUG|JIRA|Jira|Closes|Fixes|Resolves|See|Related|Discussion|Backport|Approved|Message-Id|git-svn-id|Tags|Release-Note|RELEASE_NOTES|
      Differential\ Revision|Upstream(?:-commit)?|Test\ Plan|Reviewers|Subscribers|commit|Author|Date|Merge|Part-of|GitOrigin-RevId|PiperOrigin-RevId)\s*:\s
      |\(?cherry[- ]picked\ from|co-authored|signed-off
      |\(?\s*(?:[-*]\s+)?(?:this\ )?(?:(?:partially|also|hopefully|should|will)\ )?(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|references|see(?:\ also)?|related(?:\ to)?|re|ref|follow[- ]?up\ (?:to|of)|part\ of|addresses|issue|supersedes|backport(?:\ of)?|from|in|via|pr|cc|/?cc)?
      [\s:]*(?:(?:(?:pr|issue|bug|ticket)s?\ )?(?:[\w.-]+/[\w.-]+)?(?:\#|gh-|bpo-|!)\d+|https?://\S+|@[\w-]+|\b[0-9a-f]{7,40}\b)
      (?:[\s,&|]++(?:and\ )?(?:(?:fix|close|resolve)e?[sd]?\s)?(?:[\w./-]*+\#\d+|https?://\S++|@[\w-]++))*+[\s.)]*$)""",
    re.IGNORECASE | re.VERBOSE,
)
_GREETING = re.compile(
    r"\s*(?:(?:hi|hello|hey|dear|greetings)\b(?:[\s,]+(?:there|all|everyone|everybody|team|guys|folks|maintainers|@?[\w-]+)){0,3}"
    r"|(?:many |lots of |big )?(?:thanks|thank you|thx|cheers|regards|kind regards|best regards|best)\b.{0,60}"
    r"|(?:any|some) (?:help|ideas?|pointers?)\b.{0,50}|let me know if .{0,80}|(?:i )?(?:would )?(?:appreciate|love) .{0,60}"
    r"|i(?: would|'d| am|'m)? (?:be )?(?:happy|glad|willing) to .{0,80}|great (?:work|library|project)\b.{0,40})[\s,.!:)]*$",
    re.IGNORECASE,
)
_BOILERPLATE = re.compile(
    r"\s*[_*(]*(?:no response|n/?a|none|no|yes|-|a (?:clear and )?concise description .*|if applicable, add .*|add any other .*"
    r"|steps to reproduce the (?:behaviou?r|issue|problem)\s*:?.*|see error|(?:go to|click on|scroll down to) ['\"‘]\.+['\"’].*|please (?:provide|describe|fill|read|note that|search|make sure|check).*"
    r"|(?:have you|did you) (?:read|searched|checked|check|search)\b.*|describe (?:what|the|your)\b.{0,80}|explain (?:what|the|how)\b.{0,60}|(?:uploading|image|screenshot)\b.{0,40}|<.*>|fixup!.*|squash!.*|\[skip ci\]|\[ci skip\]"
    r"|\d+\.)[_*)]*[\s.]*$",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"\s*(?:[-*•]\s*)?[\*_`]*(?:(?:[\w.@/+-]+ ){0,3}(?:versions?|os|platform|browser|arch(?:itecture)?|distro|kernel|runtime|shell|terminal|device|model|cpu|gpu|ram|memory"
    r"|python|node(?:\.?js)?|npm|yarn|pnpm|ruby|java|jdk|go|rust(?:c)?|cargo|php|dotnet|\.net|gcc|clang|docker|chrome|firefox|safari|edge|windows|linux|macos|ubuntu|debian|ios|android"
    r"|operating system|binaries|system))[\*_`]*\s*[:=][\*_`]*\s*.{0,120}$"
    r"|\s*(?:[-*•]\s*)?[\w.@/+-]+\s?(?:==|@|:|=|\s)\s?[v^~]?\d+(?:\.\d+)+[\w.+-]*\s*$",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"\s*(?:>>>|\.\.\.\s|\$\s|%\s\w|#!|PS [A-Z]:|In \[\d|Out\[\d|import \w[\w.]*(?:;|$| as )|from [\w.]+ import |def \w+\(|class \w+[\w(.)]*[:{]|function \w*\(|(?:const|let|var) \w+ ="
    r"|return\b.*;$|#include|@\w[\w.]*(?:\(.*\))?$|<\?|<!DOCTYPE|</?\w+[^>]*>\s*$|//\s|/\*|\*/|[{}()\[\];]+\s*[,;]?\s*$|npm |pip |yarn |git |cargo |docker |make )"
    r"|.*(?:[;{}]|\);|=>|\) \{)\s*$|\s*[\w.\[\]\"']+\s*(?:[-+*/|&]?=|:=|\+=)\s*\S+.*$|\s*[\"'][\w-]+[\"']\s*:\s"
)
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|\([a-z\d]\))\s+")
# A longer line is a sentence, not a mark of a template.
_MAX_MARK_CHARS = 300
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^()\n]{0,500}\)|<img\b[^>\n]{0,1000}>")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{1,500}\)")
_TAG = re.compile(r"</?[a-z][a-z\d]*(?:\s[^<>\n]{0,300})?/?>|<https?://[^<>\s]{1,300}>")
_EMPHASIS = re.compile(
    r"\*\*|__(?=\w[^_]*__(?!\w))|(?<!\w)__|(?<=\w)__(?!\w)|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])|`+"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[^\sa-z])|(?<=[。！？])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|eg|ie|approx|resp|incl|no|fig|sec|aka|Dr|Mr|Ms)|\b[A-Z])\.$",
    re.IGNORECASE,
)

# What people and tools put before a title.
_TAGS = re.compile(r"\s*\[([^\[\]\n]{1,40})\]\s*[:-]?\s*")
_TYPED = re.compile(
    r"(?P<type>feat(?:ure)?|fix(?:es|ed)?|bug(?:fix|[ -]?report)?|docs?|chore|refactor|perf|tests?|build|ci|style|revert|hotfix|improvement|enhancement|internal|types?|deps|wip|feature request|question|regression|issue|breaking)"
    r"(?:\((?P<scope>[^()\n]{1,60})\))?!?\s*:\s+",
    re.IGNORECASE,
)
_COMPONENT = re.compile(r"(?P<scope>[\w./@{},*+-]{2,50}): +(?=\S)")
_NUMBER = re.compile(
    r"\s*\(\s*(?:(?:fix(?:es)?|close[sd]?|refs?|see|issue|pr|backport)?[\s:]*(?:\#|gh-|!)\d+[\s,]*)+\)\s*$"
    r"|^(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|issue|pr|bug)?\s*(?:\#|gh-|bpo-)\d+|[A-Z]{2,10}-\d+|\d{3,}:)(?:\s*[,&]\s*\#\d+)*\s*[:.-]?\s+(?=\S)",
    re.IGNORECASE,
)
_DULL_TAGS = re.compile(
    r"(?:bug|feature|feat|fix|request|question|docs?|rfc|wip|draft|regression|help|enhancement|improvement|proposal|issue|task|test|tests|ci|chore|backport|skip ci|\d[\d.x]*|v\d.*|urgent|security|perf|breaking|[A-Z]+-\d+|closed|\#\d+)"
    r"(?:[ /:-](?:report|request|\w+))?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Prose:
    """The parts of a text for people: each paragraph as written; code and what others wrote."""

    title: str = ""
    scopes: tuple[str, ...] = ()
    paragraphs: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)

    def sentences(self, limit: int) -> tuple[str, ...]:
        """The title and the sentences after it, each once."""
        kept: dict[str, None] = {self.title: None} if self.title else {}
        paragraphs = self.paragraphs or self.quoted or self.folded
        for number, paragraph in enumerate(paragraphs):
            for sentence in islice(sentences_of(paragraph), number == 0, None):
                kept.setdefault(sentence)
            if len(kept) >= limit:
                break
        return tuple(kept)[:limit]


class _Reader:
    """Reads lines in order; a paragraph ends at an empty line, an item, a heading."""

    def __init__(self, lines: Sequence[str], skip: frozenset[int]) -> None:
        self.lines = lines
        self.skip = skip
        self.prose = Prose()
        self.open: list[str] = []
        self.fence: str | None = None
        self.in_comment = False
        self.details = 0
        self.is_dropped = False
        self.in_list = False
        self.is_task_list = False
        self.was_empty = True

    def read(self) -> Prose:
        for index, line in enumerate(self.lines):
            if self.fence is None and not self.in_comment and index in self.skip:
                self._close()
                continue
            self._line(line, index)
        self._close()
        return self.prose

    def _line(self, line: str, index: int) -> None:
        stripped = line.strip()
        if self._fenced(line, stripped):
            return
        line = self._without_comment(line)
        stripped = line.strip()
        self._count_details(stripped)
        if not stripped:
            self._close()
            self.was_empty = True
            return
        if self._heading(line, stripped, index) or self._is_dropped(line, stripped):
            self._close()
        elif stripped.startswith(">"):
            self._close()
            self.prose.quoted.append(stripped.lstrip("> "))
        else:
            self._text(line)
        self.was_empty = False

    def _fenced(self, line: str, stripped: str) -> bool:
        """Whether a line is in a code block, or begins or ends it."""
        if self.fence is not None:
            if stripped.startswith(self.fence) and not stripped.strip("`~"):
                self.fence = None
            else:
                self.prose.code.append(line)
            return True
        if self.in_comment or not stripped.startswith(("```", "~~~")):
            return False
        mark = stripped[0]
        run = len(stripped) - len(stripped.lstrip(mark))
        if mark in stripped[run:]:
            return False
        self._close()
        self.fence = mark * run
        return True

    def _without_comment(self, line: str) -> str:
        """The line without its comments of HTML; a comment may go on for many lines."""
        kept = []
        while True:
            if self.in_comment:
                _, end, line = line.partition("-->")
                if not end:
                    break
                self.in_comment = False
            before, start, line = line.partition("<!--")
            kept.append(before)
            if not start:
                break
            self.in_comment = True
        return "".join(kept)

    def _count_details(self, stripped: str) -> None:
        if "<details" in stripped:
            self._close()
            self.details += 1
        elif "</details" in stripped:
            self._close()
            self.details = max(0, self.details - 1)

    def _heading(self, line: str, stripped: str, index: int) -> bool:
        following = self.lines[index + 1] if index + 1 < len(self.lines) else ""
        if match := _ATX.match(line):
            return self._open_section(match[1], keeps=True)
        if (
            self.was_empty
            and len(stripped) < 100
            and _UNDERLINE.match(following)
            and "|" not in line
        ):
            return self._open_section(stripped, keeps=True)
        if _UNDERLINE.match(line) and not self.was_empty:
            return True
        if (match := _EMPHASIZED.match(line)) and not match[2]:
            return self._open_section(match[1], keeps=True)
        if self.was_empty and len(stripped) < 60 and stripped.endswith(":"):
            return self._open_section(stripped, keeps=False)
        return False

    def _open_section(self, heading: str, *, keeps: bool) -> bool:
        """Begin a section. Whether its heading is one of templates; any other is a paragraph."""
        name = _DECORATION.sub("", _EMPHASIS.sub("", heading).strip()).strip()
        name = _DECORATION.sub("", name).strip()
        if _DROPPED_SECTION.fullmatch(name) and self._has_begun():
            self.is_dropped = True
            return True
        if not keeps and not _HEADING_WORDS.fullmatch(name):
            return False
        self._close()
        self.is_dropped = False
        self.is_task_list = bool(
            re.search(r"task|to-?do|criteria|requirement|plan", name, re.IGNORECASE)
        )
        if _HEADING_WORDS.fullmatch(name) is None and name:
            self.open.append(heading)
            self._close()
        return True

    def _has_begun(self) -> bool:
        return bool(self.prose.paragraphs or self.open)

    def _is_dropped(self, line: str, stripped: str) -> bool:
        if self.is_dropped or stripped.startswith("|") or re.match(r"[-=_*~\s|:+]{3,}$", stripped):
            return True
        if _CHECK.match(line):
            return not self.is_task_list
        if len(line) > _MAX_MARK_CHARS:
            return False
        if _TRAILER.match(line) and (self._has_begun() or ":" in stripped):
            return True
        if any(p.match(line) for p in (_GREETING, _BOILERPLATE, _VERSION)):
            return self._has_begun() or not _VERSION.match(line)
        return self._is_code(line, stripped)

    def _is_code(self, line: str, stripped: str) -> bool:
        indent = len(line) - len(line.lstrip(" ")) if line[0] != "\t" else 4
        is_block = indent >= 4 and self.was_empty and not self.in_list and self._has_begun()
        if is_block or _CODE_LINE.match(line) and " " * 2 != stripped[-2:]:
            letters = sum(char.isalpha() or char == " " for char in stripped[:200])
            if is_block or letters < 0.9 * len(stripped[:200]):
                self.prose.code.append(line)
                return True
        return False

    def _text(self, line: str) -> None:
        if match := _ITEM.match(line):
            self._close()
            self.in_list = True
            line = line[match.end() :]
        elif not line.startswith((" ", "\t")):
            if self.was_empty:
                self.in_list = False
        self.open.append(self._without_label(line))

    def _without_label(self, line: str) -> str:
        if (match := _EMPHASIZED.match(line)) and _HEADING_WORDS.fullmatch(match[1].strip(" :?")):
            return match[2]
        if (match := _LABEL.match(line)) and _HEADING_WORDS.fullmatch(match[1]):
            return line[match.end() :]
        return line

    def _close(self) -> None:
        if not self.open:
            return
        paragraph = " ".join(line.strip() for line in self.open)
        self.open = []
        target = self.prose.folded if self.details else self.prose.paragraphs
        target.append(paragraph)


def read_prose(lines: Sequence[str], skip: frozenset[int]) -> Prose:
    """The prose and the code among lines without those of ``skip``."""
    prose = _Reader(lines, skip).read()
    first = (prose.paragraphs or prose.quoted or prose.folded or [""])[0]
    prose.title, prose.scopes = title_of(next(sentences_of(first), ""))
    return prose


def title_of(line: str) -> tuple[str, tuple[str, ...]]:
    """A title without its tags, its type and its numbers; and the components that those name."""
    scopes: list[str] = []
    rest = line
    for _ in range(4):
        before = rest
        if match := _TAGS.match(rest):
            if not _DULL_TAGS.fullmatch(match[1]):
                scopes.append(match[1])
            rest = rest[match.end() :]
        rest = _NUMBER.sub("", rest)
        if match := _TYPED.match(rest):
            scopes += re.split(r"[,|&]\s*", match["scope"] or "")
            rest = rest[match.end() :]
        if rest == before:
            break
    if match := _COMPONENT.match(rest):
        scopes.append(match["scope"])
    title = rest.strip(" -:") or line.strip()
    return title, tuple(scope.strip() for scope in scopes if scope.strip())


def plain(text: str) -> str:
    """Markdown as its words: links as their texts, no images, no marks."""
    text = _IMAGE.sub(" ", text)
    text = _LINK.sub(r"\1", text)
    text = _TAG.sub(" ", text)
    return " ".join(_EMPHASIS.sub("", text).split())


def sentences_of(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph, as plain text of at most `MAX_SENTENCE_CHARS` each."""
    held = ""
    for part in _SENTENCE_END.split(plain(paragraph)):
        sentence = f"{held} {part}".strip() if held else part.strip()
        if _ABBREVIATION.search(sentence[-12:]):
            held = sentence
            continue
        held = ""
        yield from _cut(sentence)
    yield from _cut(held)


def _cut(sentence: str) -> Iterator[str]:
    while len(sentence) > MAX_SENTENCE_CHARS:
        end = sentence.rfind(" ", 1, MAX_SENTENCE_CHARS)
        end = end if end > 0 else MAX_SENTENCE_CHARS
        yield sentence[:end]
        sentence = sentence[end:].strip()
    if re.search(r"\w", sentence) and not re.fullmatch(r"https?://\S+", sentence):
        yield sentence
