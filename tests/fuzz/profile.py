"""How many examples are tried: few in the test suite, always the same; many by ``make fuzz``.

A plugin of pytest as well: then every property of the suite gets as many, and any time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = os.environ.get("FUZZ_EXAMPLES")

fuzzed = settings(
    max_examples=int(EXAMPLES or 30),
    derandomize=EXAMPLES is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

if EXAMPLES is not None:
    settings.register_profile("fuzz", fuzzed)
    settings.load_profile("fuzz")
