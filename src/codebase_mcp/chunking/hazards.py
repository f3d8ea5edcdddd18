"""Which texts would make the native code of a grammar crash or hang?

The scanners of some grammars write past a fixed-size buffer, and some parsers take quadratic time
in a single step that cannot be interrupted. Found by feeding each grammar nested and repeated
tokens. Each limit is well below what its grammar tolerates, and far above real code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# About 250 nested blocks crash the process: in Markdown, where a tab may open two, and in YAML, by
# the indentation of a line or by the indicators in it.
_DEEP_MARKDOWN = re.compile(r"^(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]|[ \t]){120}", re.MULTILINE)
_YAML_INDENT = re.compile(r"[ \t?:-]{100}")
_YAML_INDICATOR = re.compile(r"[?:-](?=\s)")
# The length of a heredoc's word is kept in a byte.
_LONG_HEREDOC = re.compile(r"<<[~-]?[\"'`]?[^\s\"'`]{200}")
# Unclosed type arguments: 20,000 of them take twelve seconds.
_OPEN_TYPE_ARGUMENTS = re.compile(r"(?:<[^<>;{}()]{0,80}){300}")
_HAZARDS: Mapping[str, re.Pattern[str]] = {
    "csharp": _OPEN_TYPE_ARGUMENTS,
    "java": _OPEN_TYPE_ARGUMENTS,
    "markdown": _DEEP_MARKDOWN,
    "perl": _LONG_HEREDOC,
    "ruby": _LONG_HEREDOC,
}


# These scanners pass any character to C's isdigit() and similar functions, which index a table of
# 256 entries. A large code point reads invalid memory and may crash the process.
_ASCII_ONLY = frozenset({"bash", "cmake", "markdown", "perl"})
_NOT_ASCII = bytes(range(128)) + b"x" * 128

# After a syntax error this scanner reads uninitialised memory.
_RANDOM_AFTER_ERRORS = frozenset({"cmake"})


def mask_unsafe(source: bytes, language: str) -> bytes:
    """The text with unsafe bytes replaced; every byte keeps its position."""
    return source.translate(_NOT_ASCII) if language in _ASCII_ONLY else source


def is_nondeterministic(language: str, *, has_error: bool) -> bool:
    """Whether the same text may give a different tree the next time."""
    return has_error and language in _RANDOM_AFTER_ERRORS


def is_hazardous(text: str, language: str) -> bool:
    """Whether the text must not be passed to the grammar of this language."""
    if language == "yaml":
        return any(
            _YAML_INDENT.match(line) is not None or len(_YAML_INDICATOR.findall(line)) > 50
            for line in text.split("\n")
            if len(line) >= 100
        )
    hazard = _HAZARDS.get(language)
    return hazard is not None and hazard.search(text) is not None
