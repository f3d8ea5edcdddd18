"""Try the properties of the test suite with new examples, round after round.

    python -m tests.fuzz.run [MINUTES] [PYTEST ARGUMENTS]

Each round has another seed, which is printed. The first failure ends it; the same round again:
``FUZZ_EXAMPLES=100 python -m pytest -p tests.fuzz.profile --hypothesis-seed SEED FILE``. Failing
examples also stay in ``.hypothesis``; keep one for good as an ``@example`` of its test.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
EXAMPLES = "100"


def property_tests() -> list[str]:
    """The files with properties, except those that need a server."""
    return [
        str(path)
        for folder in ("fuzz", "unit")
        for path in sorted((TESTS / folder).rglob("test_*.py"))
        if "@given" in path.read_text("utf-8")
    ]


def main() -> int:
    """Run rounds until the time is up; the exit status of the last one."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    deadline = time.monotonic() + 60 * minutes
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-p", "tests.fuzz.profile"]
    command += ["--timeout", "600", *sys.argv[2:]]
    files = property_tests()
    while time.monotonic() < deadline:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}, {EXAMPLES} examples of each property", flush=True)
        random.shuffle(files)  # so that short rounds reach all of them
        left_s = max(1.0, deadline - time.monotonic())
        try:
            done = subprocess.run(
                [*command, "--hypothesis-seed", str(seed), *files],
                env={**os.environ, "FUZZ_EXAMPLES": EXAMPLES},
                check=False,
                timeout=left_s,
            )
        except subprocess.TimeoutExpired:
            break  # the time is up; what was tried by then was well
        if done.returncode:
            return done.returncode
    print("no failure")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
