import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number

SEND = "select skipmq.send_fifo_message(%s, %s, %s, %s)"


def test_send_within_a_transaction(owner: Connection, database: str) -> None:
    fifo = FifoQueue(owner)
    with psycopg.connect(database) as mine:
        mine.execute(SEND, ("orders.fifo", "1", "a", "id"))
        assert fifo.take() == []
        mine.commit()

    assert fifo.take() == ["a:1"]


def test_id_may_come_from_the_body(owner: Connection) -> None:
    fifo = FifoQueue(owner, ContentBasedDeduplication="true")

    sent = [number(owner, SEND, "orders.fifo", "same", "a", None) for _ in range(2)]

    assert sent[0] == sent[1]
    assert fifo.take() == ["a:same"]


@pytest.mark.parametrize(
    ("body", "group", "deduplication_id", "sqlstate"),
    [
        ("x", None, "id", "SQ011"),
        ("", "a", "id", "SQ011"),
        ("x", "a b", "id", "SQ008"),
        ("x", "a", None, "SQ008"),
        ("x", "a", "a b", "SQ008"),
    ],
)
def test_what_sqs_refuses_is_refused(
    fifo: FifoQueue, body: str, group: str | None, deduplication_id: str | None, sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(fifo.connection, SEND, fifo.name, body, group, deduplication_id)

    assert caught.value.sqlstate == sqlstate
