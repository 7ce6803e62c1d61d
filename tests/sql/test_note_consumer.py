from support.postgres import Connection
from support.sql import Queue, advance, number

RECEIVE = "select * from skipmq.receive_message('orders')"
ROW = (
    "select process = 'session ' || pg_backend_pid(), caller = session_user, application, receives,"
    " extract(epoch from skipmq.clock() - last_receive_at) < 30 from skipmq.consumer"
)


def test_session_that_receives_by_sql_is_a_consumer(owner: Connection, orders: Queue) -> None:
    del orders
    owner.execute("set application_name to 'billing'")

    owner.execute(RECEIVE)

    assert owner.execute(ROW).fetchall() == [(True, True, "billing", None, True)]


def test_session_is_noted_again_after_ten_seconds_only(owner: Connection, orders: Queue) -> None:
    del orders
    version = "select xmin::text::bigint from skipmq.consumer"
    owner.execute(RECEIVE)
    first = number(owner, version)

    owner.execute(RECEIVE)
    assert number(owner, version) == first
    advance(owner, "11 seconds")
    owner.execute(RECEIVE)

    assert number(owner, version) != first
    assert number(owner, "select count(*) from skipmq.consumer") == 1
