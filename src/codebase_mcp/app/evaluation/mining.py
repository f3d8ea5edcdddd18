"""Which queries can be mined from a repository? A random sample of its commits and comments.

The subject of a commit is a query for the files it changed. Uninformative commits (merges,
releases, reverts, automatic commits) are left out, and commits that changed too many files.

The first sentence of a comment about a definition is a query for it. The comment is in the index as
well, with the same words, so such queries favour lexical search and grep. Sentences that only
repeat the definition's name are left out.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codebase_mcp.app.evaluation.grep import Corpus, FileText
from codebase_mcp.app.evaluation.questions import MAX_QUERY_CHARS, Question, Target
from codebase_mcp.chunking.split import split
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import FileKind, Outline, Symbol
from codebase_mcp.source.commit_log import Commit, find_tip, list_commits, read_commits
from codebase_mcp.text.tokens import STOP_WORDS, WORD, path_parts, split_word, stem

Source = Literal["commits", "docstrings", "all"]

# How many commits are read. Files of older commits have little in common with today's.
DEPTH = 5_000

# The subject of a commit with more files describes none of them in particular.
MAX_FILES = 5

# A subject with fewer content words is not a query.
_MIN_SUBJECT_WORDS = 3

# Prefixes: "fix(parser): ", "[API] ", "PROJ-12: ", "net/http: ".
# Suffixes: "(#123)", "[skip ci]", ".".
_PREFIX = re.compile(
    r"""^(?:\[[^\]]{1,30}\]\s*:?\s*
    |[A-Z][A-Z0-9]+-[0-9]+\s*[:\-]?\s+
    |\#[0-9]+\s*[:\-]?\s+
    |[\w./*-]{1,40}(?:\([^)]{1,60}\))?!?:\s+
    |:[a-z0-9_+-]+:\s*
    )+""",
    re.VERBOSE,
)
_SUFFIX = re.compile(
    r"""(?:\s*\((?:[\w./-]*\#|gh-)[0-9]+\)
    |\s*\[[^\]]{1,30}\]
    |[\s,;]*\(?(?:closes?|fix(?:es)?|refs?|see)\s+(?:[\w./-]*\#|gh-)[0-9]+\)?
    |[.\s]+
    )+$""",
    re.VERBOSE | re.IGNORECASE,
)
_UNINFORMATIVE = re.compile(
    r"""^(?:merge[ds]?\b|reverts?\b|wip\b|fixup!|squash!|amend!|bump\b|v?\d+(?:\.\d+)+\b
    |initial\s+(?:commit|import|revision)|back\s+to\s+development
    |(?:releas\w+|prepar\w+|tag|version|cut|start|begin)\b
        .*(?:\d+\.\d+|\bversions?\b|\breleases?\b)
    |(?:update|upgrade|pin)\s+(?:all\s+)?
        (?:dependenc|requirements|dev\s+dep|lock\s?file|submodule|version
        |changelog|copyright|translations?\b|authors|contributors)
    |(?:update|add)\s+(?:the\s+)?(?:changelog|news|history|readme(?:\.\w+)?)$
    |(?:fix|fixed|fixes|correct)\s+(?:a\s+|some\s+|more\s+)?
        (?:typos?|lint\w*|formatting|style|tests?|ci|build)\b\W*$
    |(?:minor|small|tiny|more|some|various)\s+(?:\w+\s+)?
        (?:fix(?:es)?|changes?|clean-?ups?|tweaks?|refactor\w*)\W*$
    |(?:remove[ds]?|fix(?:ed)?|trim)\s+(?:trailing\s+)?white-?spaces?
    |(?:run|apply|appease)\s+
        (?:black|ruff|prettier|gofmt|rustfmt|clippy|pre-commit|formatter|linter)
    |address\s+(?:\w+\s+)?(?:review|comments|feedback))""",
    re.VERBOSE | re.IGNORECASE,
)

# A single file must not dominate the sample.
MAX_PER_FILE = 3

# The sample is drawn from this many times as many questions, so that few files give several.
_SPARE = 3

_KINDS = frozenset("class enum function interface method module struct trait type".split())
_MIN_WORDS, _MAX_WORDS = 4, 30
_MIN_CONTENT_WORDS = 3

# Words that are not part of the name; with fewer, the sentence only repeats the name.
_MIN_NEW_WORDS = 2

_DOCSTRING = re.compile(r"[rRuUbB]{0,2}(\"\"\"|'''|\"|')")
_MARKERS = re.compile(
    r"^\s*(?:/\*+!?|\*+/|\*+|//+!?|#+!?|--+(?:\[\[|\s*[|^])?|;+|%+|\{-+\|?|\(\*+)?[ \t]?"
)
_ENDS = re.compile(r"(?:\*+/|\]\]|-\}|\*\)|\"\"\"|''')\s*$")
_TAG = re.compile(
    r"""^\s*(?:[@\\]\w|:\w[^:]*:(?!`)
    |(?:args?|arguments|params?|parameters|returns?|yields?|raises|throws
    |examples?|notes?|see\ also|usage|attributes)\s*:?\s*$
    |-\ (?:parameters?|returns|throws|note|warning|important|complexity)\b
    |[-=~*_]{3,}\s*$|```|>>>|\.\.\s|<pre)""",
    re.VERBOSE | re.IGNORECASE,
)
_BRIEF = re.compile(r"^\s*[@\\](?:brief|summary)\s+|^\s*<summary>\s*|</summary>\s*$", re.IGNORECASE)
_ROLE = re.compile(r":[a-z:]+:`~?([^`<]+)(?:<[^`]*>)?`|\{@\w+\s+([^}]*)\}")
_REFERENCE = re.compile(r"<\w+\s+(?:cref|name|langword)\s*=\s*\"(?:[^\"]*[.:])?([^\".:]+)\"\s*/?>")
_MARKUP = re.compile(r"</?[a-zA-Z][^>]*>|`|\*+(?=\w)|(?<=[\w.)])\*+|\s\*+$")
_SENTENCE_END = re.compile(r"(?<=[\w)\]'\"])[.!?](?=\s|$)")
# "e.g. " ends no sentence.
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|resp|approx|incl)$", re.IGNORECASE)
_NO_DESCRIPTION = re.compile(
    r"""^(?:note|warning|important|nb)\b
    |\b(?:todo|fixme|xxx|hack|noqa|nolint|eslint|pylint|pragma|type:\s*ignore
    |copyright|licen[cs]ed?|spdx|all\ rights\ reserved|do\ not\ edit|generated\ by
    |auto-?generated|deprecated|inheritdoc|region|endregion|https?:)""",
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(r"[{}=;<>]|\w\(|\)\.|::|->|\[\w")


@dataclass(frozen=True, slots=True)
class _Comment:
    """Consecutive comments, in rows of their own (0-based, inclusive)."""

    text: str
    first: int
    last: int


def mine(corpus: Corpus, source: Source, count: int, seed: int) -> list[Question]:
    """At most ``count`` queries from a tree; with ``all`` half of them of each kind, if possible.

    The same tree, count and seed give the same queries.

    Raises:
        InvalidInput: no query was found.
        IndexingFailed: git cannot read the history.
    """
    of_commits: list[Question] = []
    of_files: list[Question] = []
    commits_read = files_read = 0
    if source != "docstrings":
        of_commits, commits_read = _of_commits(corpus)
    if source != "commits":
        of_files, files_read = _of_comments(corpus, count, seed)
    sample = _halves(of_commits, of_files, count, random.Random(seed))
    if not sample:
        raise InvalidInput(
            f"No queries can be mined from {corpus.root}: none of {commits_read} commits and "
            f"{files_read} files of code has a usable subject or comment",
            hint="Write some yourself, one a line: query, TAB, path. Then: codebase-mcp eval FILE",
        )
    return [replace(question, origin=f"query {n}") for n, question in enumerate(sample, 1)]


def _halves(
    first: Sequence[Question], second: Sequence[Question], count: int, rng: random.Random
) -> list[Question]:
    """A sample of both lists without duplicate texts; a list that is too short gives less."""
    half = count // 2 if second else count
    sample = rng.sample(first, min(len(first), max(half, count - len(second))))
    sample += rng.sample(second, min(len(second), count - len(sample)))
    return list({question.text: question for question in sample}.values())


def _of_commits(corpus: Corpus) -> tuple[list[Question], int]:
    """The queries in the history of a tree, newest first, and the number of commits read."""
    tip = find_tip(corpus.root)
    commits = read_commits(tip, list_commits(tip, DEPTH)) if tip is not None else []
    kinds = {path: file.kind for path, file in corpus.files.items()}
    return questions_from(commits, kinds), len(commits)


def questions_from(commits: Iterable[Commit], kinds: Mapping[str, FileKind]) -> list[Question]:
    """The queries of some commits, without subjects that several commits share."""
    questions = []
    for commit in commits:
        subject = subject_of(commit.message)
        targets = targets_of(commit, kinds)
        if subject and targets:
            files = tuple(Target(path) for path in targets)
            questions.append(Question(subject, files, "commits", commit.hash[:12]))
    return _unique(questions)


def _unique(questions: Sequence[Question]) -> list[Question]:
    """The questions whose text no other question has."""
    counts = Counter(question.text.casefold() for question in questions)
    return [question for question in questions if counts[question.text.casefold()] == 1]


def subject_of(message: str) -> str:
    """A message's first line without labels and issue numbers; empty if it is uninformative."""
    line = message.split("\n", 1)[0].strip()
    if _UNINFORMATIVE.match(line):
        return ""
    bare = _SUFFIX.sub("", _PREFIX.sub("", line, count=1))
    words = [w for w in WORD.findall(bare.lower()) if w not in STOP_WORDS and not w.isdigit()]
    if len(set(words)) < _MIN_SUBJECT_WORDS or _UNINFORMATIVE.match(bare):
        return ""
    return bare[:MAX_QUERY_CHARS].strip()


def targets_of(commit: Commit, kinds: Mapping[str, FileKind]) -> list[str]:
    """The files that a subject describes, of those that still exist.

    These are the files of code, or the tests of a commit without code. If a file of such a commit
    is gone, the subject may have described that file, so there are no targets. Commits of documents
    or settings alone have none either.
    """
    if not 1 <= (commit.paths_total or 0) <= MAX_FILES:
        return []
    of_kind = {
        kind: [path for path in commit.paths if kinds.get(path) is kind]
        for kind in (FileKind.CODE, FileKind.TEST)
    }
    is_whole = all(path in kinds for path in commit.paths)
    return of_kind[FileKind.CODE] or (of_kind[FileKind.TEST] if is_whole else [])


def _of_comments(corpus: Corpus, count: int, seed: int) -> tuple[list[Question], int]:
    """At most ``count`` queries in comments, and how many files were read for them.

    The files are read in a random order that depends on the seed.
    """
    rng = random.Random(seed)
    paths = sorted(path for path, file in corpus.files.items() if file.kind is FileKind.CODE)
    rng.shuffle(paths)
    questions: list[Question] = []
    read = 0
    for path in paths:
        file = corpus.read(path)
        if file is None or file.kind is not FileKind.CODE:
            continue
        read += 1
        described = described_in(file)
        questions += rng.sample(described, min(MAX_PER_FILE, len(described)))
        if len(questions) >= _SPARE * count:
            break
    unique = _unique(questions)
    return rng.sample(unique, min(count, len(unique))), read


def described_in(file: FileText) -> list[Question]:
    """The queries for the definitions of a file that a comment describes well enough."""
    outline = split(file.text, file.language)
    symbols = [symbol for symbol in outline.symbols if symbol.kind in _KINDS]
    if not symbols:
        return []
    made: dict[Symbol, Question] = {}
    lines = file.lines
    for comment in _comments(outline, file.text):
        symbol = _documented(comment, symbols, lines) or _described(comment, symbols, lines)
        if symbol is None or symbol in made:
            continue
        sentence = _without_name(first_sentence(comment.text), symbol.name)
        if not _is_query(sentence, symbol, file.path):
            continue
        target = Target(file.path, (symbol.start_line, symbol.end_line))
        made[symbol] = Question(sentence, (target,), "docstrings", symbol.qualified)
    return list(made.values())


def first_sentence(comment: str) -> str:
    """The first sentence of a comment without its markup; empty if it describes nothing."""
    words: list[str] = []
    opening = _DOCSTRING.match(comment)
    for line in (comment[opening.end() :] if opening else comment).split("\n"):
        bare = _BRIEF.sub("", _ENDS.sub("", line if opening else _MARKERS.sub("", line)))
        if opening:
            bare = bare.strip().removesuffix(opening.group(1))
        if not bare.strip():
            if words:
                break
            continue
        if _TAG.match(bare):
            break
        words.append(bare.strip())
    text = _ROLE.sub(lambda match: match.group(1) or match.group(2) or "", " ".join(words))
    text = _MARKUP.sub("", _REFERENCE.sub(r"\1", text))
    text = re.sub(r"\s+", " ", text).strip()
    for end in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[: end.start()]):
            return text[: end.start()]
    return text.rstrip(".:! ")


