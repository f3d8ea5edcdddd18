"""Which texts would make a grammar's own code crash or hang?

The scanners of some grammars write past a buffer of fixed size, and some parsers take quadratic
time inside one step, where nothing can stop them. Found by feeding each grammar with nested and
repeated tokens; each pattern is well within what its grammar bears, and far beyond real code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# About 250 open blocks kill the process; a tab may open two, a space one.
_DEEP_MARKDOWN = re.compile(r"^(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]|[ \t]){120}", re.MULTILINE)
_DEEP_YAML = re.compile(r"^[ \t?-]{120}", re.MULTILINE)
# The length of a heredoc's word is kept in one byte.
_LONG_HEREDOC = re.compile(r"<<[~-]?[\"'`]?[^\s\"'`]{200}")
# Type arguments that are never closed: 20,000 of them take twelve seconds.
_OPEN_TYPE_ARGUMENTS = re.compile(r"(?:<[^<>;{}()]{0,80}){300}")

_HAZARDS: Mapping[str, re.Pattern[str]] = {
    "markdown": _DEEP_MARKDOWN,
    "yaml": _DEEP_YAML,
    "ruby": _LONG_HEREDOC,
    "perl": _LONG_HEREDOC,
    "java": _OPEN_TYPE_ARGUMENTS,
    "csharp": _OPEN_TYPE_ARGUMENTS,
}


def is_hazardous(text: str, language: str) -> bool:
    """Must the grammar of this language not see this text?"""
    pattern = _HAZARDS.get(language)
    return pattern is not None and pattern.search(text) is not None
