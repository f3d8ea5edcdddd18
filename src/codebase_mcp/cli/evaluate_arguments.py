"""The command ``codebase-mcp eval``."""

from __future__ import annotations

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.flags import SettingsParser

SOURCES = ("commits", "docstrings", "all")


def _eval_options(parser: SettingsParser) -> None:
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
    parser.add_argument(
        "--seed", default="0", metavar="N", help="seed for choosing the queries (0)"
    )
    parser.add_argument(
        "--limit", default="10", metavar="N", help="results per query, 10 to 50 (10)"
    )
    parser.add_argument(
        "--worst", default="5", metavar="N", help="number of worst queries to show (5)"
    )


EVAL = Command(
    "eval",
    "Measure search quality on your own repository and queries, compared with grep",
    "evaluate:evaluate",
    _eval_options,
    description="Run the queries of a file, or queries mined from the repository itself, and "
    "report how good the answers are and how many tokens they cost to read, compared with grep. "
    "The repository is indexed first.",
    json="print JSON, every query included",
    defaults={"names_repository": True},
)
