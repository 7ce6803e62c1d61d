import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from skipmq.waiters import Waiters
from skipmq.waiters.notifier import PAYLOAD_BYTES, SENT, WAITING, payloads

SOON = 60.0


def test_wake_before_wait_is_not_lost() -> None:
    waiters = Waiters()
    with waiters.register("q") as waiter:
        waiters.wake("q")

        assert waiter.wait(monotonic() + SOON, None) is True


def test_wake_reaches_as_many_as_there_are_messages() -> None:
    waiters = Waiters()
    with waiters.register("q") as a, waiters.register("q") as b, waiters.register("q") as c:
        waiters.wake("q", 2)

        assert [w.was_woken for w in (a, b, c)] == [True, True, False]


def test_wake_passes_over_those_who_are_woken_already() -> None:
    waiters = Waiters()
    with waiters.register("q") as a, waiters.register("q") as b:
        waiters.wake("q")
        waiters.wake("q")

        assert [a.was_woken, b.was_woken] == [True, True]


def test_wake_of_another_queue_wakes_nobody() -> None:
    waiters = Waiters()
    with waiters.register("q") as waiter:
        waiters.wake("other", 10)

        assert not waiter.was_woken


def test_scout_that_leaves_makes_the_next_one_look() -> None:
    waiters = Waiters()
    with waiters.register("q") as first:
        context = waiters.register("q")
        second = context.__enter__()
        assert waiters.is_scout(first)
    try:
        assert waiters.is_scout(second)
        assert second.was_woken
    finally:
        context.__exit__(None, None, None)


def test_wake_that_comes_too_late_for_one_is_handed_on_to_another() -> None:
    waiters = Waiters()
    with waiters.register("q") as staying:
        with waiters.register("q") as leaving:
            staying.wake()
            assert staying.wait(monotonic() + SOON, None)  # It looks, and finds nothing.
            leaving.wake()
            assert leaving.wait(monotonic() - 1, None) is False

        assert staying.was_woken


def test_wait_past_its_deadline_is_over() -> None:
    waiters = Waiters()
    with waiters.register("q") as waiter:
        assert waiter.wait(monotonic() - 1, None) is False


def test_scout_wakes_by_itself_when_a_message_becomes_visible() -> None:
    waiters = Waiters()
    with waiters.register("q") as waiter:
        began = monotonic()

        assert waiter.wait(began + SOON, 0.05) is True
        assert monotonic() - began >= 0.05


def test_others_than_the_scout_sleep_until_woken() -> None:
    waiters = Waiters()
    with waiters.register("q"), waiters.register("q") as other, ThreadPoolExecutor() as pool:
        future = pool.submit(other.wait, monotonic() + SOON, 0.01)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.2)

        other.wake()

        assert future.result(timeout=SOON) is True


def test_stop_ends_all_waiting_for_good() -> None:
    waiters = Waiters()
    with waiters.register("q") as waiter, ThreadPoolExecutor() as pool:
        future = pool.submit(waiter.wait, monotonic() + SOON, None)

        waiters.stop()

        assert future.result(timeout=SOON) is False
        assert waiter.wait(monotonic() + SOON, None) is False


def test_count_follows_who_comes_and_goes() -> None:
    waiters = Waiters()
    with waiters.register("a"), waiters.register("b"):
        assert (waiters.count(), waiters.count("a"), set(waiters.queues())) == (2, 1, {"a", "b"})

    assert (waiters.count(), waiters.queues()) == (0, [])


def test_registry_survives_a_storm() -> None:
    waiters = Waiters()
    stop = threading.Event()

    def come_and_go() -> int:
        looks = 0
        while not stop.is_set():
            with waiters.register("q") as waiter:
                looks += waiter.wait(monotonic() + 0.01, 0.001)
        return looks

    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(come_and_go) for _ in range(6)]
        for _ in range(2000):
            waiters.wake("q", 2)
        stop.set()

        assert all(future.result(timeout=SOON) >= 0 for future in futures)
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
