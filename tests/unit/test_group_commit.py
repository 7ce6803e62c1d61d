import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from time import monotonic
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from skipmq.broker.messages.group_commit import GroupCommit
from skipmq.protocol import errors
from skipmq.telemetry import tracing
from support.loop import eventually
from support.transactions import Transactions

Submit = Callable[..., asyncio.Future[str]]


@pytest.fixture
def transactions() -> Transactions:
    return Transactions()


def submitting(transactions: Transactions, most: int = 10) -> Submit:
    """Return a function that submits a request to a group commit that runs these transactions."""
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, most)

    def submit(
        request: int, key: str = "k", weight: int = 1, deadline: float = 0.0
    ) -> asyncio.Future[str]:
        return commit.submit(key, request, weight, deadline)

    return submit


async def submitted_while_one_runs(
    submit: Submit, transactions: Transactions, requests: Sequence[int]
) -> list[asyncio.Future[str]]:
    """Submit the first request, and the others once it runs; return all their results."""
    first = submit(requests[0])
    await eventually(lambda: transactions.calls)
    return [first, *map(submit, requests[1:])]


async def test_alone_a_request_runs_at_once() -> None:
    transactions = Transactions(held=False)
    submit = submitting(transactions)

    assert [await submit(n) for n in range(3)] == ["k0", "k1", "k2"]
    assert transactions.calls == [("k", [0]), ("k", [1]), ("k", [2])]


async def test_all_that_arrive_in_one_turn_of_the_loop_travel_together() -> None:
    transactions = Transactions(held=False)
    submit = submitting(transactions)

    assert await asyncio.gather(*(submit(n) for n in range(5))) == ["k0", "k1", "k2", "k3", "k4"]
    assert transactions.requests == [[0, 1, 2, 3, 4]]


async def test_all_whose_callbacks_run_in_one_turn_of_the_loop_travel_together() -> None:
    transactions = Transactions(held=False)
    submit = submitting(transactions)
    results: list[asyncio.Future[str]] = []
    for n in range(5):
        asyncio.get_running_loop().call_soon(lambda n=n: results.append(submit(n)))
    await eventually(lambda: len(results) == 5)

    assert await asyncio.gather(*results) == ["k0", "k1", "k2", "k3", "k4"]
    assert transactions.requests == [[0, 1, 2, 3, 4]]


