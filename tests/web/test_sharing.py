"""Processes that accept the connections of one socket get about as many each."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from codebase_mcp.web.sharing import ABSENT, Share, SharedListener


class Process:
    """A process that listens, and the connections that it has accepted."""

    def __init__(self, listener: socket.socket, counts: list[int], number: int) -> None:
        self.listener = SharedListener(listener.dup(), Share(counts, number))
        self.connections: list[socket.socket] = []

    def accept(self) -> int:
        """Accept all that it may; returns how many connections it has."""
        try:
            while True:
                self.connections.append(self.listener.accept()[0])
        except BlockingIOError:
            return len(self.connections)

    def hang_up(self) -> None:
        while self.connections:
            self.connections.pop().close()


Processes = tuple[Process, Process, list[int], Callable[[], object]]


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Two processes that listen at one address, their counts, and a new client for them."""
    counts = [ABSENT, ABSENT]
    with ExitStack() as opened:
        bound = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        bound.setblocking(False)
        first, second = (Process(bound, counts, number) for number in range(2))
        for each in (first, second):
            opened.enter_context(each.listener)
            opened.callback(each.hang_up)
        address = bound.getsockname()
        yield (
            first,
            second,
            counts,
            lambda: opened.enter_context(socket.create_connection(address)),
        )


def test_each_process_takes_its_share_however_quick_the_other_is(processes: Processes) -> None:
    first, second, counts, connect = processes
    for _ in range(8):
        connect()
        first.accept()
        second.accept()
    assert counts == [4, 4]
    first.hang_up()
    for number in range(4):
        assert first.accept() == number
        connect()
        assert second.accept() == 4
        first.accept()


def test_a_process_that_is_busy_or_only_starts_loses_its_turn(processes: Processes) -> None:
    first, second, counts, connect = processes
    assert second.accept() == 0  # it is there, and never asks again
    for number in range(1, 4):
        connect()
        while first.accept() < number:
            pass
    assert counts == [3, 0]
    counts[1] = ABSENT
    connect()
    assert first.accept() == 4
