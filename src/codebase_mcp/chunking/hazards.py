"""Which texts would make a grammar's own code crash or hang?

The scanners of some grammars write past a buffer of fixed size, and some parsers take quadratic
time inside one step, where nothing can stop them. Found by feeding each grammar with nested and
repeated tokens; each bound is well within what its grammar bears, and far beyond real code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

# About 250 open blocks kill the process: of Markdown, where a tab may open two, and of YAML, by
# the indentation of a line and by the indicators in it.
_DEEP_MARKDOWN = re.compile(r"^(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]|[ \t]){120}", re.MULTILINE)
_YAML_INDENT = re.compile(r"[ \t?:-]{100}")
_YAML_INDICATOR = re.compile(r"[?:-](?=\s)")
# The length of a heredoc's word is kept in one byte.
_LONG_HEREDOC = re.compile(r"<<[~-]?[\"'`]?[^\s\"'`]{200}")
# Type arguments that are never closed: 20,000 of them take twelve seconds.
_OPEN_TYPE_ARGUMENTS = re.compile(r"(?:<[^<>;{}()]{0,80}){300}")


# These scanners put any character through C's isdigit() and its like, which look it up in a table
# of 256: far enough above, that reads memory which is not there and may kill the process.
_ASCII_ONLY = frozenset({"bash", "cmake", "markdown", "perl"})
_NOT_ASCII = bytes(range(128)) + b"x" * 128

# After an error this scanner asks memory that it never wrote which token came before.
_LOST_AFTER_ERRORS = frozenset({"cmake"})


def bearable(source: bytes, language: str) -> bytes:
    """What the grammar of this language may see of a text: byte for byte as long, row for row."""
    return source.translate(_NOT_ASCII) if language in _ASCII_ONLY else source


def is_chance(language: str, *, has_error: bool) -> bool:
    """Does the same text give another tree the next time?"""
    return has_error and language in _LOST_AFTER_ERRORS


def is_hazardous(text: str, language: str) -> bool:
    """Must the grammar of this language not see this text?"""
    is_hazard = _HAZARDS.get(language)
    return is_hazard is not None and is_hazard(text)


def _is_deep_markdown(text: str) -> bool:
    return _DEEP_MARKDOWN.search(text) is not None


def _is_deep_yaml(text: str) -> bool:
    return any(
        _YAML_INDENT.match(line) is not None or len(_YAML_INDICATOR.findall(line)) > 50
        for line in text.split("\n")
        if len(line) >= 100
    )


def _has_long_heredoc(text: str) -> bool:
    return _LONG_HEREDOC.search(text) is not None


def _has_open_type_arguments(text: str) -> bool:
    return _OPEN_TYPE_ARGUMENTS.search(text) is not None


_HAZARDS: Mapping[str, Callable[[str], bool]] = {
    "csharp": _has_open_type_arguments,
    "java": _has_open_type_arguments,
    "markdown": _is_deep_markdown,
    "perl": _has_long_heredoc,
    "ruby": _has_long_heredoc,
    "yaml": _is_deep_yaml,
}