async def test_what_comes_meanwhile_runs_together_in_order_of_arrival(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    results = await submitted_while_one_runs(submit, transactions, range(5))
    transactions.release()

    assert await asyncio.gather(*results) == ["k0", "k1", "k2", "k3", "k4"]
    assert transactions.calls == [("k", [0]), ("k", [1, 2, 3, 4])]


async def test_other_keys_do_not_wait(transactions: Transactions) -> None:
    submit = submitting(transactions)
    results = [submit(1), submit(2, "other")]
    await eventually(lambda: len(transactions.calls) == 2)
    transactions.release()

    assert await asyncio.gather(*results) == ["k1", "other2"]


async def test_no_call_is_heavier_than_the_most_unless_one_request_is(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    results = [submit(1, weight=50)] + [submit(n, weight=4) for n in range(2, 7)]
    transactions.release()

    await asyncio.gather(*results)

    assert transactions.requests == [[1], [2, 3], [4, 5], [6]]


async def test_call_may_take_as_long_as_the_last_of_its_requests(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    transactions.release()

    await asyncio.gather(*(submit(n, deadline=deadline) for n, deadline in enumerate([3, 9, 5])))

    assert transactions.deadlines == [9]


async def test_failing_request_does_not_fail_its_neighbours(transactions: Transactions) -> None:
    submit = submitting(transactions)
    transactions.refused[2] = ValueError("two")
    results = await submitted_while_one_runs(submit, transactions, range(4))
    transactions.release()

    assert [await results[n] for n in (0, 1, 3)] == ["k0", "k1", "k3"]
    with pytest.raises(ValueError, match="two"):
        await results[2]
    assert transactions.requests[:2] == [[0], [1, 2, 3]]
    assert sorted(transactions.requests[2:]) == [[1], [1, 2], [2], [3]]


async def test_request_that_fails_is_found_in_few_calls() -> None:
    transactions = Transactions(held=False)
    transactions.refused[300] = ValueError("three hundred")
    submit = submitting(transactions, most=512)

    found = await asyncio.gather(*(submit(n) for n in range(512)), return_exceptions=True)

    assert [n for n, result in enumerate(found) if result != f"k{n}"] == [300]
    # Two for each time that 512 is halved.
    assert len(transactions.calls) == 1 + 2 * 9


@pytest.mark.parametrize(
    "error", [errors.QueueMoved("gone"), errors.ServiceUnavailable(), errors.OutcomeUnknown()]
)
async def test_what_is_the_same_for_all_is_not_tried_for_each(
    transactions: Transactions, error: Exception
) -> None:
    submit = submitting(transactions)
    transactions.refused[2] = error
    results = await submitted_while_one_runs(submit, transactions, range(4))
    transactions.release()

    assert await results[0] == "k0"
    for result in results[1:]:
        with pytest.raises(type(error)):
            await result
    assert transactions.requests == [[0], [1, 2, 3]]


async def test_what_fails_when_tried_alone_is_not_tried_again(transactions: Transactions) -> None:
    submit = submitting(transactions)
    transactions.refused |= {1: ValueError("one"), 2: errors.OutcomeUnknown()}
    results = [submit(n) for n in range(3)]
    transactions.release()

    assert [type(error) for error in await asyncio.gather(*results, return_exceptions=True)] == [
        str,
        ValueError,
        errors.OutcomeUnknown,
    ]
    assert transactions.requests[0] == [0, 1, 2]
    assert sorted(transactions.requests[1:]) == [[0], [0, 1], [1], [2]]


async def test_request_that_is_stuck_keeps_nobody_else(transactions: Transactions) -> None:
    submit = submitting(transactions)
    transactions.refused[2] = errors.Locked()
    results = await submitted_while_one_runs(submit, transactions, range(4))
    transactions.release()

    assert [await results[n] for n in (0, 1, 3)] == ["k0", "k1", "k3"]
    with pytest.raises(errors.Locked):
        await results[2]
    # Each by itself at once: those that wait for the lock would take their time one after another.
    assert sorted(transactions.requests) == [[0], [1], [1, 2, 3], [2], [3]]


async def test_request_that_is_cancelled_before_it_runs_is_not_run(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    results = await submitted_while_one_runs(submit, transactions, range(4))
    results[2].cancel()
    transactions.release()

    assert [await results[n] for n in (0, 1, 3)] == ["k0", "k1", "k3"]
    assert transactions.requests == [[0], [1, 3]]


async def test_request_whose_caller_is_cancelled_before_it_runs_is_not_run(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    (first,) = await submitted_while_one_runs(submit, transactions, [0])
    sent: list[asyncio.Future[str]] = []

    async def send() -> None:
        sent.append(submit(1))
        await sent[0]

    caller = asyncio.create_task(send())
    await eventually(lambda: sent)
    caller.cancel()
    transactions.release()

    assert await first == "k0"
    assert await submit(2) == "k2"
    assert transactions.requests == [[0], [2]]


async def test_call_is_not_made_for_nobody(transactions: Transactions) -> None:
    submit = submitting(transactions)
    for n in range(3):
        submit(n).cancel()
    transactions.release()

    assert await submit(7, "other") == "other7"
    assert await submit(8) == "k8"
    assert transactions.calls == [("other", [7]), ("k", [8])]


async def test_request_that_is_cancelled_while_it_runs_fails_no_neighbour(
    transactions: Transactions,
) -> None:
    submit = submitting(transactions)
    results = [submit(n) for n in range(3)]
    await eventually(lambda: transactions.calls)
    results[1].cancel()
    transactions.release()

    assert [await results[n] for n in (0, 2)] == ["k0", "k2"]
    assert await submit(3) == "k3"


def test_requests_end_with_their_loop(transactions: Transactions) -> None:
    results: list[asyncio.Future[Any]] = []

    async def end_while_one_runs() -> None:
        submit = submitting(transactions)
        results.extend(await submitted_while_one_runs(submit, transactions, range(3)))

    asyncio.run(end_while_one_runs())

    assert [result.cancelled() for result in results] == [True] * 3
    assert transactions.requests == [[0]]


async def test_nobody_is_forgotten_and_nothing_is_left_behind() -> None:
    transactions = Transactions(held=False)
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 7)

    async def client(number: int) -> list[str]:
        return [await commit.submit("ab"[n % 2], number * 1000 + n, 1, 0.0) for n in range(200)]

    answers = await asyncio.gather(*map(client, range(16)))

    assert answers == [
        [f"{'ab'[n % 2]}{number * 1000 + n}" for n in range(200)] for number in range(16)
    ]
    assert sum(len(requests) for requests in transactions.requests) == 16 * 200
    assert max(len(requests) for requests in transactions.requests) == 7
    await eventually(lambda: not commit._waiting)  # noqa: SLF001


async def test_transaction_does_not_have_the_context_of_the_request_that_began_it() -> None:
    current: ContextVar[str] = ContextVar("current", default="nobody's")
    seen: list[str] = []

    async def run(_key: str, requests: Sequence[int], _deadline: float) -> Sequence[str]:
        seen.append(current.get())
        return [""] * len(requests)

    traces = tracing.Transactions(TracerProvider(shutdown_on_exit=False).get_tracer("test"), "send")
    current.set("a request's")
    await GroupCommit(run, 10, traces=traces).submit("a", 1, 1, 0.0)

    assert seen == ["nobody's"]


async def test_request_times_out_while_those_of_its_transaction_go_on(
    transactions: Transactions,
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10, seconds=0)
    early = commit.submit("k", 1, 1, 0.0)
    late = commit.submit("k", 2, 1, monotonic() + 600)
    waiting = commit.submit("k", 3, 10, 0.0)
    long_waiting = commit.submit("k", 4, 1, monotonic() + 600)

    with pytest.raises(errors.OutcomeUnknown):
        await early
    with pytest.raises(errors.ServiceUnavailable) as refused:
        await waiting
    assert not late.done()
    assert not long_waiting.done()

    transactions.release()

    assert not isinstance(refused.value, errors.OutcomeUnknown)
    assert await asyncio.gather(late, long_waiting) == ["k2", "k4"]
    # What timed out before it ran is not run.
    assert transactions.requests == [[1, 2], [4]]


async def test_result_of_a_request_that_timed_out_is_discarded(transactions: Transactions) -> None:
    discarded: list[tuple[int, str]] = []
    commit: GroupCommit[str, int, str] = GroupCommit(
        transactions.run, 10, seconds=0, discard=lambda *result: discarded.append(result)
    )
    early = commit.submit("k", 1, 1, 0.0, 7)
    with pytest.raises(errors.OutcomeUnknown):
        await early

    transactions.release()
    await eventually(lambda: discarded)

    assert discarded == [(7, "k1")]


async def test_locked_table_is_the_same_for_all_requests(transactions: Transactions) -> None:
    submit = submitting(transactions)
    transactions.refused[1] = errors.TableLocked()
    transactions.release()

    found = await asyncio.gather(submit(1), submit(2), return_exceptions=True)

    assert [type(each) for each in found] == [errors.TableLocked] * 2
    assert transactions.requests == [[1, 2]]


async def test_damage_fails_only_the_request_that_needs_the_page(
    transactions: Transactions,
) -> None:
    transactions.refused[3] = errors.DatabaseDamaged()
    submit = submitting(transactions)
    results = await submitted_while_one_runs(submit, transactions, range(8))
    transactions.release()
    done = await asyncio.gather(*results, return_exceptions=True)

    assert [each for each in done if not isinstance(each, Exception)] == [
        f"k{n}" for n in range(8) if n != 3
    ]
    assert isinstance(done[3], errors.DatabaseDamaged)
