import psycopg
import pytest

from support.sql import number

pytestmark = pytest.mark.usefixtures("fifo")
HOLD = "select skipmq.hold_groups_of_queues(%s::bigint[], %s::bigint[], false)"
HOLD_FEW = "select skipmq.hold_groups_of_queues(%s::bigint[], %s::bigint[], true)"
ONE = "select skipmq.hold_groups(%s, %s::bigint[], false)"
LOCKS = (
    "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    " and mode = 'ExclusiveLock'"
)


def test_groups_that_others_hold_are_returned_and_the_rest_is_held(database: str) -> None:
    with psycopg.connect(database) as one, psycopg.connect(database) as other:
        assert number(one, ONE, 1, [11, 12]) == []

        assert number(other, HOLD, [1, 2, 1, 2], [12, 21, 13, None]) == [12]

        assert number(other, LOCKS) == 2
        assert number(one, ONE, 2, [21, 22]) == [21]
        assert number(other, HOLD_FEW, [2, 1], [21, 13]) == []
        assert number(other, LOCKS) == 2


def test_groups_of_a_queue_that_a_large_transaction_holds_are_returned(database: str) -> None:
    with psycopg.connect(database) as large, psycopg.connect(database) as other:
        assert number(large, ONE, 1, list(range(100, 1000))) == []

        assert number(other, HOLD, [1, 2], [11, 21]) == [11]


def test_beyond_some_five_hundred_it_holds_a_queue_or_nothing(database: str) -> None:
    queues, groups = [1, 2] * 400, list(range(1000, 1800))
    with psycopg.connect(database) as one, psycopg.connect(database) as other:
        assert sorted(number(one, HOLD_FEW, queues, groups)) == groups[1::2]
        assert number(one, LOCKS) == 400

        assert number(one, HOLD, queues, groups) == []

        assert number(one, LOCKS) == 401
        assert number(other, HOLD, [1, 2], [5, 6]) == [6]
