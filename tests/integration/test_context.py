"""What a task needs is told by each kind of evidence, and nothing of the future is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git

from codebase_mcp.app.app import App
from codebase_mcp.app.context import ContextQuestion, ContextReport

pytestmark = pytest.mark.anyio

FILES = {
    "src/shop/cart.py": """\
from shop.prices import price_of


class Cart:
    def total(self, items):
        return sum(price_of(item) for item in items)
""",
    "src/shop/prices.py": """\
def price_of(item):
    if item.price is None:
        raise ValueError("item has no price yet")
    return round(item.price * (1 - item.discount), 2)
""",
    "src/shop/mail.py": "def send_receipt(address, total):\n    connect().send(address, total)\n",
    "src/shop/ledger.py": "def book(amount):\n    entries.append(amount)\n",
    "src/shop/style.css": ".cart { color: red }\n",
    "tests/test_prices.py": "def test_discount():\n    assert price_of(Item(2, 0.5)) == 1\n",
    "tests/test_mail.py": "def test_receipt():\n    send_receipt('a@example.com', 2)\n",
    "docs/prices.md": "# Prices\n\nA discount lowers the price of an item.\n",
}


def commit(root: Path, message: str, *paths: str) -> None:
    for path in paths:
        file = root / path
        file.write_text(file.read_text() + "\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


@pytest.fixture
async def repository(app: App, make_repo: Callable[..., Path], project_id: str) -> Path:
    """A shop with a short history, indexed."""
    root = make_repo(FILES)
    git(root, "init", "-q", "-b", "main")
    commit(root, "Begin")
    for number in range(4):
        commit(root, f"Book receipts {number}", "src/shop/mail.py", "src/shop/ledger.py")
    commit(root, "Round half cents of vouchers down", "src/shop/prices.py")
    await app.index(root, project_id)
    return root


@pytest.fixture
def ask(app: App, project_id: str, repository: Path) -> Callable[..., object]:
    """Ask for what a task needs."""

    async def ask(task: str, **options: object) -> ContextReport:
        return await app.context.find(ContextQuestion(task, **options), project_id)  # type: ignore[arg-type]

    return ask


def reasons(report: ContextReport, path: str) -> str:
    return "; ".join(next(f.reasons for f in report.context.files if f.path == path))


TRACE = """\
Checkout fails for a new item

Traceback (most recent call last):
  File "/srv/app/releases/12/src/shop/cart.py", line 6, in total
    return sum(price_of(item) for item in items)
  File "/srv/app/releases/12/src/shop/prices.py", line 3, in price_of
    raise ValueError("item has no price yet")
ValueError: item has no price yet
"""


async def test_frames_of_a_trace_from_another_machine_are_found(
    ask: Callable[..., object],
) -> None:
    report = await ask(TRACE)
    first, second = report.context.files[:2]
    assert [first.path, second.path] == ["src/shop/prices.py", "src/shop/cart.py"]
    assert "in the trace:3, frame 1" in first.reasons
    assert first.role == "change"
    assert first.probability > second.probability
    raising = first.definitions[0]
    assert (raising.name, raising.start_line, raising.matching_lines) == ("price_of", 1, (3,))
    assert raising.content == FILES["src/shop/prices.py"]


async def test_a_trace_of_libraries_alone_is_caused_elsewhere(
    ask: Callable[..., object],
) -> None:
    trace = """\
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/fastlib/pool.py", line 88, in acquire
    raise PoolExhausted(self.size)
fastlib.PoolExhausted: 12
"""
    outside = (await ask(trace)).context.outside
    assert outside is not None
    assert outside.reason.startswith("all frames of the trace are in libraries")
    assert (await ask(TRACE)).context.outside is None


async def test_a_resembling_commit_tells_what_it_changed(ask: Callable[..., object]) -> None:
    report = await ask("Vouchers: half cents are rounded up")
    assert "'Round half cents of vouchers down' changed it" in reasons(report, "src/shop/prices.py")


async def test_what_changes_together_with_a_given_file(ask: Callable[..., object]) -> None:
    report = await ask("Write the amount", given=("src/shop/mail.py",))
    assert report.context.given == ("src/shop/mail.py",)
    assert "src/shop/mail.py" not in [file.path for file in report.context.files]
    assert "changed with src/shop/mail.py in 5 of 5 commits" in reasons(
        report, "src/shop/ledger.py"
    )


async def test_the_uncommitted_change_is_given_unless_told_otherwise(
    ask: Callable[..., object], repository: Path
) -> None:
    (repository / "src/shop/mail.py").write_text("def send_receipt(address, total, when): ...\n")
    assert (await ask("Send later")).context.given == ("src/shop/mail.py",)
    assert (await ask("Send later", given=())).context.given == ()


async def test_tests_of_a_given_file(ask: Callable[..., object]) -> None:
    report = await ask("Prices are wrong", given=("src/shop/prices.py",), want=("test",))
    assert {file.role for file in report.context.files} == {"test"}
    assert report.context.files[0].path == "tests/test_prices.py"
    assert "test named after prices.py" in report.context.files[0].reasons


async def test_a_ref_knows_nothing_of_later_commits(
    ask: Callable[..., object], repository: Path
) -> None:
    report = await ask("Vouchers: half cents are rounded up", ref="HEAD~1")
    assert all("past commit" not in " ".join(file.reasons) for file in report.context.files)


async def test_definitions_have_their_lines(ask: Callable[..., object]) -> None:
    report = await ask("`price_of` ignores the discount")
    file = next(f for f in report.context.files if f.path == "src/shop/prices.py")
    assert (file.definitions[0].name, file.definitions[0].start_line) == ("price_of", 1)
    assert file.definitions[0].content is not None


async def test_a_diff_alone_leads_to_the_users_of_what_it_changes(
    ask: Callable[..., object],
) -> None:
    diff = """\
diff --git a/src/shop/prices.py b/src/shop/prices.py
index 1c2d3e4..5f6a7b8 100644
--- a/src/shop/prices.py
+++ b/src/shop/prices.py
@@ -1,2 +1,2 @@
-def price_of(item):
+def price_of(item, currency):
     if item.price is None:
"""
    report = await ask(diff, given=())
    assert report.task.title == ""
    report = await ask(diff, given=("src/shop/prices.py",), want=("change",))
    assert report.context.files[0].path == "src/shop/cart.py"
    assert "uses price_of of prices.py, which the diff changes" in report.context.files[0].reasons
