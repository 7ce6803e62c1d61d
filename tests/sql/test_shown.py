from support.postgres import Connection
from support.sql import number


def test_long_value_is_shown_without_its_end(owner: Connection) -> None:
    texts = [number(owner, "select skipmq.shown(%s)", "x" * n) for n in (1, 200, 201)]

    assert texts == ["x", "x" * 200, "x" * 197 + "..."]
