from support.postgres import Connection
from support.sql import Queue, advance, number

from .test_note_consumers import note

EXPIRE = "select skipmq.expire_consumers(%s)"


def test_consumers_and_workers_not_seen_are_removed(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    note(node, "a", orders.id, 1, 1, 1, 0)
    note(node, "b", orders.id, 1, 1, 1, 0)
    node.execute("select skipmq.note_worker('a', 'h', '1', '1 min', '{}')")
    assert number(owner, EXPIRE, 10) == 0

    advance(owner, "11 minutes")

    assert [number(owner, EXPIRE, 1) for _ in range(3)] == [1, 1, 0]
    assert number(owner, "select count(*) from skipmq.worker") == 1
    advance(owner, "2 hours")
    owner.execute(EXPIRE, (1,))
    assert number(owner, "select count(*) from skipmq.worker") == 0
