"""The rules of what workers did let pass what is allowed, and tell of what is not."""

from collections.abc import Iterable

import pytest

from cluster.effects import disordered, repeats, undone, unseen
from cluster.record import Record
from cluster.story import FIFO, QUEUE, op

Numbers = Iterable[int]


def record(
    offered: Numbers, worked: Numbers, elsewhere: Numbers | None = None, queue: str = FIFO
) -> Record:
    """Give a history of jobs of one group."""
    kinds = {
        "offered": offered,
        "worked": worked,
        "elsewhere": worked if elsewhere is None else elsewhere,
    }
    return Record(
        op(kind, 9, queue=queue, group="g", value=str(number), place=place)
        for kind, numbers in kinds.items()
        for place, number in enumerate(numbers)
    )


def test_work_that_is_done_once_and_in_order_breaks_no_rule() -> None:
    found = record([1, 2, 3], [1, 2, 3], [1, 2, 2, 3, 4])

    assert [*undone(found), *unseen(found), *disordered(found)] == []
    assert repeats(found) == 1


@pytest.mark.parametrize(
    ("offered", "worked", "finding"),
    [
        ([1, 2], [1], "orders.fifo: 2 of g was sent and never worked"),
        ([1], [1, 2], "orders.fifo: 2 of g was worked and never sent"),
        ([1, 2], [1, 2, 2], "orders.fifo: 2 of g was worked 2 times"),
    ],
)
def test_work_that_is_not_done_exactly_once_is_told(
    offered: Numbers, worked: Numbers, finding: str
) -> None:
    assert [*undone(record(offered, worked))] == [finding]


def test_work_that_is_not_seen_elsewhere_is_told() -> None:
    assert [*unseen(record([1, 2], [1, 2], [2]))] == [
        "orders.fifo: 1 of g was worked here and not elsewhere"
    ]


def test_order_is_kept_by_fifo_queues_alone() -> None:
    assert [*disordered(record([1, 2], [2, 1]))] == ["orders.fifo: 1 of g was worked after 2"]
    assert [*disordered(record([1, 2], [2, 1], queue=QUEUE))] == []