def _without_name(sentence: str, name: str) -> str:
    """The sentence without the name that it begins with, as the custom is in Go."""
    first, _, rest = sentence.partition(" ")
    return rest.strip() if first.rstrip(":") == name else sentence


def _is_query(sentence: str, symbol: Symbol, path: str) -> bool:
    """Whether a user could search for the definition with this sentence, without its name."""
    words = WORD.findall(sentence)
    if not _MIN_WORDS <= len(words) <= _MAX_WORDS:
        return False
    if _NO_DESCRIPTION.search(sentence) or _CODE.search(sentence):
        return False
    if symbol.name in words and len(split_word(symbol.name)) > 1:
        return False
    name_stems = {
        stem(part) for word in WORD.findall(symbol.qualified) for part in split_word(word)
    }
    name_stems.update(map(stem, path_parts(path)[0]))
    stems = {
        stem(part)
        for word in words
        if word.lower() not in STOP_WORDS
        for part in split_word(word)
        if part.isalpha() and len(part) > 1
    }
    return len(stems) >= _MIN_CONTENT_WORDS and len(stems - name_stems) >= _MIN_NEW_WORDS


def _comments(outline: Outline, text: str) -> Iterator[_Comment]:
    """The comments that begin their rows, with their position; consecutive comments are merged."""
    run: _Comment | None = None
    at, row = 0, 0
    for comment in outline.comments:
        position = text.find(comment, at)
        if position < 0:
            continue
        row += text.count("\n", at, position)
        start = text.rfind("\n", 0, position) + 1
        first, at = row, position
        last = first + comment.rstrip("\n").count("\n")
        if text[start:position].strip():
            continue
        is_next = run is not None and run.last + 1 == first and not _DOCSTRING.match(comment)
        if run is not None and is_next:
            run = replace(run, text=f"{run.text.rstrip()}\n{comment}", last=last)
            continue
        if run is not None:
            yield run
        run = _Comment(comment, first, last)
    if run is not None:
        yield run


def _documented(
    comment: _Comment, symbols: Sequence[Symbol], lines: Sequence[str]
) -> Symbol | None:
    """The definition whose docstring the comment is."""
    if not _DOCSTRING.match(comment.text):
        return None
    line = comment.first + 1
    around = [symbol for symbol in symbols if symbol.start_line < line <= symbol.end_line]
    if not around:
        return None
    inner = max(around, key=lambda symbol: symbol.start_line)
    head = [text for text in lines[inner.start_line - 1 : comment.first] if text.strip()]
    return inner if head and head[-1].rstrip().endswith(":") else None


def _described(comment: _Comment, symbols: Sequence[Symbol], lines: Sequence[str]) -> Symbol | None:
    """The definition right below a comment; decorators and attributes may stand between."""
    if _DOCSTRING.match(comment.text):
        return None
    row = comment.last + 1
    while row < len(lines) and lines[row].lstrip().startswith(("@", "#[")):
        row += 1
    starting = [symbol for symbol in symbols if comment.last + 1 < symbol.start_line <= row + 1]
    return max(starting, key=lambda symbol: symbol.end_line - symbol.start_line, default=None)
