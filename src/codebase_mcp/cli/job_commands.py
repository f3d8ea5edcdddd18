"""Which commands are there for background jobs?"""

from __future__ import annotations

from codebase_mcp.cli.record_commands import Lazily, Subparsers


def add_job_commands(commands: Subparsers, lazily: Lazily) -> None:
    """``worker`` and ``jobs``."""
    what = "Do background jobs, until told to end"
    worker = commands.add_parser("worker", help=what, description=what + ".")
    worker.set_defaults(command=lazily("worker", "worker"), json=False)
    worker.add_argument("--concurrency", metavar="N", help="jobs at once (CODEBASE_MCP_JOBS, or 1)")
    worker.add_argument(
        "--once", action="store_true", help="end when no job waits or runs any more"
    )
    what = "List background jobs, or cancel one"
    jobs = commands.add_parser("jobs", help=what, description=what + ".")
    jobs.set_defaults(command=lazily("jobs", "jobs"))
    jobs.add_argument("action", nargs="?", choices=["cancel"], help="what to do")
    jobs.add_argument("id", nargs="?", help="a job's number or operation, as the list shows it")
    jobs.add_argument("--project", help="only of this project")
    jobs.add_argument("--json", action="store_true", help="print JSON")
