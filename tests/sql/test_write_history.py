import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, history, number

WRITE = (
    "select skipmq.write_history((select array_agg(ctid) from skipmq.message where queue_id > 0),"
    " 'expired', clock_timestamp())"
)


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("off", []), ("metadata", [("expired", 1, 1, None)]), ("full", [("expired", 1, 1, "b")])],
)
def test_history_is_what_the_queues_mode_says(
    owner: Connection, mode: str, kept: list[tuple[str, int, int, str | None]]
) -> None:
    queue = Queue(owner, HistoryMode=mode)
    queue.send("b")
    queue.receive()

    owner.execute(WRITE)

    assert history(owner, "outcome, receive_count, body_bytes, body") == kept
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 1


def test_outcome_that_there_is_not_is_refused(orders: Queue) -> None:
    orders.send("b")

    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="lost"):
        orders.connection.execute(WRITE.replace("expired", "lost"))
