"""Which number does an option of a command say?"""

from __future__ import annotations

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.rules import whole_number


def number_of(option: str, text: str, least: int, most: int) -> int:
    """The whole number that was given to ``--OPTION``.

    Raises:
        InvalidInput: it is not a whole number within these bounds.
    """
    rule = whole_number(least, most)
    try:
        number: int = rule.parse(text)
    except ValueError as error:
        raise InvalidInput.of(option, text, f"--{option} {error}", rule=rule.words) from None
    return number
