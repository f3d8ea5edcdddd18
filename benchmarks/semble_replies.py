"""What another tool replies, in an environment of its own; ``tokens_run.py`` runs it.

    PYTHON benchmarks/semble_replies.py TREE MODEL < questions.json

Prints, as JSON, for each question what the tool of its server sends, what its command prints (both
with their default arguments), and the chunks that its published measure reads: path, first and
last line, characters.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from semble import SembleIndex
from semble.utils import format_results

MCP = {"top_k": 5, "max_snippet_lines": 10}
COMMAND = {"top_k": 5, "max_snippet_lines": None}
PUBLISHED_DEPTH = 50


def main() -> None:
    """Index, ask everything."""
    tree, model = sys.argv[1:]
    index = SembleIndex.from_path(tree, model_path=model)
    told = [
        {
            "mcp": reply(index, question, **MCP),
            "command": reply(index, question, **COMMAND),
            "chunks": chunks(index, question),
        }
        for question in json.load(sys.stdin)
    ]
    print(json.dumps(told))


def reply(index: SembleIndex, question: str, top_k: int, max_snippet_lines: int | None) -> str:
    """What both send, but for the number of lines."""
    results = index.search(question, top_k=top_k, max_snippet_lines=max_snippet_lines)
    if not results:
        return json.dumps({"error": "No results found."})
    return json.dumps(format_results(question, results, max_snippet_lines))


def chunks(index: SembleIndex, question: str) -> list[tuple[str, int, int, int]]:
    """The code alone, of many results."""
    found = [result.chunk for result in index.search(question, top_k=PUBLISHED_DEPTH)]
    return [(c.file_path, c.start_line, c.end_line, len(c.content)) for c in found]


if __name__ == "__main__":
    # What it notes of every search goes where nobody else reads it.
    with tempfile.TemporaryDirectory(prefix="semble-cache-") as folder:
        os.environ["SEMBLE_CACHE_LOCATION"] = folder
        main()
