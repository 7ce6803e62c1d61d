import psycopg
import pytest

from support.applications import Applications
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue
from support.staging import stage, staged

RED = '{"colour": {"DataType": "String", "StringValue": "red"}}'


@pytest.mark.usefixtures("orders")
def test_messages_are_stored_with_all_that_they_have(owner: Connection) -> None:
    refused = stage(
        owner, "a", "b", attributes=[RED, None], delays=[None, 7], group_ids=["g", None],
        trace_headers=[None, "t"],
    )  # fmt: skip

    rows = owner.execute(
        "select target, place, body, attributes is null, delay, group_id, trace_header"
        " from skipmq.staged_message order by place"
    ).fetchall()
    assert refused == []
    assert rows == [
        ("000000000000/us-east-1/orders", 1, "a", False, None, "g", None),
        ("000000000000/us-east-1/orders", 2, "b", True, 7, None, "t"),
    ]


@pytest.mark.usefixtures("orders")
def test_refused_messages_are_returned_each_with_its_reason(owner: Connection) -> None:
    bodies = ["fine", "", "\x01", "fine", "late", "fine"]
    refused = stage(
        owner, *bodies, first=10, delays=[None, None, None, None, 901, None],
        attributes=[None, None, None, '{"x": 1}', None, "no json"],
    )  # fmt: skip

    assert [place for place, _ in refused] == [11, 12, 13, 14, 15]
    assert refused[0][1] == "The request must contain the parameter MessageBody."
    assert refused[1][1].startswith("Invalid characters found.")
    assert refused[2][1].startswith("Message attributes are ")
    assert "DelaySeconds must be >= 0 and <= 900" in refused[3][1]
    assert "json" in refused[4][1]
    assert owner.execute("select place from skipmq.staged_message").fetchall() == [(10,)]


@pytest.mark.usefixtures("orders", "fifo")
def test_what_a_type_of_queue_has_not_is_refused(owner: Connection) -> None:
    (standard,) = stage(owner, "a", deduplication_ids=["d"])
    (delayed,) = stage(owner, "a", queue="orders.fifo", group_ids=["g"], delays=[1])
    (without,) = stage(owner, "a", queue="orders.fifo")

    assert "parameter MessageDeduplicationId is invalid" in standard[1]
    assert "parameter DelaySeconds is invalid" in delayed[1]
    assert without[1] == "The request must contain the parameter MessageGroupId."


def test_deduplication_ids_are_the_given_ones_or_of_each_message(owner: Connection) -> None:
    FifoQueue(owner, "one.fifo")
    FifoQueue(owner, "two.fifo", ContentBasedDeduplication="true")
    for queue in ("one.fifo", "two.fifo"):
        assert not stage(
            owner, "x", "x", "y", queue=queue, group_ids=["g"] * 3,
            deduplication_ids=[None, None, "own"],
        )  # fmt: skip

    counts = owner.execute(
        "select target, count(distinct deduplication_id),"
        " count(*) filter (where deduplication_id = 'own')"
        " from skipmq.staged_message group by 1 order by 1"
    ).fetchall()
    assert [row[1:] for row in counts] == [(3, 1), (2, 1)]


def test_a_part_that_is_repeated_has_rows_of_its_own(owner: Connection, orders: Queue) -> None:
    assert orders.id
    stage(owner, "a")

    with pytest.raises(psycopg.errors.UniqueViolation):
        stage(owner, "a")
    assert staged(owner) == 1


def test_application_needs_the_right_to_send(
    orders: Queue, owner: Connection, applications: Applications
) -> None:
    Queue(owner, "mails")
    sender = applications.sender("sender", orders.name)

    assert stage(sender, "a") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send to"):
        stage(sender, "a", queue="mails")
    with pytest.raises(psycopg.Error) as caught:
        stage(owner, "a", queue="nowhere")
    assert caught.value.sqlstate == "SQ001"
