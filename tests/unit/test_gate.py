import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from skipmq import errors
from skipmq.store.gate import Gate
from support.http import eventually

SOON = 60.0


@contextmanager
def held(gate: Gate, *parties: str) -> Iterator[None]:
    for party in parties:
        gate.enter(party)
    yield
    for party in parties:
        gate.leave(party)


class Line:
    """Threads that wait at a gate, each known to stand behind the one before."""

    def __init__(self, gate: Gate, pool: ThreadPoolExecutor) -> None:
        self.gate, self.pool = gate, pool
        self.order: list[str] = []

    def join(self, who: str) -> Future[None]:
        """Wait for a permit; the party is the letter that a name begins with."""
        before = self.gate.waiting()
        future = self.pool.submit(self._pass, who)
        eventually(lambda: self.gate.waiting() == before + 1)
        return future

    def _pass(self, who: str) -> None:
        self.gate.enter(who[0])
        self.order.append(who)
        self.gate.leave(who[0])


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


def test_permit_goes_to_who_has_waited_longest(pool: ThreadPoolExecutor) -> None:
    gate = Gate(1, SOON)
    line = Line(gate, pool)
    with held(gate, "x"):
        futures = [line.join(who) for who in ("a1", "a2", "a3", "a4")]

    for future in futures:
        future.result(timeout=SOON)
    assert line.order == ["a1", "a2", "a3", "a4"]


def test_parties_take_turns_however_many_one_of_them_sends(pool: ThreadPoolExecutor) -> None:
    gate = Gate(1, SOON)
    line = Line(gate, pool)
    with held(gate, "a"):
        futures = [line.join(who) for who in ("a1", "a2", "a3", "a4", "b1", "c1", "b2")]

    for future in futures:
        future.result(timeout=SOON)
    assert line.order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_one_party_leaves_the_last_permit_to_others(pool: ThreadPoolExecutor) -> None:
    gate = Gate(3, SOON)
    line = Line(gate, pool)
    with held(gate, "a", "a"):
        waiting = line.join("a1")

        with held(gate, "b"):
            assert not waiting.done()
        assert not waiting.done()

    waiting.result(timeout=SOON)


def test_only_permit_may_go_to_any_party() -> None:
    gate = Gate(1, SOON)

    with held(gate, "a"):
        pass
    with held(gate, "b"):
        pass


def test_who_waits_too_long_is_told_and_leaves_the_line(pool: ThreadPoolExecutor) -> None:
    gate = Gate(1, patience=0.01)
    line = Line(gate, pool)
    with held(gate, "a"):
        with pytest.raises(errors.ServiceUnavailable, match="busy"):
            gate.enter("a")
        with pytest.raises(errors.ServiceUnavailable, match="busy"):
            gate.enter("b")
        assert gate.waiting() == 0

    line.pool.submit(line._pass, "c1").result(timeout=SOON)  # noqa: SLF001
    assert line.order == ["c1"]


def test_no_permit_is_lost_or_invented_when_many_give_up() -> None:
    permits = 3
    gate = Gate(permits, patience=0.0002)
    inside, most, given_up = 0, 0, 0
    lock = threading.Lock()

    def come_and_go(party: str) -> None:
        nonlocal inside, most, given_up
        for _ in range(500):
            try:
                gate.enter(party)
            except errors.ServiceUnavailable:
                with lock:
                    given_up += 1
                continue
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.0002)
            with lock:
                inside -= 1
            gate.leave(party)

    with ThreadPoolExecutor(12) as pool:
        for future in [pool.submit(come_and_go, "abc"[n % 3]) for n in range(12)]:
            future.result(timeout=SOON)

    assert given_up > 0
    assert 1 < most <= permits
    assert gate.waiting() == 0
    with held(gate, "a", "a", "b"):
        pass
