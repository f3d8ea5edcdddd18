"""What does a task say in sentences? Without templates, check lists, tables, logs and code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from codebase_mcp.context.templates import (
    CHECK,
    MAX_MARK_CHARS,
    is_code_line,
    is_courtesy,
    is_rule,
    is_trailer,
    is_version,
    lists_tasks,
    section_kind,
)
from codebase_mcp.context.titles import title_of, without_number, without_type

MAX_SENTENCE_CHARS = 400

_LABEL = re.compile(r"([A-Z][\w '/()-]{2,40}):\s")
_EMPHASIZED = re.compile(r"(?:\*\*|__)([^*_]{2,100})(?:\*\*|__)\s*:?\s*(.*)$")
_ATX = re.compile(r"#{1,6}\s+([^#\s].*)()")
_UNDERLINE = re.compile(r"\s{0,3}(?:=+|-{2,})\s*$")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)]|\([a-z\d]\))\s+(?:\[ \]\s+)?")

_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^()\n]{0,500}\)|<img\b[^<>\n]{0,1000}>")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\](?:\([^()\s]{1,500}\)|\[[^\[\]\n]{0,100}\])")
_TAG = re.compile(
    r"</?(?:a|b|i|p|br|em|strong|code|pre|kbd|su[bp]|div|span|summary|table|t[rdh]|[uo]l|li|hr|h\d"
    r"|samp|blockquote|tt|picture|source|video|center|font|section)(?:\s[^<>\n]{0,300})?/?>",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*\*|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])|`+")
# Issues, commits and pages: their addresses are no words of the sentence.
_URL = re.compile(r"[(<\[]?\bhttps?://[^\s()<>\[\]]+[)>\]]?(?=[\s.,;:!?]|$)")
_GNU_QUOTES = re.compile(r"`([^`'\n]{1,80})'(?!\w)")
_FILE_URL = re.compile(r"/(?:blob|raw|blame)/|\.\w{1,4}(?:#.*)?[)>\]]?$")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\.\.)\s+(?=[^\sa-z])|(?<=[^.][.!?][\"')\]])\s+(?=[^\sa-z])"
    r"|(?<=[\u3002\uff01\uff1f])"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|eg|ie|approx|resp|incl|no|fig|sec|aka|Dr|Mr|Ms)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(slots=True)
class Prose:
    """The parts of a text for people: paragraphs as written, code, quotes, and what is folded."""

    title: str = ""
    scopes: tuple[str, ...] = ()
    paragraphs: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        """The paragraphs; and what the text quotes or folds away, if it says little else."""
        if len(self.paragraphs) > 1:
            return self.paragraphs
        return [*self.paragraphs, *self.quoted] or self.folded

    def sentences(self, limit: int) -> tuple[str, ...]:
        """The title and the sentences after it, each once."""
        kept: dict[str, None] = {self.title: None} if self.title else {}
        for number, paragraph in enumerate(self.shown):
            for sentence in islice(sentences_of(paragraph), number == 0, None):
                if not is_courtesy(sentence):
                    kept.setdefault(sentence)
            if len(kept) >= limit:
                break
        return tuple(kept)[:limit]


class _Reader:
    """Reads lines in order; a paragraph ends at an empty line, an item, a heading."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.prose = Prose()
        self.open: list[str] = []
        self.fence: str | None = None
        self.in_comment = False
        self.details = 0
        self.is_dropped = False
        self.is_task_list = False
        self.in_list = False
        self.was_empty = True
        self.quote_line = -2

    def read(self, skip: frozenset[int]) -> Prose:
        for index, line in enumerate(self.lines):
            if index in skip and not self.in_comment:
                self._close()
            else:
                self._line(line, index)
        self._close()
        return self.prose

    def _line(self, line: str, index: int) -> None:
        stripped = line.strip()
        if self._in_fence(line, stripped):
            return
        if self.in_comment or "<!--" in line:
            line = self._without_comment(line)
            stripped = line.strip()
        if not stripped:
            self._close()
            self.was_empty = True
            return
        if (
            ("<" in line and self._folds(stripped))
            or self._is_heading(line, stripped, index)
            or self._is_dropped(line, stripped)
        ):
            self._close()
        elif stripped[0] == ">":
            self._close()
            self._quote(stripped.lstrip("> "), index)
        else:
            self._text(line)
        self.was_empty = False

    def _in_fence(self, line: str, stripped: str) -> bool:
        """Whether a line is in a code block, or begins or ends it."""
        if self.fence is not None:
            if stripped.startswith(self.fence) and not stripped.strip("`~"):
                self.fence = None
            elif not self.is_dropped:
                self.prose.code.append(line)
            return True
        if self.in_comment or not stripped.startswith(("```", "~~~")):
            return False
        marks = len(stripped) - len(stripped.lstrip(stripped[0]))
        if stripped[0] in stripped[marks:]:
            return False
        self._close()
        self.fence = stripped[:marks]
        return True

    def _without_comment(self, line: str) -> str:
        """The line without its comments of HTML; a comment may go on for many lines."""
        kept = []
        while line:
            if self.in_comment:
                _, end, line = line.partition("-->")
                self.in_comment = not end
            else:
                before, start, line = line.partition("<!--")
                kept.append(before)
                self.in_comment = bool(start)
        return "".join(kept)

    def _folds(self, stripped: str) -> bool:
        """Whether a line begins or ends a part that is folded away."""
        begins, ends = "<details" in stripped, "</details" in stripped
        if begins or ends:
            self._close()
            self.details = max(0, self.details + begins - ends)
        return begins or ends

    def _is_heading(self, line: str, stripped: str, index: int) -> bool:
        """Whether a line is a heading: with marks, underlined, or a template's with a colon."""
        if stripped[0] in "#*_":
            match = _ATX.match(stripped) or _EMPHASIZED.match(stripped)
            return match is not None and not match[2] and self._open_section(match[1])
        if not self.was_empty:
            return stripped[0] in "=-" and _UNDERLINE.match(line) is not None
        following = self.lines[index + 1] if index + 1 < len(self.lines) else ""
        if len(stripped) > 100:
            return False
        if following[:1] in {"=", "-"} and _UNDERLINE.match(following) and "|" not in line:
            return self._open_section(stripped)
        is_template = stripped[-1] == ":" and section_kind(stripped) is not None
        return is_template and self._open_section(stripped)

    def _open_section(self, heading: str) -> bool:
        """Begin a section. A heading that no template has is a paragraph."""
        self._close()
        kind = section_kind(heading)
        self.is_dropped = kind == "dropped" and bool(self.prose.paragraphs)
        self.is_task_list = lists_tasks(heading)
        if kind is None or (kind == "dropped" and not self.is_dropped):
            self.open.append(heading.rstrip("# "))
        return True

    def _is_dropped(self, line: str, stripped: str) -> bool:
        if self.is_dropped or is_rule(stripped):
            return True
        if "[" in line and (check := CHECK.match(line)):
            return not self.is_task_list or check[0][-2] != " "
        if len(line) > MAX_MARK_CHARS:
            return False
        has_begun = bool(self.prose.paragraphs or self.open)
        continues = bool(self.open) and line[0].islower()
        is_end = not continues and is_trailer(line)
        if is_end and "://" in line:
            self.prose.code.append(line)  # may name a file
        if is_end or is_courtesy(stripped) or (has_begun and is_version(stripped)):
            return True
        is_block = self.was_empty and not self.in_list and line.startswith(("    ", "\t"))
        if (is_block and has_begun) or is_code_line(stripped.lstrip("-+* ")):
            self.prose.code.append(line)
            return True
        return False

    def _text(self, line: str) -> None:
        if match := _ITEM.match(line):
            self._close()
            self.in_list = True
            line = without_type(line[match.end() :])[0]
        elif self.was_empty and line[0] not in " \t":
            self.in_list = False
        elif len(self.open) == 1 and not self.prose.paragraphs and not line[0].islower():
            self._close()  # the subject of a commit, without an empty line behind it
        self.open.append(_without_label(line))

    def _quote(self, text: str, index: int) -> None:
        if index == self.quote_line + 1:
            text = f"{self.prose.quoted.pop()} {text}"
        self.prose.quoted.append(text)
        self.quote_line = index

    def _close(self) -> None:
        if self.open:
            paragraph = " ".join(line.strip() for line in self.open)
            self.open = []
            (self.prose.folded if self.details else self.prose.paragraphs).append(paragraph)


