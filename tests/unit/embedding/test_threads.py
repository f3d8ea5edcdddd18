"""Arithmetic on vectors runs in the thread that asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os, codebase_mcp, numpy
table = numpy.ones((4_000, 256), numpy.float32)
for _ in range(10):
    table @ table[0]
print(len(os.listdir("/proc/self/task")))
"""


def test_products_start_no_threads() -> None:
    """OpenBLAS's own deadlock when a thread forks while another waits for them."""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "1"
