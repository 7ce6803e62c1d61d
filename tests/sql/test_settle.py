import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, history, number

TIDS = "(select array_agg(ctid) from skipmq.message where queue_id > 0)"


@pytest.mark.parametrize(
    ("mode", "kept"), [("off", []), ("metadata", [("expired", None)]), ("full", [("expired", "b")])]
)
def test_settle_keeps_what_the_queues_mode_says(
    owner: Connection, mode: str, kept: list[tuple[str, str | None]]
) -> None:
    queue = Queue(owner, HistoryMode=mode)
    queue.send("b")

    settled = number(owner, f"select skipmq.settle({TIDS}, 'expired')")

    assert settled == 1
    assert queue.counts() == (0, 0, 0)
    assert history(owner, "outcome, body") == kept


def test_settle_of_a_queue_that_is_gone_takes_its_last_mode(owner: Connection) -> None:
    queue = Queue(owner)
    queue.send("b")
    owner.execute(
        'select skipmq.set_queue_attributes(%s, \'{"HistoryMode": "full"}\')', (queue.id,)
    )
    owner.execute("select skipmq.delete_queue(%s)", (queue.id,))

    owner.execute(f"select skipmq.settle({TIDS}, 'purged')")

    assert history(owner, "outcome, body") == [("purged", "b")]


def test_settle_is_not_for_nodes(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.settle('{}'::tid[], 'expired')")
