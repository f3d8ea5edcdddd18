"""Which queries are in a git history? The subject of a commit is a query for the files it changed.

Uninformative commits (merges, releases, reverts, automatic commits) are left out, and commits that
changed too many files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from codebase_mcp.app.evaluation.questions import MAX_QUERY_CHARS, Question, Target
from codebase_mcp.model import FileKind
from codebase_mcp.source.commit_log import Commit, find_tip, list_commits, read_commits
from codebase_mcp.text.tokens import STOP_WORDS, WORD

GROUP = "commits"

# How many commits are read. Files of older commits have little in common with today's.
DEPTH = 5_000

# The subject of a commit with more files describes none of them in particular.
MAX_FILES = 5

# A subject with fewer content words is not a query.
_MIN_WORDS = 3


# Prefixes: "fix(parser): ", "[API] ", "PROJ-12: ", "net/http: ".
# Suffixes: "(#123)", "[skip ci]", ".".
_PREFIX = re.compile(
    r"""(?:\[[^\]]{1,30}\]\s*:?\s*
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


def questions_in(root: Path, kinds: Mapping[str, FileKind]) -> tuple[list[Question], int]:
    """The queries in the history of a directory, newest first, and the number of commits read.

    ``kinds`` are the files that are indexed, by path.

    Raises:
        IndexingFailed: git cannot read the history.
    """
    tip = find_tip(root)
    commits = read_commits(tip, list_commits(tip, DEPTH)) if tip is not None else []
    return questions_from(commits, kinds), len(commits)


def questions_from(commits: Iterable[Commit], kinds: Mapping[str, FileKind]) -> list[Question]:
    """The queries of some commits, without subjects that several commits share."""
    questions = []
    for commit in commits:
        subject = subject_of(commit.message)
        targets = targets_of(commit, kinds)
        if subject and targets:
            files = tuple(Target(path) for path in targets)
            questions.append(Question(subject, files, GROUP, commit.hash[:12]))
    counts = Counter(question.text.casefold() for question in questions)
    return [question for question in questions if counts[question.text.casefold()] == 1]


def subject_of(message: str) -> str:
    """A message's first line without labels and issue numbers; empty if it is uninformative."""
    line = message.split("\n", 1)[0].strip()
    if _UNINFORMATIVE.match(line):
        return ""
    bare = _SUFFIX.sub("", line[_end_of_labels(line) :])
    words = [w for w in WORD.findall(bare.lower()) if w not in STOP_WORDS and not w.isdigit()]
    if len(set(words)) < _MIN_WORDS or _UNINFORMATIVE.match(bare):
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


def _end_of_labels(line: str) -> int:
    labels = _PREFIX.match(line)
    return labels.end() if labels else 0
