"""What does a title say, without its tags, its type and its numbers?"""

from __future__ import annotations

import re

_TAG = re.compile(r"\s*\[([^\[\]\n]{1,40})\]\s*[:-]?\s*")
_TYPE = re.compile(
    r"""(?:feat(?:ure)?|fix(?:es|ed)?|bug(?:fix|[ -]?report)?|docs?|chore|refactor|perf|tests?|build
      |ci|style|revert|hotfix|improvement|enhancement|enh|internal|types?|deps|wip|feature\ request
      |question|regression|issue|problem|breaking)(?:\((?P<scope>[^()\n]{1,60})\))?!?\s?:\s+""",
    re.IGNORECASE | re.VERBOSE,
)
_COMPONENT = re.compile(r"(?P<scope>[\w./@{},*+-]{2,50}): +(?=\S)")
_NUMBER = re.compile(
    r"""^(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|issue|pr|bug)?\s?(?:\#|gh-|bpo-)\d+
        |[A-Z]{2,10}-\d+|\d{3,}:)(?:\s?[,&]\s?\#\d+)*\s?[:.-]?\s+(?=\S)""",
    re.IGNORECASE | re.VERBOSE,
)
_NUMBER_BEHIND = re.compile(
    r"\((?:(?:fix(?:es)?|close[sd]?|refs?|see|issue|pr|backport)?[\s:]*(?:#|gh-|!)\d+[\s,]*+)+\)$",
    re.IGNORECASE,
)
_DULL_TAG = re.compile(
    r"""(?:bug|feature|feat|fix|request|question|docs?|rfc|wip|draft|regression|help|closed
      |enhancement|improvement|proposal|issue|task|tests?|ci
      |chore|backport|skip\ ci|\d[\d.x]*|v\d.*|patch
      |urgent|security|perf|breaking|untested|[A-Z]+-\d+|\#\d+)(?:[ /:,-].*)?""",
    re.IGNORECASE | re.VERBOSE,
)


def title_of(line: str) -> tuple[str, tuple[str, ...]]:
    """The words of a title, and the components that its tags and its prefix name."""
    scopes: list[str] = []
    rest = without_number(line.strip())
    for _ in range(4):
        before = rest
        if match := _TAG.match(rest):
            scopes += [] if _DULL_TAG.fullmatch(match[1]) else [match[1]]
            rest = rest[match.end() :]
        rest, scope = without_type(_NUMBER.sub("", rest))
        scopes += re.split(r"[,|&]\s*", scope)
        if rest == before:
            break
    match = _COMPONENT.match(rest)
    if match and not match["scope"].endswith(("Error", "Exception", "error", "panic")):
        scopes.append(match["scope"])
    title = rest.strip(" -:") or line.strip()
    return title, tuple(scope.strip() for scope in scopes if scope.strip())


def without_type(text: str) -> tuple[str, str]:
    """A line without "fix(scope): " in front, and the scope."""
    match = _TYPE.match(text)
    return (text[match.end() :], match["scope"] or "") if match else (text, "")


def without_number(text: str) -> str:
    """A title without the number of its pull request behind it."""
    start = text.rfind("(", -80)
    return text[:start].rstrip() if start > 0 and _NUMBER_BEHIND.match(text, start) else text
