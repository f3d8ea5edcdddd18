"""The measure of what an agent reads, on real replies: ours over MCP, and what grep would print."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from adapter import project_of
    from quality_queries import EvalQuery, Repository
    from quality_run import bring_up_to_date
    from quality_scoring import Target
    from tokens import answerable, git_dir_for, keeper
    from tokens_run import CODE, GREP, GREP_READ, GREP_WHOLE, JSON, grep_replies, our_replies
finally:
    sys.path.pop(0)

FILE = "src/auth.py"


@pytest.mark.anyio
async def test_real_replies_are_read_and_counted(
    app: App, make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    root = make_repo()
    target = Target(FILE, frozenset([FILE]), (5, 7))
    asked = EvalQuery("everyday", "authenticate user with password", (target,))
    repository = Repository("sample", "python", root, (asked,))
    await bring_up_to_date(app, repository)
    try:
        ours = await our_replies(app, repository, keeper(tmp_path / "replies"))
    finally:
        await app.drop_project(project_of(root))
    assert {reply.entries[0].path for (reply,) in ours.values()} == {FILE}
    (kept,) = (tmp_path / "replies").glob("*JSON*")
    assert kept.read_text().startswith(f"{asked.text}\nanswer: {FILE}:5-7\n\n" + '{"results":[')
    by_grep = grep_replies(repository)
    assert [by_grep[name][0].entries[0].path for name in (GREP, GREP_READ, GREP_WHOLE)] == [
        FILE
    ] * 3
    text = (root / FILE).read_text()
    assert by_grep[GREP_WHOLE][0].entries[0].chars == len(text)
    records = {one.tool: one for one in git_dir_for(repository, {**ours, **by_grep})}
    for record in records.values():
        assert record.lines is not None
        assert record.lines.shown or record.lines.named, record.tool
    assert records[GREP_WHOLE].by_file.tokens == len(text) / 4
    assert records[CODE].by_file.tokens < records[JSON].by_file.tokens


def test_what_a_tree_does_not_have_is_not_asked_of_it() -> None:
    here, gone = Target("a.py", frozenset(["a.py"])), Target("b.py", frozenset())
    asked = (
        EvalQuery("development", "both", (here, gone)),
        EvalQuery("development", "lost", (gone,)),
    )
    left = answerable(Repository("sample", "python", Path(), asked)).asked
    assert [(one.text, one.targets) for one in left] == [("both", (here,))]
