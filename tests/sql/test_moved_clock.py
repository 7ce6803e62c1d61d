import psycopg
import pytest

from support.applications import Applications
from support.postgres import Connection
from support.sql import advance, number


def test_moved_clock_is_ahead_of_the_databases_by_the_setting(owner: Connection) -> None:
    advance(owner, "1 day")

    ahead = number(owner, "select extract(epoch from skipmq.moved_clock() - clock_timestamp())")

    assert 86_399 < ahead <= 86_400


def test_role_with_the_right_on_the_setting_goes_by_it(
    owner: Connection, applications: Applications
) -> None:
    shop = applications.both("shop", "orders")
    owner.execute("select skipmq.create_queue('orders')")
    shop.execute("set skipmq.clock_offset = '1 day'")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only the owner of the schema"):
        shop.execute("select skipmq.send_message('orders', 'x')")

    owner.execute("grant set on parameter skipmq.clock_offset to shop")
    try:
        shop.execute("select skipmq.send_message('orders', 'x')")
    finally:
        owner.execute("revoke set on parameter skipmq.clock_offset from shop")

    ahead = number(
        owner,
        "select extract(epoch from max(sent_at) - clock_timestamp()) from skipmq.message"
        " where queue_id > 0",
    )
    assert 86_300 < ahead <= 86_400
    shop.execute("reset skipmq.clock_offset")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send"):
        shop.execute("select skipmq.send_message('others', 'x')")
