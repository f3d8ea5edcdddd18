"""What cannot be meant together is refused before anything is done."""

from __future__ import annotations

import pytest

from codebase_mcp.cli.indexing import check_flags
from codebase_mcp.cli.main import build_parser
from codebase_mcp.errors import InvalidInput

URL = "https://host/org/repo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([".", "--dry-run", "--background"], "--dry-run and --background contradict each other"),
        ([".", "--depth", "1"], "--depth is for URLs: a directory is indexed as it is"),
        ([".", "--branch", "x"], "--branch is for URLs: a directory is indexed as it is"),
        ([".", "--full"], "--full is for URLs: a directory is indexed as it is"),
        ([URL, "--full", "--depth", "3"], "--full and --depth contradict each other"),
        ([".", "--forks"], "--forks needs --organisation"),
        ([URL, "--code-host", "github"], "--code-host needs --organisation"),
    ],
)
def test_contradictory_flags_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [".", "--dry-run", "--force"], [URL, "--branch", "x", "--depth", "3"], [URL, "--full"],
        [".", URL, "--full"], ["--organisation", URL, "--depth", "3", "--match", "a*"],
    ],
)  # fmt: skip
def test_consistent_flags_are_accepted(arguments: list[str]) -> None:
    check(arguments)


def check(arguments: list[str]) -> None:
    options = build_parser().parse_args(["index", *arguments])
    check_flags(options, [*options.paths, *(options.organisation or ())])
