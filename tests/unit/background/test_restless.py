"""Files that change again and again are let through now and then only."""

from __future__ import annotations

from codebase_mcp.background.restless import Restless


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_log_waits_and_everything_else_goes_through() -> None:
    clock = Clock()
    restless = Restless(clock)
    passed = 0
    for _ in range(100):
        clock.now += 0.1
        through = restless.let_through({"app.log", f"src/{clock.now}.py"})
        assert f"src/{clock.now}.py" in through
        passed += "app.log" in through

    assert passed == 10
    assert restless.has_any


def test_what_waits_is_let_through_when_its_time_has_come() -> None:
    clock = Clock()
    restless = Restless(clock)
    for _ in range(11):
        restless.let_through({"app.log"})
    assert (restless.due(), restless.due_s(300.0)) == (set(), 10.0)

    clock.now += 10.0

    assert (restless.due(), restless.due_s(300.0)) == ({"app.log"}, 0.0)
    assert restless.let_through(restless.due()) == {"app.log"}
    assert not restless.has_any
    assert restless.due_s(300.0) == 300.0
