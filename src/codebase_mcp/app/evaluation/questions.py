"""Queries with their targets: reads and writes files of them.

A file is a JSON list, JSON Lines, or plain text with one ``query<TAB>target<TAB>…`` a line. A
target is ``path``, ``path:line`` or ``path:first-last``, relative to the repository's root; in JSON
also an object with ``path``, ``start_line`` and ``end_line``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from codebase_mcp.errors import InvalidInput

MAX_QUERY_CHARS = 500
"""As long as a query of ``search_code`` may be."""

MAX_QUESTIONS = 10_000

# Further problems are not reported.
_MAX_PROBLEMS = 20
_MAX_VALUE_CHARS = 200

_FIELDS = ("query", "targets", "group", "note")
_TARGET_FIELDS = ("path", "start_line", "end_line")
_TARGET = re.compile(r"(.+?)(?::([0-9]{1,9})(?:-([0-9]{1,9}))?)?")
_HINT = (
    "A line of text is: query, TAB, path or path:first-last. "
    'A line of JSON is: {"query": "…", "targets": ["src/a.py:10-20"]}'
)

Problem = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """A file that answers a query, in some lines (1-based, inclusive) or as a whole."""

    path: str
    span: tuple[int, int] | None = None

    def overlaps(self, other: Target) -> bool:
        """Whether both have a line in common."""
        if self.span is None or other.span is None:
            return self.path == other.path
        (first, last), (start, end) = self.span, other.span
        return self.path == other.path and first <= end and start <= last

    def __str__(self) -> str:
        if self.span is None:
            return self.path
        first, last = self.span
        return f"{self.path}:{first}" if first == last else f"{self.path}:{first}-{last}"


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its targets.

    Figures are also given by ``group``. ``note`` is a remark for people. ``origin`` is the line or
    entry that the query was read from.
    """

    text: str
    targets: tuple[Target, ...]
    group: str = ""
    note: str = ""
    origin: str = field(default="", compare=False)


class _InvalidField(ValueError):
    """A field of a query is invalid; the text is the rule that it breaks."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        super().__init__(rule)
        self.name = name
        self.value = value


def read_questions(name: str, content: bytes) -> list[Question]:
    """The queries of a file.

    Raises:
        InvalidInput: the file has no or invalid queries; the error lists them with the rules.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise _invalid(name, [_problem(f"line {row}", "", "must be text in UTF-8")]) from None
    questions: dict[str, Question] = {}
    problems = []
    for origin, read in _entries(name, text):
        try:
            question = read(origin)
            if first := questions.get(question.text):
                rule = f"is a duplicate of {first.origin}; list all targets of a query there"
                raise _InvalidField("query", question.text, rule)
        except _InvalidField as invalid:
            problems.append(_problem(f"{origin}, {invalid.name}", invalid.value, str(invalid)))
        else:
            questions[question.text] = question
    if not questions and not problems:
        problems = [_problem("the file", "", "holds no query")]
    if len(questions) > MAX_QUESTIONS:
        rule = f"holds more than {MAX_QUESTIONS} queries"
        problems = [_problem("the file", len(questions), rule)]
    if problems:
        raise _invalid(name, problems)
    return list(questions.values())


def check_targets(
    name: str, questions: Iterable[Question], lines_in: Callable[[str], int | None]
) -> None:
    """Check that every target exists; ``lines_in`` returns None for a file that is not indexed.

    Raises:
        InvalidInput: some are not in the repository.
    """
    problems = []
    for question in questions:
        for target in question.targets:
            rule, count = "", lines_in(target.path)
            if count is None:
                rule = "is not an indexed file: missing, misspelt, ignored or not text"
            elif target.span is not None and target.span[1] > count:
                rule = f"has only {count} lines"
            if rule:
                problems.append(_problem(f"{question.origin}, target", target, f"{target} {rule}"))
    if problems:
        raise _invalid(name, problems, "Paths are relative to the repository (--repo).")


def as_lines(questions: Iterable[Question]) -> str:
    """The queries as JSON Lines, which `read_questions` can read."""
    entries = (
        {
            "query": question.text,
            "targets": [_written(target) for target in question.targets],
            **({"group": question.group} if question.group else {}),
            **({"note": question.note} if question.note else {}),
        }
        for question in questions
    )
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _invalid(name: str, problems: list[Problem], hint: str = _HINT) -> InvalidInput:
    """An error that lists all problems of a file of queries."""
    count = f"{len(problems)} things" if len(problems) > 1 else "one thing"
    return InvalidInput(
        f"{name}: {count} to correct; nothing was done",
        hint=hint,
        details={"fields": problems[:_MAX_PROBLEMS]},
    )


