"""The benchmark of answers through the real path: index, search, candidates, trees from git."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git

from codebase_mcp.app.app import App

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from adapter import project_of
    from quality_ablation import ablations
    from quality_dump import Dumping, read_dump, write_dump
    from quality_queries import EvalQuery, Repository, tree_of
    from quality_run import ask, bring_up_to_date
    from quality_scoring import Target
    from quality_trees import git_folder, lay_out
finally:
    sys.path.pop(0)


@pytest.mark.anyio
async def test_a_question_gets_hits_ranks_and_a_dump_of_its_candidates(
    app: App, make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    root = make_repo()
    target = Target("src/auth.py", frozenset(["src/auth.py"]))
    asked = EvalQuery("development", "authenticate user with password", (target,))
    unrelated = EvalQuery("unrelated", "volcano eruption", category="plain", split="check")
    repository = Repository("sample", "python", root, (asked, unrelated))
    dumping = Dumping()
    try:
        assert await bring_up_to_date(app, repository) > 0
        assert await bring_up_to_date(app, repository) == 0
        found = await ask(app, repository, asked, dumping.add)
        nothing = await ask(app, repository, unrelated, dumping.add)
    finally:
        await app.drop_project(project_of(root))
    assert found.ranks == [1]
    assert found.candidate_ranks == (1,)
    assert (found.relevant, found.lost) == (1, 0)
    assert nothing.hits == ()
    write_dump(dumping.dump(), tmp_path / "dump.npz")
    dump = read_dump(tmp_path / "dump.npz")
    assert [question["query"] for question in dump.questions] == [asked.text, unrelated.text]
    assert dump.paths[dump.path[0]] == "src/auth.py"
    assert dump.added[0].sum() == pytest.approx(dump.score[0])
    assert dump.column("best_meaning")[0] > 0
    assert dump.column("coverage")[0] > 0
    assert ablations(dump)["all signals"] == {"development": 1.0}


def test_a_tree_is_laid_out_at_the_revision_that_was_asked_about(tmp_path: Path) -> None:
    checkout = tmp_path / "checkouts" / "owner" / "name"
    (checkout / "src").mkdir(parents=True)
    (checkout / "src" / "a.py").write_text("first\n")
    (checkout / "other.py").write_text("other\n")
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "first")
    revision = git(checkout, "rev-parse", "HEAD")
    (checkout / "src" / "a.py").write_text("second\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "second")
    git_dir = git_folder(tmp_path / "checkouts", "owner/name")
    assert git_dir is not None
    assert lay_out(git_dir, revision, "src", tmp_path / "trees" / "name") == 1
    root = tree_of(tmp_path / "trees", "name", "src")
    assert root is not None
    assert [path.name for path in root.iterdir()] == ["a.py"]
    assert (root / "a.py").read_text() == "first\n"
    with pytest.raises(RuntimeError, match="nowhere"):
        lay_out(git_dir, revision, "nowhere", tmp_path / "trees" / "other")
    assert git_folder(tmp_path / "checkouts", "owner/unknown") is None
