"""Which waiter polls, and when: never none, and seldom more than one."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmq.broker.messages import waiters as registry
from skipmq.broker.messages.waiters import (
    DUE_SECONDS,
    ENDED_PER_TURN,
    POLL_INTERVAL,
    SPREAD_BEYOND,
    SPREAD_SECONDS,
    SPREAD_SHARE,
    Waiter,
    Waiters,
)
from support.waiters import asleep, held, polled, soon


@pytest.fixture
def waiters() -> Waiters:
    return Waiters(slots=100)


def test_waiter_that_leaves_before_it_found_nothing_makes_the_next_one_poll(
    waiters: Waiters,
) -> None:
    first, second = waiters.register("q"), waiters.register("q")
    with second:
        with first:
            first.begin_poll()  # It finds a message, or fails.

        assert second.is_woken


async def test_waiter_that_was_woken_and_leaves_before_it_polls_makes_the_next_one_poll(
    waiters: Waiters,
) -> None:
    with waiters.register("q") as staying:
        polled(staying)
        with waiters.register("q") as leaving:
            leaving.wake()
            assert await leaving.wait(soon())
            # Its key was disabled, say.

        assert staying.is_woken


async def test_waiter_that_has_found_nothing_leaves_the_others_asleep(waiters: Waiters) -> None:
    leaving, staying = waiters.register("q"), waiters.register("q")
    with staying:
        with leaving:
            polled(leaving)

        assert not staying.is_woken


async def test_first_waiter_polls_when_a_message_becomes_visible(waiters: Waiters) -> None:
    with waiters.register("q") as first, waiters.register("q") as second:
        began = monotonic()
        polled(second, next_visible_in=0.05)
        sleeping = await asleep(second)

        assert await first.wait(soon()) is True
        assert monotonic() - began >= 0.05
        assert not sleeping.done()

        second.wake()

        assert await sleeping is True


async def test_first_waiter_polls_when_the_last_poll_is_long_ago(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        began = monotonic()
        polled(waiter)

        assert await waiter.wait(soon()) is True
        assert monotonic() - began >= POLL_INTERVAL


async def test_first_waiter_polls_at_the_earliest_time_that_a_poll_said(
    waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "POLL_INTERVAL", 600)
    with waiters.register("q") as waiter:
        polled(waiter, next_visible_in=500)
        polled(waiter, next_visible_in=0.05)
        polled(waiter, next_visible_in=700)

        assert await waiter.wait(soon()) is True


async def test_poll_of_one_who_left_is_done_by_the_next(waiters: Waiters) -> None:
    leaving, staying = waiters.register("q"), waiters.register("q")
    with staying:
        with leaving:
            polled(leaving, next_visible_in=0.05)
        assert not staying.is_woken

        assert await staying.wait(soon()) is True


def test_first_of_a_queue_polls(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        assert not waiter.may_skip_poll()


async def test_who_comes_after_a_poll_that_found_nothing_need_not_poll(waiters: Waiters) -> None:
    with waiters.register("q") as first, waiters.register("r") as elsewhere:
        polled(first)
        with waiters.register("q") as other:
            assert other.may_skip_poll()
        assert not elsewhere.may_skip_poll()


async def test_nothing_is_known_of_a_queue_that_nobody_waited_on(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        polled(waiter)

    with waiters.register("q") as waiter:
        assert not waiter.may_skip_poll()


@pytest.mark.parametrize("wake", [lambda w: w.wake("q"), lambda w: w.wake_all()])
async def test_who_comes_after_a_wake_up_polls(
    waiters: Waiters, wake: Callable[[Waiters], None]
) -> None:
    with waiters.register("q") as first:
        polled(first)
        wake(waiters)

        with waiters.register("q") as other:
            assert not other.may_skip_poll()


async def test_poll_during_which_a_wake_up_came_says_nothing(waiters: Waiters) -> None:
    with waiters.register("q") as first, waiters.register("q") as other:
        first.begin_poll()
        waiters.wake("q")
        first.end_empty_poll(None)

        assert not other.may_skip_poll()


async def test_who_comes_when_a_message_becomes_visible_leaves_it_to_the_first(
    waiters: Waiters,
) -> None:
    with waiters.register("q") as other:
        with waiters.register("q") as finder:
            polled(finder, next_visible_in=0.0)
            assert other.may_skip_poll()
            finder.begin_poll()
        assert not other.may_skip_poll()  # There was one.


async def test_what_a_poll_found_is_forgotten_when_no_other_poll_follows(
    waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiters.register("q") as first, waiters.register("q") as other:
        polled(first)
        later = monotonic() + POLL_INTERVAL + DUE_SECONDS
        monkeypatch.setattr(registry, "monotonic", lambda: later)

        assert not other.may_skip_poll()


@pytest.mark.parametrize("number", [0, SPREAD_BEYOND])
def test_few_receivers_wait_as_long_as_they_want(number: int) -> None:
    waiters = Waiters(slots=SPREAD_BEYOND)
    with held(waiters, only=number):
        assert [waiters.spread(20) for _ in range(10)] == [20] * 10


def test_many_receivers_that_come_at_once_stop_waiting_one_by_one() -> None:
    waiters = Waiters(slots=10 * SPREAD_BEYOND)
    beyond = 500
    with held(waiters, only=SPREAD_BEYOND + beyond):
        long = {waiters.spread(20) for _ in range(100)}
        short = {waiters.spread(1) for _ in range(100)}

    assert len(long) == len(short) == 100
    assert 20 - beyond * SPREAD_SECONDS <= min(long) <= max(long) <= 20
    assert 1 - SPREAD_SHARE <= min(short) <= max(short) <= 1


async def test_those_whose_time_is_over_end_a_few_in_a_turn_of_the_loop(waiters: Waiters) -> None:
    # Far enough away for all of them to wait by then.
    ends, loop, number = monotonic() + 5, asyncio.get_running_loop(), 5 * ENDED_PER_TURN
    with held(waiters, only=number) as places:
        ended = [asyncio.create_task(each.wait(ends)) for each in places["only"]]
        counts = [0]

        def count() -> None:
            counts.append(sum(task.done() for task in ended))
            if counts[-1] < number:
                loop.call_soon(count)

        # Before the first of them ends.
        loop.call_at(ends - 0.1, count)
        assert await asyncio.gather(*ended) == [False] * number

    steps = {after - before for before, after in itertools.pairwise(counts)}
    assert max(steps) <= ENDED_PER_TURN


class Crowd:
    """A queue whose waiters do whatever they may, in any order."""

    def __init__(self) -> None:
        self.waiters = Waiters(slots=100)
        self.here: list[Waiter] = []

    async def come(self, _: int) -> None:
        self.here.append(self.waiters.register("q").__enter__())
        if not self.here[-1].may_skip_poll():
            self.here[-1].begin_poll()

    async def be_woken(self, count: int) -> None:
        self.waiters.wake("q", count)

    async def be_due(self, _: int) -> None:
        for queue in self.waiters._queues.values():  # noqa: SLF001
            if queue._timer is not None:  # noqa: SLF001
                queue._timer.cancel()  # noqa: SLF001
                queue._poll()  # noqa: SLF001

    async def begin_to_poll(self, which: int) -> None:
        if self.here and (waiter := self.here[which % len(self.here)]).is_woken:
            assert await waiter.wait(soon())

    async def find_nothing(self, which: int) -> None:
        if self.here:
            polled(self.here[which % len(self.here)], which / 4)

    async def leave(self, which: int) -> None:
        if self.here:
            self.here.pop(which % len(self.here)).__exit__()


STEPS = (
    Crowd.come,
    Crowd.be_woken,
    Crowd.be_due,
    Crowd.begin_to_poll,
    Crowd.find_nothing,
    Crowd.leave,
)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=60))
def test_queue_that_receivers_wait_on_is_always_going_to_be_polled(
    steps: list[tuple[Callable[[Crowd, int], Awaitable[None]], int]],
) -> None:
    async def run() -> None:
        crowd = Crowd()
        for step, which in steps:
            await step(crowd, which)
            assert crowd.waiters.count("q") == len(crowd.here)
            for each in crowd.waiters._queues.values():  # noqa: SLF001
                assert each.has_timer or any(waiter.must_wake_next for waiter in crowd.here)
        while crowd.here:
            await crowd.leave(0)
        assert crowd.waiters.queues() == []

    asyncio.run(run())
