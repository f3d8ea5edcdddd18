"""The options of ``codebase-mcp eval``. Nothing but argparse is imported."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

SOURCES = ("commits", "docstrings", "all")


def add_eval_command(commands: Any, lazily: Callable[[str, str], Any]) -> None:
    """How good is search on one's own repository and queries?"""
    parser: argparse.ArgumentParser = commands.add_parser(
        "eval",
        help="Measure search on your own repository and queries, beside grep",
        description="Ask the queries of a file, or queries mined from the repository itself, and "
        "tell how good the answers are and what they cost to read, beside grep's. "
        "The repository is indexed first, or what changed in it.",
    )
    parser.set_defaults(command=lazily("evaluate", "evaluate"), names_repository=True)
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="queries with their targets: lines of text (query, TAB, path or path:first-last), "
        "JSON Lines or a JSON list; - for standard input",
    )
    parser.add_argument(
        "--mine",
        choices=SOURCES,
        nargs="?",
        const="all",
        help="take queries from the repository: subjects of commits, with the files that they "
        "changed; first sentences of comments, with what they describe; or half of each (all)",
    )
    parser.add_argument(
        "--save", metavar="FILE", help="with --mine: only write the queries, to be read and edited"
    )
    parser.add_argument(
        "--repo", dest="path", default=".", metavar="PATH", help="the repository's directory (.)"
    )
    parser.add_argument("--count", default="200", metavar="N", help="queries to mine (200)")
    parser.add_argument("--seed", default="0", metavar="N", help="which of those there are (0)")
    parser.add_argument("--limit", default="10", metavar="N", help="results a query, 10 to 50 (10)")
    parser.add_argument(
        "--worst", default="5", metavar="N", help="queries to show that did worst (5)"
    )
    parser.add_argument("--project", help="project workspace (the default one)")
    parser.add_argument("--json", action="store_true", help="print JSON, every query included")
