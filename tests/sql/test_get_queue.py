import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue


def test_get_gives_attributes_by_their_sqs_names(node: Connection) -> None:
    queue = Queue(node, DelaySeconds=4)

    row = node.execute(
        "select queue_id, fifo, attributes, tags from skipmq.get_queue(%s, %s, %s)",
        ("orders", "000000000000", "us-east-1"),
    ).fetchone()

    assert row is not None
    assert row[:2] == (queue.id, False)
    assert row[2]["DelaySeconds"] == "4"
    assert row[2]["MessageRetentionPeriod"] == "345600"
    assert row[3] == {}


def test_get_of_another_account_or_region_finds_nothing(node: Connection) -> None:
    Queue(node)

    for account, region in [("111111111111", "us-east-1"), ("000000000000", "eu-west-1")]:
        rows = node.execute(
            "select * from skipmq.get_queue('orders', %s, %s)", (account, region)
        ).fetchall()
        assert rows == []


def test_queue_that_is_being_moved_has_its_new_number_and_its_name_is_taken(
    owner: Connection,
) -> None:
    Queue(owner, DelaySeconds=4)
    owner.execute(
        "with gone as (delete from skipmq.queue q returning q.*)"
        " insert into skipmq.relocation (queue_id, new_queue_id, account, region, name, queue)"
        " select g.queue_id, 33554433, g.account, g.region, g.name, to_jsonb(g) from gone g"
    )

    row = owner.execute(
        "select queue_id, attributes ->> 'DelaySeconds'"
        " from skipmq.get_queue('orders', '000000000000', 'us-east-1')"
    ).fetchone()
    with pytest.raises(psycopg.Error, match="reserved for another partition") as created:
        owner.execute("select skipmq.create_queue('orders')")
    with pytest.raises(psycopg.Error) as found:
        owner.execute("select skipmq.queue_id('orders')")

    assert row == (33554433, "4")
    assert created.value.sqlstate == "SQ013"
    assert "it is in another partition" in str(found.value.diag.message_hint)
