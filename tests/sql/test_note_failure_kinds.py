import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, advance, number, redrive_policy

KNOWN = "select count(*) from skipmq.known_failure where queue_id = %s"
AGES = (
    "select array(select round(extract(epoch from skipmq.clock() - first_at) / 86400)::integer"
    " from skipmq.known_failure order by 1)"
)


@pytest.fixture
def dead(owner: Connection) -> Queue:
    """Give a dead-letter queue, and its source `orders`."""
    queue = Queue(owner, "dead")
    Queue(owner, "orders", RedrivePolicy=redrive_policy("dead", 5))
    return queue


def fail(connection: Connection, reason: str) -> None:
    connection.execute("select skipmq.send_message('orders', 'x')")
    connection.execute(
        "select skipmq.dead_letter_message('orders', id, receive_count, message_id, %s)"
        " from skipmq.receive_message('orders')",
        (reason,),
    )


def test_kind_is_kept_once_until_seven_days_without_it(owner: Connection, dead: Queue) -> None:
    fail(owner, "Timeout 1")
    fail(owner, "Timeout 2")
    fail(owner, "")
    assert number(owner, KNOWN, dead.id) == 1

    advance(owner, "4 days")
    fail(owner, "Timeout 3")
    advance(owner, "8 days")
    fail(owner, "KeyError")

    assert number(owner, AGES) == [0, 8]
    advance(owner, "12 days")
    fail(owner, "Timeout 4")
    assert number(owner, AGES) == [0, 4]
    advance(owner, "16 days")
    owner.execute("select skipmq.expire_consumers()")
    assert number(owner, AGES) == [4]


def test_move_does_not_wait_for_a_transaction_that_keeps_the_kind(
    owner: Connection, dead: Queue, database: str
) -> None:
    with psycopg.connect(database) as other:
        fail(other, "Timeout")

        fail(owner, "Timeout")

        assert dead.counts() == (1, 0, 0)
    assert number(owner, KNOWN, dead.id) == 1


def test_kinds_are_not_for_nodes_to_note(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.note_failure_kinds(1, '{}', now())")
