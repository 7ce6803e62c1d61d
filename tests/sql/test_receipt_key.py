from support.postgres import Connection
from support.sql import number


def test_receipt_key_is_the_same_for_all_and_long_enough(
    owner: Connection, node: Connection
) -> None:
    key = number(node, "select skipmq.receipt_key()")

    assert key == number(owner, "select skipmq.receipt_key()")
    assert len(key) == 32
