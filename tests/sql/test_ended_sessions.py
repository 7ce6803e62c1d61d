from support.postgres import Connection
from support.sql import advance, number

ENDED = "select coalesce(array_agg(e order by e), '{}') from skipmq.ended_sessions() e"


def test_only_sessions_that_would_still_last_are_given(owner: Connection, node: Connection) -> None:
    long, short = b"l" * 32, b"s" * 32
    owner.execute("select skipmq.end_session(%s, '8 hours')", (long,))
    owner.execute("select skipmq.end_session(%s, '1 hour')", (short,))
    assert number(node, ENDED) == [long, short]

    advance(owner, "2 hours")

    assert number(owner, ENDED) == [long]
