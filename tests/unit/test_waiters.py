import asyncio
from collections.abc import Callable
from time import monotonic

import pytest

from skipmq.delivery.waiters import Waiter, Waiters, registry
from skipmq.delivery.waiters.notifier import PAYLOAD_BYTES, SENT, WAITING, payloads
from skipmq.delivery.waiters.registry import SCOUT_INTERVAL
from support.loop import eventually

SOON = 60.0


@pytest.fixture
def waiters() -> Waiters:
    return Waiters(most=100)


def soon() -> float:
    return monotonic() + SOON


async def asleep(waiter: Waiter, next_visible_in: float | None = None) -> asyncio.Task[bool]:
    """Have a waiter wait, and return what tells whether it shall poll again."""
    task = asyncio.create_task(waiter.wait(soon(), next_visible_in))
    await eventually(lambda: waiter._sleep is not None)  # noqa: SLF001
    return task


async def test_wake_before_wait_is_not_lost(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        waiters.wake("q")

        assert await waiter.wait(soon(), None) is True


async def test_wake_ends_a_sleep(waiters: Waiters) -> None:
    with waiters.register("q"), waiters.register("q") as waiter:
        sleeping = await asleep(waiter)

        waiters.wake("q", 2)

        assert await sleeping is True
        assert not waiter.is_woken


def test_wake_reaches_as_many_as_there_are_messages(waiters: Waiters) -> None:
    with waiters.register("q") as a, waiters.register("q") as b, waiters.register("q") as c:
        waiters.wake("q", 2)

        assert [w.is_woken for w in (a, b, c)] == [True, True, False]


def test_wake_passes_over_those_who_are_woken_already(waiters: Waiters) -> None:
    with waiters.register("q") as a, waiters.register("q") as b:
        waiters.wake("q")
        waiters.wake("q")

        assert [a.is_woken, b.is_woken] == [True, True]


def test_wake_of_another_queue_wakes_nobody(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        waiters.wake("other", 10)

        assert not waiter.is_woken


def test_wake_of_all_wakes_the_scout_of_each_queue(waiters: Waiters) -> None:
    with waiters.register("q") as a, waiters.register("q") as b, waiters.register("r") as c:
        waiters.wake_all()

        assert [w.is_woken for w in (a, b, c)] == [True, False, True]


def test_scout_that_leaves_makes_the_next_one_poll(waiters: Waiters) -> None:
    with waiters.register("q") as first:
        context = waiters.register("q")
        second = context.__enter__()
        assert first.is_scout
    try:
        assert second.is_scout
        assert second.is_woken
    finally:
        context.__exit__(None, None, None)


async def test_wake_that_comes_too_late_for_one_is_handed_on_to_another(waiters: Waiters) -> None:
    with waiters.register("q") as staying:
        with waiters.register("q") as leaving:
            staying.wake()
            assert await staying.wait(soon(), None)  # It polls, and finds nothing.
            leaving.wake()
            assert await leaving.wait(monotonic() - 1, None) is False

        assert staying.is_woken


async def test_wait_past_its_deadline_is_over(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        assert await waiter.wait(monotonic() - 1, None) is False


async def test_scout_wakes_by_itself_when_a_message_becomes_visible(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        began = monotonic()

        assert await waiter.wait(began + SOON, 0.05) is True
        assert monotonic() - began >= 0.05


async def test_others_than_the_scout_sleep_until_woken(waiters: Waiters) -> None:
    with waiters.register("q") as scout, waiters.register("q") as other:
        sleeping = await asleep(other, 0.01)
        for _ in range(3):
            assert await scout.wait(soon(), 0.01) is True  # Its time comes, and again.
        assert not sleeping.done()

        other.wake()

        assert await sleeping is True


async def test_waiter_whose_client_left_ends(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        sleeping = await asleep(waiter)

        waiter.leave()

        assert await sleeping is False
        assert await waiter.wait(soon(), 0.0) is False


async def test_waiter_whose_client_left_while_it_polled_does_not_poll_again(
    waiters: Waiters,
) -> None:
    with waiters.register("q") as waiter:
        waiter.leave()
        waiter.wake()

        assert await waiter.wait(soon(), 0.0) is False


async def test_waiter_whose_client_left_hands_its_wake_up_on(waiters: Waiters) -> None:
    with waiters.register("q") as staying:
        staying_on = await asleep(staying)
        with waiters.register("q") as leaving:
            sleeping = await asleep(leaving)
            leaving.wake()  # For a message; before it polls, its client leaves.
            leaving.leave()
            assert await sleeping is False

        assert await staying_on is True


async def test_scout_whose_client_left_makes_the_next_one_poll(waiters: Waiters) -> None:
    context = waiters.register("q")
    leaving = context.__enter__()
    with waiters.register("q") as staying:
        staying_on = await asleep(staying)
        leaving.leave()
        assert await leaving.wait(soon(), None) is False
        context.__exit__(None, None, None)

        assert await staying_on is True
        assert staying.is_scout


async def test_waiter_that_is_cancelled_hands_its_duties_on(waiters: Waiters) -> None:
    async def receive() -> None:
        with waiters.register("q") as waiter:
            await waiter.wait(soon(), None)

    scout = asyncio.create_task(receive())
    await eventually(lambda: waiters.count("q"))
    with waiters.register("q") as other:
        sleeping = await asleep(other)

        scout.cancel()

        assert await sleeping is True
        assert waiters.count("q") == 1


async def test_stop_ends_all_waiting_for_good(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        sleeping = await asleep(waiter)

        waiters.stop()

        assert await sleeping is False
        assert await waiter.wait(soon(), None) is False


def test_count_follows_who_comes_and_goes(waiters: Waiters) -> None:
    with waiters.register("a"), waiters.register("b"):
        assert (waiters.count(), waiters.count("a"), set(waiters.queues())) == (2, 1, {"a", "b"})

    assert (waiters.count(), waiters.queues()) == (0, [])


def test_registry_is_full_until_one_leaves() -> None:
    waiters = Waiters(most=2)
    with waiters.register("a"):
        assert not waiters.is_full
        with waiters.register("b"):
            assert waiters.is_full

        assert not waiters.is_full


async def test_registry_survives_a_storm(waiters: Waiters) -> None:
    is_over = asyncio.Event()

    async def come_and_go() -> int:
        polls = 0
        while not is_over.is_set():
            with waiters.register("q") as waiter:
                polls += await waiter.wait(monotonic() + 0.01, 0.001)
        return polls

    tasks = [asyncio.create_task(come_and_go()) for _ in range(6)]
    for _ in range(2000):
        waiters.wake("q", 2)
        await asyncio.sleep(0)
    is_over.set()

    assert sum(await asyncio.gather(*tasks)) > 0
    assert waiters.count() == 0


def test_payloads_stay_below_the_limit_and_carry_everything() -> None:
    queues = {f"arn:aws:sqs:us-east-1:000000000000:{n:080}" for n in range(300)}
    batch = {(SENT, queue) for queue in queues} | {(WAITING, "q")}

    made = payloads("7-ab", batch)

    assert all(len(p.encode()) <= PAYLOAD_BYTES for p in made)
    words = [p.split(" ") for p in made]
    assert {q for _, kind, *rest in words if kind == SENT for q in rest} == queues
    assert [rest for _, kind, *rest in words if kind == WAITING] == [["q"]]
    assert {process for process, *_ in words} == {"7-ab"}


def test_payloads_of_nothing_are_none() -> None:
    assert payloads("p", set()) == []


def polled(waiter: Waiter, next_visible_in: float | None = None) -> None:
    """Have a waiter poll and find nothing."""
    waiter.poll_begins()
    waiter.poll_found_nothing(next_visible_in)


def test_first_of_a_queue_polls(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        assert not waiter.need_not_poll()


def test_who_comes_after_a_poll_that_found_nothing_need_not_poll(waiters: Waiters) -> None:
    with waiters.register("q") as scout, waiters.register("r") as elsewhere:
        polled(scout)
        with waiters.register("q") as other:
            assert other.need_not_poll()
        assert not elsewhere.need_not_poll()


def test_nothing_is_known_of_a_queue_that_nobody_waited_on(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        polled(waiter)

    with waiters.register("q") as waiter:
        assert not waiter.need_not_poll()


@pytest.mark.parametrize("wake", [lambda w: w.wake("q"), lambda w: w.wake_all()])
def test_who_comes_after_a_wake_up_polls(waiters: Waiters, wake: Callable[[Waiters], None]) -> None:
    with waiters.register("q") as scout:
        polled(scout)
        wake(waiters)

        with waiters.register("q") as other:
            assert not other.need_not_poll()


def test_poll_during_which_a_wake_up_came_says_nothing(waiters: Waiters) -> None:
    with waiters.register("q") as scout, waiters.register("q") as other:
        scout.poll_begins()
        waiters.wake("q")
        scout.poll_found_nothing(None)

        assert not other.need_not_poll()


def test_who_comes_when_the_next_message_is_visible_polls(waiters: Waiters) -> None:
    with waiters.register("q") as scout, waiters.register("q") as other:
        polled(scout, next_visible_in=0.0)

        assert not other.need_not_poll()


def test_what_a_poll_found_is_forgotten_when_the_scout_polls_again(
    waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiters.register("q") as scout, waiters.register("q") as other:
        polled(scout)
        later = monotonic() + SCOUT_INTERVAL
        monkeypatch.setattr(registry, "monotonic", lambda: later)

        assert not other.need_not_poll()
