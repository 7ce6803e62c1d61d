import pytest

from support.postgres import Connection
from support.sql import advance, number

KEYS = "select array_agg(key order by age) from skipmq.receipt_keys()"
ROTATE = "select skipmq.rotate_receipt_key()"


def test_receipt_key_is_the_same_for_all_and_long_enough(
    owner: Connection, node: Connection
) -> None:
    (key,) = number(node, KEYS)

    assert [key] == number(owner, KEYS)
    assert len(key) == 32


@pytest.mark.parametrize(("since", "kept"), [("12 hours", True), ("12 hours 3 minutes", False)])
def test_replaced_key_is_given_for_twelve_hours(owner: Connection, since: str, kept: bool) -> None:
    (first,) = number(owner, KEYS)
    owner.execute(ROTATE)

    advance(owner, since)

    newest, *others = number(owner, KEYS)
    assert newest != first
    assert others == ([first] if kept else [])


def test_keys_are_given_newest_first_with_their_age(owner: Connection) -> None:
    (first,) = number(owner, KEYS)
    advance(owner, "1 hour")
    owner.execute(ROTATE)

    rows = owner.execute("select key, age from skipmq.receipt_keys()").fetchall()

    assert [key == first for key, _ in rows] == [False, True]
    assert [round(age / 3600) for _, age in rows] == [0, 1]
