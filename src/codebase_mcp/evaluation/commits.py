"""Which queries does a history hold? A commit's subject asks for the files that it changed.

Left out are commits that ask for nothing (merges, releases, reverts, what programs write) and those
that changed so many files that their subject is about none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from codebase_mcp.evaluation.questions import MAX_QUERY_CHARS, Question, Target
from codebase_mcp.model import FileKind
from codebase_mcp.source.history import Commit, find_tip, list_commits, read_commits
from codebase_mcp.tokens import STOP_WORDS, WORD

GROUP = "commits"

# So far back the files that are there now still have much in common with those that were changed.
DEPTH = 5_000

# A subject that is about more files is about none of them.
MAX_FILES = 5

# Fewer words than these ask for nothing.
_MIN_WORDS = 3


# "fix(parser): ", "[API] ", "PROJ-12: ", "net/http: " before, "(#123)", "[skip ci]", "." behind.
_BEFORE = re.compile(
    r"""(?:\[[^\]]{1,30}\]\s*:?\s*
    |[A-Z][A-Z0-9]+-[0-9]+\s*[:\-]?\s+
    |\#[0-9]+\s*[:\-]?\s+
    |[\w./*-]{1,40}(?:\([^)]{1,60}\))?!?:\s+
    |:[a-z0-9_+-]+:\s*
    )+""",
    re.VERBOSE,
)
_BEHIND = re.compile(
    r"""(?:\s*\((?:[\w./-]*\#|gh-)[0-9]+\)
    |\s*\[[^\]]{1,30}\]
    |[\s,;]*\(?(?:closes?|fix(?:es)?|refs?|see)\s+(?:[\w./-]*\#|gh-)[0-9]+\)?
    |[.\s]+
    )+$""",
    re.VERBOSE | re.IGNORECASE,
)
_SAYS_NOTHING = re.compile(
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
    """The queries of a directory's history, newest first, and how many commits were looked at.

    ``kinds`` are the files that are indexed, by path.

    Raises:
        IndexingFailed: git cannot read the history.
    """
    tip = find_tip(root)
    commits = read_commits(tip, list_commits(tip, DEPTH)) if tip is not None else []
    return asked_by(commits, kinds), len(commits)


def asked_by(commits: Iterable[Commit], kinds: Mapping[str, FileKind]) -> list[Question]:
    """The queries of some commits; a subject that stands over several of them asks for nothing."""
    made = []
    for commit in commits:
        subject = subject_of(commit.message)
        targets = targets_of(commit, kinds)
        if subject and targets:
            wanted = tuple(Target(path) for path in targets)
            made.append(Question(subject, wanted, GROUP, commit.hash[:12]))
    counts = Counter(question.text.casefold() for question in made)
    return [question for question in made if counts[question.text.casefold()] == 1]


def subject_of(message: str) -> str:
    """A message's first line without labels and numbers of issues; empty if it asks for nothing."""
    line = message.split("\n", 1)[0].strip()
    if _SAYS_NOTHING.match(line):
        return ""
    bare = _BEHIND.sub("", line[_end_of_labels(line) :])
    words = [w for w in WORD.findall(bare.lower()) if w not in STOP_WORDS and not w.isdigit()]
    if len(set(words)) < _MIN_WORDS or _SAYS_NOTHING.match(bare):
        return ""
    return bare[:MAX_QUERY_CHARS].strip()


def targets_of(commit: Commit, kinds: Mapping[str, FileKind]) -> list[str]:
    """The files that a subject is about, of those that are still there.

    That is the code. Of a commit without any it is the tests, but not where files are gone, which
    the subject may have been about. One that changed a manual or settings alone asks for nothing
    that could be found by its words.
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
    found = _BEFORE.match(line)
    return found.end() if found else 0
