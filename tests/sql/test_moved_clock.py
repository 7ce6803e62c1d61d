from support.postgres import Connection
from support.sql import advance, number


def test_moved_clock_is_ahead_of_the_databases_by_the_setting(owner: Connection) -> None:
    advance(owner, "1 day")

    ahead = number(owner, "select extract(epoch from skipmq.moved_clock() - clock_timestamp())")

    assert 86_399 < ahead <= 86_400
