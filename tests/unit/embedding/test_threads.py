"""A command multiplies vectors in the thread that asks for it; a library leaves its host alone."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = """
import os, sys
from codebase_mcp.cli.main import main
try:
    main(["--version"])
except SystemExit:
    import numpy
table = numpy.ones((4_000, 256), numpy.float32)
for _ in range(10):
    table @ table[0]
print(len(os.listdir("/proc/self/task")))
"""
LIBRARY = """
import os
before = dict(os.environ)
from codebase_mcp import App
print(dict(os.environ) == before)
"""


def run(program: str) -> str:
    """What a program prints last, without the variable that this run has set."""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return ran.stdout.splitlines()[-1]


def test_products_of_a_command_start_no_threads() -> None:
    """OpenBLAS deadlocks when a thread forks while another one waits for its threads."""
    assert run(COMMAND) == "1"


def test_importing_the_library_leaves_the_environment_as_it_is() -> None:
    assert run(LIBRARY) == "True"
