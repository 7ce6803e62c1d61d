from support.postgres import Connection
from support.sql import Queue, advance

from .test_note_consumers import note

LIST = (
    "select caller, address, application, processes, since >= 5 and since < 35,"
    " last_receive < 30, receives, received, deleted, waiting, user_agent"
    " from skipmq.queue_consumers(%s)"
)


def test_processes_of_a_caller_are_added_up(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    other = Queue(owner, "other")
    note(node, "a", orders.id, 2, 20, 5, 1)
    note(node, "b", orders.id, 1, 10, 7, 2, last=60_000)
    note(node, "a", other.id, 9, 9, 9, 9)

    rows = node.execute(LIST, (orders.id,)).fetchall()

    assert rows == [("AKIA1", "10.0.0.1", None, ["a", "b"], True, True, 3, 30, 12, 3, "Boto3/1")]


def test_waiting_receivers_of_a_silent_process_do_not_count(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    note(node, "a", orders.id, 1, 1, 1, 8)

    advance(owner, "1 minute")

    ((*_, waiting, _),) = owner.execute(LIST, (orders.id,)).fetchall()
    assert waiting == 0
    advance(owner, "11 minutes")
    assert owner.execute(LIST, (orders.id,)).fetchall() == []


def test_caller_is_one_in_any_plan(owner: Connection, node: Connection, orders: Queue) -> None:
    for process in "abcdefgh":
        note(node, process, orders.id, 1, 10, 5, 1)

    for method in ("nestloop", "hashjoin", "mergejoin"):
        owner.execute(f"set enable_{method} = off")
        rows = owner.execute(LIST, (orders.id,)).fetchall()

        assert [row[3] for row in rows] == [[*"abcdefgh"]]
