import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from skipmq import errors
from skipmq.store.group_commit import GroupCommit
from support.http import eventually


class Transactions:
    """Something to run requests with: each call waits until it is let go."""

    def __init__(self, *, closed: bool = True) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.gate = threading.Semaphore(0)
        self.closed = closed
        self.refused: dict[int, Exception] = {}

    def run(self, key: str, requests: Sequence[int]) -> list[str]:
        self.calls.append((key, list(requests)))
        if self.closed:
            assert self.gate.acquire(timeout=30)
        for request in requests:
            if request in self.refused:
                raise self.refused[request]
        return [f"{key}{request}" for request in requests]

    def open(self) -> None:
        """Let everything pass from now on."""
        self.closed = False
        self.gate.release(1000)


@pytest.fixture
def transactions() -> Transactions:
    return Transactions()


Submit = Callable[..., Future[str]]


def submitting(
    pool: ThreadPoolExecutor, commit: GroupCommit[str, int, str], transactions: Transactions
) -> Submit:
    """Return a function that submits a request and waits until it is pending or running."""

    def submit(request: int, key: str = "k", weight: int = 1) -> Future[str]:
        def in_sight() -> int:
            with commit._lock:  # noqa: SLF001
                pending = [t.request for queue in commit._pending.values() for t in queue]  # noqa: SLF001
            return [*pending, *(r for _, rs in transactions.calls for r in rs)].count(request)

        future = pool.submit(commit.submit, key, request, weight)
        eventually(in_sight)
        return future

    return submit


def test_alone_a_request_runs_at_once() -> None:
    transactions = Transactions(closed=False)
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)

    assert [commit.submit("k", n) for n in range(3)] == ["k0", "k1", "k2"]
    assert transactions.calls == [("k", [0]), ("k", [1]), ("k", [2])]


def test_what_comes_meanwhile_runs_together_in_order_of_arrival(
    transactions: Transactions,
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(n) for n in range(5)]
        transactions.open()

        assert [f.result(timeout=30) for f in futures] == ["k0", "k1", "k2", "k3", "k4"]
    assert transactions.calls == [("k", [0]), ("k", [1, 2, 3, 4])]


def test_other_keys_do_not_wait(transactions: Transactions) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(1), submit(2, "other")]
        eventually(lambda: len(transactions.calls) == 2)
        transactions.open()
        assert [f.result(timeout=30) for f in futures] == ["k1", "other2"]


def test_no_call_is_heavier_than_the_most_unless_one_request_is(
    transactions: Transactions,
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(1, weight=50)] + [submit(n, weight=4) for n in range(2, 7)]
        transactions.open()
        for future in futures:
            future.result(timeout=30)
    assert [requests for _, requests in transactions.calls] == [[1], [2, 3], [4, 5], [6]]


def test_failing_request_does_not_fail_its_neighbours(transactions: Transactions) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    transactions.refused[2] = ValueError("two")
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(n) for n in range(4)]
        transactions.open()
        assert [futures[n].result(timeout=30) for n in (0, 1, 3)] == ["k0", "k1", "k3"]
        with pytest.raises(ValueError, match="two"):
            futures[2].result(timeout=30)
    calls = [requests for _, requests in transactions.calls]
    assert calls[:2] == [[0], [1, 2, 3]]
    assert sorted(calls[2:]) == [[1], [2], [3]]


@pytest.mark.parametrize("error", [errors.QueueMoved("gone"), errors.ServiceUnavailable()])
def test_what_is_the_same_for_all_is_not_tried_for_each(
    transactions: Transactions, error: Exception
) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    transactions.refused[2] = error
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(n) for n in range(4)]
        transactions.open()
        assert futures[0].result(timeout=30) == "k0"
        for future in futures[1:]:
            with pytest.raises(type(error)):
                future.result(timeout=30)
    assert [r for _, r in transactions.calls] == [[0], [1, 2, 3]]


def test_request_that_is_stuck_keeps_nobody_else(transactions: Transactions) -> None:
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 10)
    transactions.refused[2] = errors.Locked()
    with ThreadPoolExecutor(10) as pool:
        submit = submitting(pool, commit, transactions)
        futures = [submit(n) for n in range(4)]
        transactions.open()
        assert [futures[n].result(timeout=30) for n in (0, 1, 3)] == ["k0", "k1", "k3"]
        with pytest.raises(errors.Locked):
            futures[2].result(timeout=30)


def test_nobody_leads_for_ever_and_nothing_is_left_behind() -> None:
    transactions = Transactions(closed=False)
    commit: GroupCommit[str, int, str] = GroupCommit(transactions.run, 7)

    def client(number: int) -> list[str]:
        return [commit.submit("ab"[n % 2], number * 1000 + n) for n in range(200)]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(client, range(16)))

    assert answers == [
        [f"{'ab'[n % 2]}{number * 1000 + n}" for n in range(200)] for number in range(16)
    ]
    assert sum(len(r) for _, r in transactions.calls) == 16 * 200
    assert not commit._pending  # noqa: SLF001
