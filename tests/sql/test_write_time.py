from support.postgres import Connection
from support.sql import advance, number


def test_time_of_a_write_comes_after_the_number_of_its_transaction(owner: Connection) -> None:
    with owner.transaction():
        before = number(owner, "select pg_current_xact_id_if_assigned() is null")
        time = number(owner, "select skipmq.write_time() between now() and clock_timestamp()")
        after = number(owner, "select pg_current_xact_id_if_assigned() is not null")

    assert (before, time, after) == (True, True, True)


def test_time_of_a_write_moves_with_the_clock(owner: Connection) -> None:
    advance(owner, "1 day")

    assert number(owner, "select skipmq.write_time() > now() + interval '23 hours'")
