"""What a person sees of a search."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, datetime
from pathlib import Path

from codebase_mcp.app.app import SearchReport
from codebase_mcp.app.scopes import CallScope
from codebase_mcp.cli.searching import show
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.freshness.verified_search import IndexFreshness
from codebase_mcp.replies.text import read_search
from codebase_mcp.search.hits import Hit
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.search.search import Answer

REPOSITORY = uuid.uuid4()
HIT = Hit(
    chunk_id=uuid.uuid4(),
    repository_id=REPOSITORY,
    file_path="src/pay.py",
    language="python",
    file_kind="code",
    content="def pay(card):\n    return charge(card, 'a very long line that does not fit', 1)\n",
    start_line=9,
    end_line=10,
    symbol="pay",
    kind="function",
    similarity_score=0.91,
    context_before="",
    context_after="",
    matching_lines=(10,),
)


def shown(*, is_terminal: bool) -> str:
    profile = Profile(1, "1.1.1-a", "builtin", 256)
    snapshot = ScopedSnapshot(
        profile,
        uuid.UUID(int=1),
        "worktree",
        1,
        REPOSITORY,
        "/home/me/shop",
        "shop",
        0.0,
        0,
        0,
        "{}",
        None,
    )
    project = Project(None, "project_default", datetime.now(UTC))
    report = SearchReport(
        Answer([HIT], 3, 5, False, (snapshot,)),
        project,
        "default",
        IndexFreshness("ready", 0, 0, 0, None, None),
        3.2,
        CallScope(project, "default", (Path("/home/me/shop"),), "repository"),
    )
    terminal, text = Terminal(), io.StringIO()
    terminal.file, terminal.width = text, 40
    if is_terminal:
        terminal._force_terminal = True
        terminal._color_system = terminal._detect_color_system()
    show(read_search(report), report, terminal)
    return text.getvalue()


def test_lines_are_cut_to_the_width_and_numbered() -> None:
    assert shown(is_terminal=False).splitlines() == [
        "1. src/pay.py:9-10  0.91  pay",
        " 9  def pay(card):",
        "10      return charge(card, 'a very lon…",
        "3 ms",
    ]


def test_on_a_terminal_a_path_links_to_its_file() -> None:
    assert "file:///home/me/shop/src/pay.py" in shown(is_terminal=True)
