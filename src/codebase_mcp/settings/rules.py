"""Settings, and the rules for their values: each in words, and as a parser of text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MAX_PATTERNS = 1_000

_BRANCH = re.compile(r"(?!-)[^\s~^:?\[\\\x00-\x1f\x7f]{1,200}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for a value: ``words`` follow "must be"; ``read`` raises ValueError.

    ``metavar`` stands for the value in the help. ``toml`` is the type of the value in a context
    file, whose values are typed: there the text "true" is not a boolean. Where a value is
    ``verbatim``, the spaces around it belong to it.
    """

    words: str
    read: Callable[[str], Any]
    metavar: str = "TEXT"
    toml: type = str
    verbatim: bool = False

    def parse(self, text: str) -> Any:
        """The value that a text means.

        Raises:
            ValueError: it breaks the rule, which the message says.
        """
        try:
            return self.read(text)
        except ValueError:
            raise ValueError(f"must be {self.words}") from None

    def parse_toml(self, value: object) -> Any:
        """The value that a key of a context file holds.

        Raises:
            ValueError: it breaks the rule, or has another type.
        """
        is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
        if type(value) is not self.toml or (self.toml is list and not is_list):
            raise ValueError(f"must be {self._typed()}")
        if isinstance(value, list):
            if any("\n" in part for part in value):
                raise ValueError(f"must be {self._typed()}, without line breaks")
            # A line for each part, so that commas need no escape.
            return self.parse("".join(f"{part}\n" for part in value))
        return self.parse(str(value).lower() if self.toml is bool else str(value))

    def _typed(self) -> str:
        return {list: "a list of strings", bool: "true or false"}.get(self.toml, self.words)


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table."""

    default: Callable[[], Any]
    rule: Rule
    help: str
    name: str = ""
    variable: str = ""
    also: str = ""
    """Another program's variable with the same meaning, used where ours is not set."""
    section: str = "Program"
    is_secret: bool = False
    """Never shown: it may hold a password or a key."""
    has_flag: bool = True
    keys: tuple[str, ...] = ()
    """What a `.mcp-context.toml` calls it, if it concerns a repository; the first is preferred."""
    joined: Callable[[Any, Any], Any] | None = None
    """Combines our value and the file's; without it, the file counts where ours is the default."""
    default_words: str = ""
    """The default, where it depends on the machine."""
    flag_name: str = ""
    """The flag, where it is not the variable's name."""

    @property
    def flag(self) -> str:
        """The flag, usually the variable's name."""
        usual = "--" + self.variable.removeprefix("CODEBASE_MCP_").lower().replace("_", "-")
        return self.flag_name or usual

    @property
    def file_variable(self) -> str:
        """The variable that names a file with the value: how containers are given secrets."""
        return f"{self.variable}_FILE" if self.is_secret else ""


def whole_number(low: int, high: int) -> Rule:
    """A whole number in a range."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]+", text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return Rule(f"a whole number from {low} to {high}", read, "N", int)


def above_zero(unit: str, high: int) -> Rule:
    """A time in this unit, which may have a fraction."""

    def read(text: str) -> float:
        value = float(text)
        if not 0 < value <= high:
            raise ValueError
        return value

    return Rule(f"a number of {unit} above 0 and at most {high}", read, "N")


def one_of(*choices: str) -> Rule:
    """One of these words, in any case."""
    spellings = {choice.lower(): choice for choice in choices}

    def read(text: str) -> str:
        if text.lower() not in spellings:
            raise ValueError
        return spellings[text.lower()]

    return Rule(f"one of {', '.join(choices)}", read, "|".join(choices))


def some_of(names: Collection[str], presets: Mapping[str, tuple[str, ...]]) -> Rule:
    """Some of these names; a preset stands for several names, ``all`` for all."""
    short = {"all": tuple(names), **presets}

    def read(text: str) -> tuple[str, ...]:
        chosen = tuple(chain.from_iterable(short.get(name, (name,)) for name in listed(text)))
        if not chosen or not set(chosen) <= set(names):
            raise ValueError
        return tuple(dict.fromkeys(chosen))

    quoted = ", ".join(f"'{name}'" for name in short)
    return Rule(f"{quoted} or some of: {', '.join(names)}", read, "LIST")


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list: separated by line breaks if there are any, else by commas."""
    parts = text.split("\n" if "\n" in text else ",")
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError
    return text.lower() in ("1", "true", "yes", "on")


def _path(text: str) -> Path:
    if "\0" in text:
        raise ValueError
    return Path(text).expanduser().absolute()


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError
    if "@" in parts.path + parts.query + parts.fragment:  # a password with a / before it
        raise ValueError
    return text.rstrip("/")


def _matching(pattern: str) -> Callable[[str], str]:
    """Accepts the texts that a pattern matches as a whole."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise ValueError
        return text

    return read


def _patterns(text: str) -> tuple[str, ...]:
    # In lines a space may belong to the pattern; the order counts, and repeating may matter.
    lines = text.split("\n") if "\n" in text else [part.strip() for part in text.split(",")]
    patterns = tuple(line for line in lines if line.strip())
    if len(patterns) > MAX_PATTERNS or "\0" in text:
        raise ValueError
    return patterns


def _directories(text: str) -> tuple[str, ...]:
    paths = tuple(os.path.expanduser(part) for part in listed(text))  # noqa: PTH111 - stays text
    if not all(path.startswith("/") and "\0" not in path for path in paths):
        raise ValueError
    return paths


def _branches(text: str) -> tuple[str, ...]:
    names = listed(text)
    if not all(_BRANCH.fullmatch(name) and ".." not in name for name in names):
        raise ValueError
    return names


def _networks(text: str) -> tuple[str, ...]:
    return tuple(str(ip_network(part)) for part in listed(text))


TEXT = Rule("text", str)
PREFIX = Rule("text, or none", lambda text: "" if text == "none" else text, verbatim=True)
PATH = Rule("a path", _path, "PATH")
YES_OR_NO = Rule("true or false", _yes_or_no, "true|false", bool)
LIST = Rule("a list, separated by commas", listed, "LIST", list)
DIRECTORIES = Rule("a list of absolute paths", _directories, "DIRECTORY", list)
HOST = Rule("an address or a name, without scheme and port", _matching(r"[^\s/@]+"), "HOST")
HTTP_URL = Rule("an address that begins with http:// or https://", _http_url, "URL")
DATABASE_URL = Rule(
    "an address that begins with postgresql://", _matching(r"postgres(ql)?(\+\w+)?://.*"), "URL"
)
PATTERNS = Rule(
    f"a list of patterns as in .gitignore, at most {MAX_PATTERNS}",
    _patterns,
    "LIST",
    list,
    verbatim=True,
)
BRANCHES = Rule("a list of branch names, which may contain *", _branches, "LIST", list)
NETWORKS = Rule(
    "a list of networks and addresses, such as 10.0.0.0/8 or 2001:db8::1", _networks, "CIDR", list
)