def _without_label(line: str) -> str:
    """A line without "Expected behavior:" and its like in front."""
    match = _EMPHASIZED.match(line) if line[:1] in {"*", "_"} else _LABEL.match(line)
    if match and section_kind(match[1]) == "template":
        return line[match.end(1) :].lstrip("*_: ")
    return line


def read_prose(lines: Sequence[str], skip: frozenset[int]) -> Prose:
    """The prose and the code among lines without those of ``skip``."""
    prose = _Reader(lines).read(skip)
    first = next(iter(prose.shown), "")
    prose.title, prose.scopes = title_of(next(sentences_of(without_number(first)), ""))
    return prose


def plain(text: str) -> str:
    """Markdown as its words: links as their texts, no images, no marks, no addresses."""
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub(" ", text))
    if "`" in text:
        text = _GNU_QUOTES.sub(r"\1", text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    return " ".join(_EMPHASIS.sub("", without_urls(text)).split())


def without_urls(text: str) -> str:
    """A text without the addresses of issues, commits and pages; those of files stay."""
    if "://" not in text:
        return text
    return _URL.sub(lambda url: url[0] if _FILE_URL.search(url[0]) else "", text)


def sentences_of(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph, as plain text of at most `MAX_SENTENCE_CHARS` each."""
    held = ""
    for part in _SENTENCE_END.split(plain(paragraph)):
        held = f"{held} {part}" if held else part
        if len(held) > MAX_SENTENCE_CHARS or not _ABBREVIATION.search(part[-12:]):
            yield from _cut(held.strip())
            held = ""
    yield from _cut(held.strip())


def _cut(sentence: str) -> Iterator[str]:
    while len(sentence) > MAX_SENTENCE_CHARS:
        end = sentence.rfind(" ", 1, MAX_SENTENCE_CHARS)
        end = end if end > 0 else MAX_SENTENCE_CHARS
        yield sentence[:end]
        sentence = sentence[end:].strip()
    if _LETTER.search(sentence):
        yield sentence
