from support.postgres import Connection
from support.sql import advance, number

EXPIRE = "select skipmq.expire_ended_sessions(%s)"
COUNT = "select count(*) from skipmq.ended_session"


def test_sessions_that_are_over_are_forgotten_up_to_the_limit(owner: Connection) -> None:
    for digest, lasts in ((b"a", "1 hour"), (b"b", "1 hour"), (b"c", "8 hours")):
        owner.execute("select skipmq.end_session(%s, %s)", (digest * 32, lasts))
    assert number(owner, EXPIRE, 10) == 0

    advance(owner, "2 hours")

    assert [number(owner, EXPIRE, 1) for _ in range(3)] == [1, 1, 0]
    assert number(owner, COUNT) == 1


def test_session_that_another_transaction_holds_is_skipped(
    owner: Connection, node: Connection
) -> None:
    owner.execute("select skipmq.end_session(%s, '-1 hour')", (b"a" * 32,))

    with owner.transaction():
        owner.execute("select from skipmq.ended_session for update")
        assert number(node, EXPIRE, 10) == 0

    assert number(node, EXPIRE, 10) == 1
