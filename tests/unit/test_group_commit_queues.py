"""Group commit of requests for several queues: none fails or delays another."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

from skipmq.broker.messages.group_commit import GroupCommit, Load
from skipmq.protocol import errors
from support.loop import eventually
from support.transactions import Transactions


@pytest.fixture
def transactions() -> Transactions:
    return Transactions()


class Queues:
    """Runs requests of several queues, `(queue, number)`, as a group commit has them run."""

    def __init__(self, most: int = 100) -> None:
        self.calls: list[list[tuple[int, int]]] = []
        self.answers: dict[tuple[int, int], Exception] = {}
        self.refused: dict[int, Exception] = {}
        self.commit: GroupCommit[str, tuple[int, int], str] = GroupCommit(self.run, most)

    async def run(
        self, _key: str, requests: Sequence[tuple[int, int]], _deadline: float
    ) -> list[Any]:
        self.calls.append(list(requests))
        await asyncio.sleep(0)
        for queue, _ in requests:
            if queue in self.refused:
                raise self.refused[queue]
        first = len(self.calls) == 1
        return [self.answers.get(each, "done") if first else "done" for each in requests]

    async def all(self, *requests: tuple[int, int]) -> list[Any]:
        submitted = [self.commit.submit("k", each, 1, 0.0, each[0]) for each in requests]
        return await asyncio.gather(*submitted, return_exceptions=True)


async def test_requests_of_all_queues_travel_together_by_queue() -> None:
    queues = Queues()

    assert await queues.all((2, 1), (1, 1), (2, 2), (1, 2)) == ["done"] * 4
    assert queues.calls == [[(1, 1), (1, 2), (2, 1), (2, 2)]]


async def test_queues_have_turns_where_more_wait_than_a_transaction_takes() -> None:
    queues = Queues(most=4)

    await queues.all(*[(1, n) for n in range(6)], (2, 0), (3, 0))

    assert queues.calls == [
        [(1, 0), (1, 1), (2, 0), (3, 0)],
        [(1, 2), (1, 3), (1, 4), (1, 5)],
    ]


async def test_turns_go_on_in_the_next_transaction() -> None:
    queues = Queues(most=2)

    await queues.all((1, 0), (1, 1), (2, 0), (3, 0))

    assert queues.calls == [[(1, 0), (2, 0)], [(1, 1), (3, 0)]]


@pytest.mark.parametrize("error", [errors.QueueMoved("gone"), errors.DatabaseDamaged()])
async def test_error_of_a_queue_fails_no_other_and_sets_it_apart(error: Exception) -> None:
    queues = Queues()
    queues.refused[2] = error

    found = await queues.all((1, 0), (2, 0), (3, 0))
    await queues.all((1, 1), (2, 1), (3, 1))

    assert found == ["done", error, "done"]
    assert queues.calls[1:4] == [[(1, 0)], [(2, 0)], [(3, 0)]]
    assert sorted(queues.calls[4:]) == [[(1, 1), (3, 1)], [(2, 1)]]


async def test_error_among_the_results_is_that_request_s() -> None:
    queues = Queues()
    queues.answers[2, 0] = errors.QueueMoved("gone")

    assert await queues.all((1, 0), (2, 0)) == ["done", queues.answers[2, 0]]
    assert len(queues.calls) == 1


async def test_request_for_what_is_locked_runs_again_by_itself() -> None:
    queues = Queues()
    queues.answers[2, 0] = errors.Locked()

    assert await queues.all((1, 0), (2, 0)) == ["done", "done"]
    assert queues.calls == [[(1, 0), (2, 0)], [(2, 0)]]


async def test_queue_alone_that_is_locked_has_that_error() -> None:
    queues = Queues()
    queues.answers[2, 0] = errors.Locked()

    assert await queues.all((2, 0)) == [queues.answers[2, 0]]


async def test_busy_queue_is_served_apart() -> None:
    queues = Queues()

    await queues.all(*[(1, n) for n in range(40)], (2, 0))
    await queues.all((1, 40), (2, 1), (3, 1))

    assert sorted(map(len, queues.calls)) == [1, 2, 41]


async def test_queue_is_served_with_others_again() -> None:
    queues = Queues()
    queues.commit.set_apart(2)
    queues.commit._apart[2] = monotonic() - 1  # noqa: SLF001 - as if the time had passed.

    await queues.all((1, 0), (2, 0))

    assert queues.calls == [[(1, 0), (2, 0)]]


async def test_others_go_on_while_a_transaction_of_one_queue_takes_long(
    transactions: Transactions,
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10, overtaken_after=0)
    stuck = commit.submit("k", 1, 1, 0.0, 1)
    await eventually(lambda: transactions.calls)
    waiting = [commit.submit("k", 2, 1, 0.0, 2), commit.submit("k", 3, 1, 0.0, 1)]

    await eventually(lambda: len(transactions.calls) == 3)
    transactions.release()

    assert await asyncio.gather(stuck, *waiting) == ["k1", "k2", "k3"]
    assert transactions.requests[0] == [1]
    assert sorted(transactions.requests[1:]) == [[2], [3]]
    await eventually(lambda: not commit._waiting)  # noqa: SLF001
    assert not commit._running  # noqa: SLF001


async def test_transaction_that_others_overtook_delays_no_other(
    transactions: Transactions,
) -> None:
    load = Load()
    commit: GroupCommit[str, int, str] = GroupCommit(
        transactions.run, 10, overtaken_after=0, load=load
    )
    stuck = [commit.submit("k", number, 1, 0.0, 1) for number in range(3)]
    await eventually(lambda: 1 in commit._apart)  # noqa: SLF001

    # What waits would wait for the average of the others' requests.
    assert (load.groups, load.requests) == (0, 0)
    transactions.release()
    await asyncio.gather(*stuck)
    assert (load.groups, load.requests) == (0, 0)


async def test_queue_that_took_long_is_served_apart_for_a_hundred_times_as_long() -> None:
    commit = Queues().commit
    commit.set_apart(1, took=0.01)
    commit.set_apart(2, took=0.1)
    commit.set_apart(2)
    commit.set_apart(3, took=60)
    now = monotonic()

    until = commit._apart  # noqa: SLF001
    assert now + 4 < until[1] < now + 6
    assert now + 9 < until[2] < now + 11
    assert until[3] < now + 301


async def test_request_in_a_transaction_that_others_overtook_times_out(
    transactions: Transactions,
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(
        transactions.run, 10, seconds=0, overtaken_after=0
    )
    stuck = commit.submit("k", 1, 1, 0.0, 1)
    await eventually(lambda: transactions.calls)
    other = commit.submit("k", 2, 1, monotonic() + 600, 2)
    await eventually(lambda: len(transactions.calls) == 2)

    with pytest.raises(errors.OutcomeUnknown):
        await stuck
    transactions.release()

    assert await other == "k2"
