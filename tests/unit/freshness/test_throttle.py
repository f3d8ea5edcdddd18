"""Files that change again and again are indexed at a limited rate."""

from __future__ import annotations

from codebase_mcp.app.freshness.watcher import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_log_file_waits_and_everything_else_passes() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    passed = 0
    for _ in range(100):
        clock.now += 0.1
        admitted = throttle.admit({"app.log", f"src/{clock.now}.py"})
        assert f"src/{clock.now}.py" in admitted
        passed += "app.log" in admitted

    assert passed == 10
    assert throttle.has_waiting


def test_a_waiting_path_passes_after_the_window() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(11):
        throttle.admit({"app.log"})
    assert (throttle.due(), throttle.due_in_s(300.0)) == (set(), 10.0)

    clock.now += 10.0

    assert (throttle.due(), throttle.due_in_s(300.0)) == ({"app.log"}, 0.0)
    assert throttle.admit(throttle.due()) == {"app.log"}
    assert not throttle.has_waiting
    assert throttle.due_in_s(300.0) == 300.0
