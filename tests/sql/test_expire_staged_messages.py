import pytest

from support.postgres import Connection
from support.sql import advance, number
from support.staging import FIRST, SECOND, send, stage, staged

EXPIRE = "select skipmq.expire_staged_messages(%s::int)"


@pytest.mark.usefixtures("orders")
def test_messages_of_no_batch_are_deleted_after_a_day_up_to_the_limit(owner: Connection) -> None:
    stage(owner, "a", "b", "c")
    assert number(owner, EXPIRE, 10) == 0
    advance(owner, "25 hours")
    stage(owner, "d", part=SECOND)

    assert [number(owner, EXPIRE, 2) for _ in range(3)] == [2, 1, 0]
    assert staged(owner) == 1


@pytest.mark.usefixtures("orders")
def test_batch_that_was_interrupted_is_counted_and_kept_for_fourteen_days(
    owner: Connection,
) -> None:
    counted = (
        "select coalesce(sum(value), 0)::int from skipmq.database_statistics()"
        " where name = 'staged messages' and label = '000000000000/us-east-1/orders'"
    )
    stage(owner, "a", "b", "c")
    assert send(owner, 0, 3, FIRST, limit=1) == 1
    assert number(owner, counted) == 0
    advance(owner, "48 hours")

    assert number(owner, counted) == 3
    assert number(owner, EXPIRE, 10) == 0
    assert send(owner, 0, 3, limit=1) == 1
    advance(owner, "15 days")
    assert number(owner, EXPIRE, 10) == 3
    assert (number(owner, counted), send(owner, 0, 3)) == (0, 0)


@pytest.mark.usefixtures("orders")
def test_batch_is_known_until_its_stream_was_not_used_for_ninety_days(owner: Connection) -> None:
    stage(owner, "a")
    sent = [send(owner, 0, 1) for _ in range(2)]
    advance(owner, "89 days")
    stage(owner, "a")
    sent.append(send(owner, 0, 1))
    advance(owner, "178 days")
    assert number(owner, EXPIRE, 10) == 0
    advance(owner, "180 days")
    stage(owner, "a")

    assert number(owner, EXPIRE, 10) == 1
    assert [*sent, *(send(owner, 0, 1) for _ in range(2))] == [1, 0, 0, 1, 0]
