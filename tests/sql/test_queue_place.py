"""queue_place returns where a name is reserved."""

from support.postgres import Connection


def test_name_that_is_not_reserved_has_no_place(node: Connection) -> None:
    row = node.execute("select skipmq.queue_place('000000000000', 'us-east-1', 'tea')").fetchone()

    assert row == (None,)


def test_reserved_name_has_its_place(node: Connection) -> None:
    node.execute("select skipmq.reserve_queue('000000000000', 'us-east-1', 'tea', 3)")

    row = node.execute("select skipmq.queue_place('000000000000', 'us-east-1', 'tea')").fetchone()

    assert row == (3,)
