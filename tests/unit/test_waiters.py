import asyncio
from time import monotonic

import pytest

from skipmq.broker.messages.notifier import PAYLOAD_BYTES, SENT, WAITING, payloads
from skipmq.broker.messages.waiters import Waiters
from support.loop import eventually
from support.waiters import asleep, held, soon


@pytest.fixture
def waiters() -> Waiters:
    return Waiters(slots=100)


async def test_wake_before_wait_is_not_lost(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        waiters.wake("q")

        assert await waiter.wait(soon()) is True


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


def test_wake_of_all_wakes_the_first_of_each_queue(waiters: Waiters) -> None:
    with waiters.register("q") as a, waiters.register("q") as b, waiters.register("r") as c:
        waiters.wake_all()

        assert [w.is_woken for w in (a, b, c)] == [True, False, True]


async def test_wake_that_comes_too_late_for_one_is_handed_on_to_another(waiters: Waiters) -> None:
    with waiters.register("q") as staying:
        with waiters.register("q") as leaving:
            staying.wake()
            assert await staying.wait(soon())  # It polls, and finds nothing.
            leaving.wake()
            assert await leaving.wait(monotonic() - 1) is False

        assert staying.is_woken


async def test_wait_past_its_deadline_is_over(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        assert await waiter.wait(monotonic() - 1) is False


async def test_waiter_whose_client_left_ends(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        sleeping = await asleep(waiter)

        waiter.cancel()

        assert await sleeping is False
        assert await waiter.wait(soon()) is False


async def test_waiter_whose_client_left_while_it_polled_does_not_poll_again(
    waiters: Waiters,
) -> None:
    with waiters.register("q") as waiter:
        waiter.cancel()
        waiter.wake()

        assert await waiter.wait(soon()) is False


async def test_waiter_whose_client_left_hands_its_wake_up_on(waiters: Waiters) -> None:
    with waiters.register("q") as staying:
        staying_on = await asleep(staying)
        with waiters.register("q") as leaving:
            sleeping = await asleep(leaving)
            leaving.wake()  # For a message; before it polls, its client leaves.
            leaving.cancel()
            assert await sleeping is False

        assert await staying_on is True


async def test_waiter_that_is_cancelled_hands_its_duties_on(waiters: Waiters) -> None:
    async def receive() -> None:
        with waiters.register("q") as waiter:
            await waiter.wait(soon())

    first = asyncio.create_task(receive())
    await eventually(lambda: waiters.count("q"))
    with waiters.register("q") as other:
        sleeping = await asleep(other)

        first.cancel()

        assert await sleeping is True
        assert waiters.count("q") == 1


async def test_stop_ends_all_waiting_for_good(waiters: Waiters) -> None:
    with waiters.register("q") as waiter:
        sleeping = await asleep(waiter)

        waiters.stop()

        assert await sleeping is False
        assert await waiter.wait(soon()) is False


def test_count_follows_who_comes_and_goes(waiters: Waiters) -> None:
    with waiters.register("a"), waiters.register("b"):
        assert (waiters.count(), waiters.count("a"), set(waiters.queues())) == (2, 1, {"a", "b"})

    assert (waiters.count(), waiters.queues()) == (0, [])


def test_registry_is_full_until_one_leaves() -> None:
    waiters = Waiters(slots=2)
    with waiters.register("a") as first:
        assert first.has_slot
        with waiters.register("b") as second, waiters.register("a") as third:
            assert (second.has_slot, third.has_slot) == (True, False)

        with waiters.register("b") as fourth:
            assert fourth.has_slot


async def test_owner_below_its_share_gets_the_newest_place_of_the_largest() -> None:
    waiters = Waiters(slots=10)
    with held(waiters, small=2, greedy=8) as places:
        last = await asleep(places["greedy"][-1])

        with waiters.register("r", "other") as other:
            assert other.has_slot
            assert await last is False

        assert [w.is_cancelled for w in places["greedy"]] == [False] * 7 + [True]
        assert [w.is_cancelled for w in places["small"]] == [False] * 2


def test_full_registry_is_divided_into_equal_shares_at_last() -> None:
    waiters = Waiters(slots=12)
    with held(waiters, greedy=50, b=50, c=50, d=2) as places:
        kept = {
            owner: sum(w.has_slot and not w.is_cancelled for w in each)
            for owner, each in places.items()
        }

    # Two are asked for, and the others share the rest.
    assert kept.pop("d") == 2
    assert sorted(kept.values()) == [3, 3, 4]
    assert waiters.count() == 0


def test_one_owner_has_all_places_while_no_other_wants_any() -> None:
    waiters = Waiters(slots=12)
    with held(waiters, only=13) as places:
        assert [w.has_slot for w in places["only"]] == [True] * 12 + [False]
        assert not any(w.is_cancelled for w in places["only"])


def test_waiter_without_a_place_takes_none_from_others() -> None:
    waiters = Waiters(slots=2)
    with held(waiters, a=2), waiters.register("q", "a") as refused:
        assert not refused.has_slot
    with held(waiters, a=1, b=1) as places, waiters.register("q", "a"):
        assert [w.has_slot for each in places.values() for w in each] == [True, True]


async def test_registry_survives_a_storm(waiters: Waiters) -> None:
    is_over = asyncio.Event()

    async def come_and_go() -> int:
        polls = 0
        while not is_over.is_set():
            with waiters.register("q") as waiter:
                polls += await waiter.wait(monotonic() + 0.01)
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