def _problem(where: str, value: object, rule: str) -> Problem:
    return {"field": where, "value": str(value)[:_MAX_VALUE_CHARS], "constraint": rule}


def _entries(name: str, text: str) -> Iterator[tuple[str, Callable[[str], Question]]]:
    """The origin of each query in a file, and a function that reads the query."""
    start = text.lstrip()[:1]
    if name.endswith(".json") or (start == "[" and not name.endswith((".jsonl", ".tsv", ".txt"))):
        try:
            content = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            origin = f"line {getattr(error, 'lineno', 1)}"
            raise _invalid(name, [_problem(origin, "", _not_json(error))]) from None
        if not isinstance(content, list):
            raise _invalid(name, [_problem("the file", "", "must hold a JSON list")])
        yield from ((f"query {n}", partial(_from_json, e)) for n, e in enumerate(content, 1))
        return
    is_json = name.endswith((".jsonl", ".ndjson")) or start == "{"
    # Not splitlines(): a form feed in a query ends no line.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.strip() and (is_json or not line.lstrip().startswith("#")):
            yield f"line {number}", partial(_from_json_line if is_json else _from_text, line)


def _not_json(error: Exception) -> str:
    return f"is not JSON: {getattr(error, 'msg', 'too deep')}"


def _from_text(line: str, origin: str) -> Question:
    text, *targets = (part.strip() for part in line.split("\t"))
    if not any(targets):
        raise _InvalidField("target", line, "is missing: add a TAB and a path after the query")
    return Question(_query(text), _targets(filter(None, targets)), origin=origin)


def _from_json_line(line: str, origin: str) -> Question:
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _InvalidField("the line", line, _not_json(error)) from None
    return _from_json(entry, origin)


def _from_json(entry: object, origin: str) -> Question:
    if not isinstance(entry, dict):
        raise _InvalidField("the entry", entry, 'must be an object with "query" and "targets"')
    for key in (key for key in entry if key not in _FIELDS):
        rule = f"is not a field; the fields are {', '.join(_FIELDS)}"
        raise _InvalidField(str(key), entry[key], rule)
    targets = entry.get("targets")
    if not isinstance(targets, list) or not targets:
        raise _InvalidField("targets", targets, "must be a list of at least one target")
    labels = {key: entry.get(key, "") for key in ("group", "note")}
    for key, value in labels.items():
        if not isinstance(value, str):
            raise _InvalidField(key, value, "must be a text")
    group, note = (value.strip()[:_MAX_VALUE_CHARS] for value in labels.values())
    return Question(_query(entry.get("query")), _targets(targets), group, note, origin)


def _query(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not 1 <= len(text) <= MAX_QUERY_CHARS:
        raise _InvalidField("query", value, f"must be a text of 1 to {MAX_QUERY_CHARS} characters")
    return text


def _targets(values: Iterable[object]) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(map(_target, values)))


def _target(value: object) -> Target:
    """A target, which is written as text or as an object."""
    if isinstance(value, dict):
        path, first, last = (value.get(key) for key in _TARGET_FIELDS)
        rule = f"must have {', '.join(_TARGET_FIELDS)} and nothing else"
        if not isinstance(path, str) or value.keys() - _TARGET_FIELDS:
            raise _InvalidField("target", value, rule)
        if not {type(first), type(last)} <= {int, type(None)}:
            raise _InvalidField("target", value, "must have whole numbers as lines")
        if first is None and last is not None:
            rule = "must have a start_line where it has an end_line"
            raise _InvalidField("target", value, rule)
    else:
        match = _TARGET.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise _InvalidField("target", value, "must be a path or path:first-last")
        path, *lines = match.groups()
        first, last = (int(line) if line else None for line in lines)
    bare = path.strip().removeprefix("./")
    if not bare or bare.startswith("/") or ".." in bare.split("/"):
        raise _InvalidField("target", value, "must be a path relative to the repository's root")
    if first is None:
        return Target(bare)
    last = first if last is None else last
    if not 1 <= first <= last:
        raise _InvalidField("target", value, "must have lines from 1 on, the first before the last")
    return Target(bare, (first, last))


def _written(target: Target) -> str | dict[str, Any]:
    """A target as text, or as an object if its path ends like a line number."""
    if _target(str(target)) == target:
        return str(target)
    lines = {} if target.span is None else dict(zip(_TARGET_FIELDS[1:], target.span, strict=True))
    return {"path": target.path, **lines}
