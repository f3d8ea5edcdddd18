"""What a reader gets of a task's files, and what it costs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from codebase_mcp.app.context import ContextQuestion, ContextReport
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import CallScope
from codebase_mcp.context.answer import Context, NeededDefinition, NeededFile, Outside
from codebase_mcp.context.task import Task
from codebase_mcp.database.naming import Project
from codebase_mcp.model import FileKind
from codebase_mcp.tools.context import find_context_reply
from codebase_mcp.tools.replies.context import context_text, unknown_given
from codebase_mcp.tools.reply import as_text

REPOSITORY = uuid.uuid4()
BODY = "".join(f"    step_{n} = run(step_{n - 1})\n" for n in range(1, 60))


def make_file(path: str, probability: float, **more: Any) -> NeededFile:
    name = path.rpartition("/")[2].removesuffix(".py")
    definition = NeededDefinition(name, 11, 70, f"def {name}(self):\n{BODY}", (40, 20))
    facts: dict[str, Any] = {
        "role": "change",
        "reasons": (f"calls {name}",),
        "definitions": (definition,),
    }
    return NeededFile(
        REPOSITORY, path, "python", FileKind.CODE, probability=probability, **facts | more
    )


def report_of(
    *files: NeededFile, state: str = "ready", question: Any = None, **more: Any
) -> ContextReport:
    project = Project("shop", "project_shop", datetime.now(UTC))
    tree: Any = SimpleNamespace(repository_id=REPOSITORY, root=Path("/home/me/shop"))
    return ContextReport(
        question=question or ContextQuestion("it fails", given=()),
        task=Task("it fails", "it fails"),
        context=Context(files, candidates=more.pop("candidates", len(files)), **more),
        index=IndexFreshness(state, 2, 0, 0, None, None),  # type: ignore[arg-type]
        project=project,
        project_source="explicit",
        scope=CallScope(project, "explicit", (), "workspace", trees=(tree,)),
        refs={},
        latency_ms=5.0,
    )


def test_a_file_is_a_heading_with_its_reasons_and_lines_as_they_stand_in_it() -> None:
    wait = NeededDefinition("Retry.wait", 5, 6, "    def wait(self):\n        sleep(1)\n", (6,))
    stop = NeededDefinition("Retry.stop", 9, 10, "    def stop(self):\n        return\n", (10,))
    reset = NeededDefinition("Retry.reset", 20, 30)
    file = make_file(
        "src/retry.py",
        0.831,
        reasons=("in the trace, frame 3", "calls Retry.wait"),
        definitions=(wait, stop, reset),
    )
    guide = make_file("docs/guide.md", 0.4, role="read", reasons=(), definitions=())
    assert context_text(report_of(file, guide), 4_000) == (
        "1. src/retry.py:5-6  0.83 change  Retry.wait  (in the trace, frame 3; calls Retry.wait)\n"
        "5      def wait(self):\n"
        "6          sleep(1)\n"
        "   also 9-10 Retry.stop\n"
        " 9      def stop(self):\n"
        "10          return\n"
        "   also 20-30 Retry.reset\n"
        "2. docs/guide.md  0.40 read"
    )


def test_the_most_probable_files_have_code_and_tests_have_none() -> None:
    files = [make_file(f"src/pay{n}.py", 0.8) for n in range(3)]
    files += [make_file("tests/test_pay.py", 0.9, role="test"), make_file("src/far.py", 0.2)]
    text = context_text(report_of(*files), 4_000)
    assert [f"def pay{n}(self):" in text for n in range(3)] == [True] * 3
    assert "4. tests/test_pay.py:11-70  0.90 test  test_pay  (calls test_pay)\n5. " in text
    assert text.endswith("5. src/far.py:11-70  0.20 change  far  (calls far)")
    only_tests = context_text(report_of(files[3]), 4_000)
    assert "def test_pay(self):" in only_tests


def test_improbable_files_share_a_line_by_folder() -> None:
    files = [make_file("src/pay.py", 0.8)]
    files += [
        make_file(path, 0.05) for path in ("a.py", "b.py", "src/x/c.py", "d.py", "src/x/e.py")
    ]
    text = context_text(report_of(*files), 4_000)
    assert text.split("\n")[-1] == "also: src/x/{c.py, e.py}, d.py"


def test_what_does_not_fit_is_counted_with_the_parameter_to_raise() -> None:
    files = [make_file(f"src/package_{n}/module.py", 0.7) for n in range(20)]
    report = report_of(*files, candidates=75)
    text = context_text(report, 700)
    assert len(text) <= 700
    left = sum(file.path not in text for file in files)
    assert text.split("\n")[-1] == f"more (max_chars): {left} files"
    assert "more" not in context_text(report_of(*files[:3], candidates=3), 4_000)
    for most in range(200, 4_000, 150):
        assert len(context_text(report, most)) <= most


def test_a_cause_outside_of_the_repository_is_said_first_and_files_have_no_code() -> None:
    outside = Outside(0.87, "all frames are of requests")
    file = make_file("src/pay.py", 0.3)
    assert context_text(report_of(file, outside=outside), 4_000) == (
        "Nothing here: probably the cause is outside this repository (0.87): all frames are of "
        "requests\n1. src/pay.py:11-70  0.30 change  pay  (calls pay)"
    )
    doubtful = report_of(file, outside=replace(outside, probability=0.4))
    assert context_text(doubtful, 4_000).startswith("1. src/pay.py")


def test_what_limits_the_answer_comes_first() -> None:
    uncommitted = ContextQuestion("it fails")
    paths = tuple(f"src/{n}.py" for n in range(7))
    text = context_text(report_of(state="stale", given=paths, question=uncommitted), 4_000)
    assert text.split("\n")[1:] == [
        "Not listed, as uncommitted: src/0.py, src/1.py, src/2.py, src/3.py, src/4.py and 2 more.",
        "Nothing here seems to be needed.",
    ]
    named = ContextQuestion("it fails", given=("src/0.py:3-4", "/home/me/shop/src/1.py", "no.py:7"))
    report = report_of(given=paths, question=named)
    assert unknown_given(report) == ["no.py:7"]
    assert context_text(report, 4_000).startswith("Not in the index: no.py:7.\n")


def test_of_json_the_content_is_left_out_from_the_last_file_on_then_files() -> None:
    report = report_of(*[make_file(f"src/pay{n}.py", 0.8) for n in range(3)])
    whole = len(as_text(find_context_reply(report, None).as_json()))
    shown = []
    for most in range(whole, 200, -100):
        reply = find_context_reply(report, most).as_json()
        assert len(as_text(reply)) <= most or not reply["files"]
        has_content = ["content" in file["definitions"][0] for file in reply["files"]]
        if has_content not in shown:
            shown.append(has_content)
    assert shown == [
        [True, True, True],
        [True, True, False],
        [True, False, False],
        [False, False, False],
        [False, False],
        [False],
        [],
    ]
