"""The memory that message bodies may take in a worker."""

import asyncio
from time import monotonic

import pytest

from skipmq.broker.messages.budget import GROUP_BYTES, LARGE_BYTES, MESSAGE_BYTES, Budget, weight
from skipmq.protocol import errors
from support.loop import eventually

SIZE = 10 * LARGE_BYTES


def later() -> float:
    return monotonic() + 60


async def take(budget: Budget, size: int, order: list[int]) -> None:
    with await budget.room(1, size, later()):
        order.append(size)


async def waiting(budget: Budget, *sizes: int) -> tuple[list[int], list[asyncio.Task[None]]]:
    """Return tasks that wait for room, one after the other, and a list of those that had it."""
    order: list[int] = []
    tasks = [asyncio.create_task(take(budget, size, order)) for size in sizes]
    await asyncio.sleep(0)
    return order, tasks


async def test_bytes_beyond_the_budget_wait_in_turn_until_others_are_given_back() -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE - LARGE_BYTES)
    assert held is not None
    order, tasks = await waiting(budget, SIZE // 2, LARGE_BYTES)

    # The second would fit, and does not pass the first.
    assert (order, budget.free) == ([], LARGE_BYTES)
    held.release()
    await asyncio.gather(*tasks)

    assert order == [SIZE // 2, LARGE_BYTES]
    assert budget.free == SIZE


@pytest.mark.parametrize(("messages", "size"), [(1, LARGE_BYTES - 1), (100, 4096 * 100)])
async def test_small_messages_neither_count_nor_wait(messages: int, size: int) -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE)

    with await budget.room(messages, size, 0.0):
        assert budget.free == 0

    assert held is not None
    assert budget.hold(LARGE_BYTES - 1) is None


async def test_more_than_the_whole_budget_has_it_alone() -> None:
    budget = Budget(SIZE)

    with await budget.room(1, 3 * SIZE, 0.0):
        assert budget.free == 0

    assert budget.free == SIZE


async def test_request_without_room_at_its_deadline_is_refused_and_lets_others_pass() -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE - LARGE_BYTES)
    with pytest.raises(errors.ServiceUnavailable, match="too many large messages"):
        await budget.room(1, SIZE, monotonic())

    with await budget.room(1, LARGE_BYTES, 0.0):
        assert budget.free == 0
    assert held is not None


async def test_cancelled_request_takes_no_room() -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE)
    assert held is not None
    _, (first, second) = await waiting(budget, SIZE, SIZE)
    first.cancel()
    held.release()
    await second

    assert first.cancelled()
    assert budget.free == SIZE


async def test_bytes_that_nothing_refers_to_are_given_back() -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE)
    assert budget.free == 0

    del held

    await eventually(lambda: budget.free == SIZE)


async def test_bytes_are_given_back_once() -> None:
    budget = Budget(SIZE)
    held = budget.hold(SIZE)
    assert held is not None
    held.release()
    held.release()

    assert budget.free == SIZE


async def test_size_of_a_queue_s_messages_rises_at_once_and_falls_slowly() -> None:
    budget = Budget(SIZE)
    assert budget.expected(1, 10) == 0
    assert budget.claimed(1, 10, 10 * 1_000_000) is not None
    assert (budget.expected(1, 10), budget.expected(2, 10)) == (10_000_000, 0)
    assert budget.claimed(1, 1, 100) is None

    assert budget.expected(1, 10) == 5_000_000


def test_group_has_no_more_large_messages_than_fit_into_a_statement() -> None:
    assert weight(10, 10 * 200) == 10
    assert weight(1, MESSAGE_BYTES + 1) == 1
    assert 500 // weight(1, 1_048_576) * 1_048_576 <= GROUP_BYTES
