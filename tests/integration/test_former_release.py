"""An index of a former release goes on answering, and is made anew beside the searches.

``tests/data/shop-6417ed0.cbm`` is a backup that the program of commit 6417ed0 made of `SHOP`: with
another version of the rows, and a built-in model that is no longer there.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import working
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings

BACKUP = Path(__file__).parents[1] / "data" / "shop-6417ed0.cbm"

SHOP = {
    "README.md": """\
# Shop

Sells things. Payments go through the gateway in src/payments.py.
""",
    "src/invoices.ts": """\
export interface InvoiceLine {
  article: string;
  price: number;
}

// Sums up what a customer has to pay.
export function invoiceTotal(lines: InvoiceLine[]): number {
  return lines.reduce((sum, line) => sum + line.price, 0);
}
""",
    "src/payments.py": """\
\"\"\"Payments: charging cards and giving money back.\"\"\"


class PaymentGateway:
    \"\"\"Talks to the bank.\"\"\"

    def charge_card(self, card, amount):
        \"\"\"Take money from a card, three times at most.\"\"\"
        for attempt in range(3):
            if self.bank.withdraw(card, amount):
                return attempt
        raise PaymentError(card)

    def refund(self, payment):
        \"\"\"Give the money of a payment back.\"\"\"
        self.bank.deposit(payment.card, payment.amount)


class PaymentError(Exception):
    \"\"\"The bank said no.\"\"\"
""",
    "src/session.py": """\
\"\"\"Who is logged in?\"\"\"

import hashlib


def authenticate(user, password):
    \"\"\"Check a password against its stored hash.\"\"\"
    return hashlib.sha256(password.encode()).hexdigest() == user.password_hash


def expire_sessions(sessions, now):
    \"\"\"Forget sessions that nobody has used for an hour.\"\"\"
    return [session for session in sessions if now - session.used_at < 3600]
""",
    "tests/test_payments.py": """\
from src.payments import PaymentGateway


def test_refund_gives_the_money_back():
    assert PaymentGateway
""",
}


@pytest.fixture
async def shop(app: App, make_repo: Callable[..., Path], project_id: str) -> AsyncIterator[Path]:
    """The shop's files, and a project restored from the former release's backup of them."""
    root = make_repo(SHOP, "shop")
    await app.data.restore(io.BytesIO(BACKUP.read_bytes()), BACKUP.name, project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE repository SET root = %(root)s", root=str(root))
    moved = io.BytesIO()  # which gives the repository the id that belongs to its new place
    await app.data.backup(moved, project_id)
    moved.seek(0)
    await app.data.restore(moved, "moved", project_id, replace=True)
    yield root


async def state_of(app: App, project_id: str) -> str:
    report = await app.search("payments", project_id)
    return report.index.state


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("give the money of a payment back", "src/payments.py"),
        ("expire_sessions", "src/session.py"),
        ("invoiceTotal", "src/invoices.ts"),
        ("how are passwords checked against their hash", "src/session.py"),
    ],
)
async def test_words_and_names_of_a_former_release_s_index_answer(
    app: App, shop: Path, project_id: str, query: str, path: str
) -> None:
    report = await app.search(query, project_id)
    assert report.answer.hits[0].file_path == path
    assert report.index.state == "outdated"


async def test_questions_about_other_things_still_find_nothing_there(
    app: App, shop: Path, project_id: str
) -> None:
    report = await app.search("museum opening hours on Sunday", project_id)
    assert report.answer.hits == []


async def test_what_a_former_release_kept_beside_the_code_is_there(
    app: App, shop: Path, project_id: str
) -> None:
    async with app.enter(project_id, readonly=True) as here:
        [(title,)] = await here.tx.fetch_all("SELECT title FROM task")
    assert title == "Retry payments"


async def test_a_plain_run_makes_the_index_anew(app: App, shop: Path, project_id: str) -> None:
    report = await app.index(shop, project_id)
    assert (report.run.status, report.run.files_indexed) == ("success", len(SHOP))
    found = await app.search("reimburse somebody who bought something", project_id)
    assert found.answer.hits[0].file_path == "src/payments.py"
    assert found.index.state == "ready"
    again = await app.index(shop, project_id)
    assert (again.run.files_indexed, again.run.files_unchanged) == (0, len(SHOP))
    async with app.enter(project_id, readonly=True) as here:
        left = await here.tx.fetch_one(
            "SELECT (SELECT count(*) FROM snapshot), (SELECT count(*) FROM blob),"
            " (SELECT count(DISTINCT profile_id) FROM chunk_vector)"
        )
    assert left == (1, len(SHOP), 1)


async def test_a_change_is_indexed_with_all_the_rest(app: App, shop: Path, project_id: str) -> None:
    (shop / "src/session.py").write_text("def log_out(session):\n    session.close()\n")
    report = await app.update(shop, ["src/session.py"], project_id)
    assert report.run.files_indexed == len(SHOP)
    found = await app.search("log_out", project_id)
    assert found.answer.hits[0].file_path == "src/session.py"


async def test_a_search_asks_for_it_once_and_a_worker_does_it(
    app: App, shop: Path, project_id: str
) -> None:
    for _ in range(3):
        assert await state_of(app, project_id) == "outdated"
    async with app.enter(project_id, readonly=True) as here:
        schema = here.project.schema_name
    [job] = await app.jobs.jobs(schema)
    assert (job.status, job.root) == ("waiting", str(shop))
    async with asyncio.timeout(60), working(app, 1):
        while await state_of(app, project_id) != "ready":
            await asyncio.sleep(0.05)
    [job] = await app.jobs.jobs(schema)
    assert job.status == "done"


@pytest.mark.parametrize(
    "command",
    [
        ("search", "payments"),
        ("search_code", "--query", "payments"),
        ("symbol", "PaymentGateway"),
        ("status",),
    ],
)
async def test_a_command_starts_a_worker_that_does_it_where_none_runs(
    app: App, shop: Path, settings: Settings, project_id: str, command: tuple[str, ...]
) -> None:
    project = "--project_id" if command[0] == "search_code" else "--project"
    async with asyncio.timeout(60):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "codebase_mcp.cli.main", *command, project, project_id],
            env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)},
            cwd=shop,
            check=True,
            capture_output=True,
            text=True,
        )
        assert "no worker" not in " ".join(done.stdout.split())
        while await state_of(app, project_id) != "ready":
            await asyncio.sleep(0.05)
        while await app.jobs.workers():  # it ends by itself
            await asyncio.sleep(0.05)


async def test_a_rebuild_that_broke_off_goes_on_and_the_old_index_answers_meanwhile(
    app: App, shop: Path, project_id: str
) -> None:
    begun = asyncio.Event()
    run = asyncio.create_task(
        app.index(shop, project_id, progress=lambda p: begun.set() if p.done else None)
    )
    await begun.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    report = await app.search("expire_sessions", project_id, Request(limit=1))
    assert [hit.file_path for hit in report.answer.hits] == ["src/session.py"]
    assert (await app.index(shop, project_id)).run.status == "success"
    assert await state_of(app, project_id) == "ready"


async def test_an_index_of_a_later_version_answers_and_is_left_alone(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE profile SET fingerprint = '99.' || fingerprint")
    report = await app.search("authenticate", project_id)
    assert report.answer.hits[0].file_path == "src/auth.py"
    with pytest.raises(IndexingFailed, match="later version") as caught:
        await app.index(root, project_id)
    assert "Update codebase-mcp" in (caught.value.hint or "")
    assert (await app.index(root, project_id, force_reindex=True)).run.status == "success"
