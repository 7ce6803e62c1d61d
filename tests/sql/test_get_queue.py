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
