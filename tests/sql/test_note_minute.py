from support.postgres import Connection
from support.sql import number

NOTE = "select skipmq.note_minute(%s, %s, %s, %s)"


def test_numbers_are_added_to_the_minute_of_their_age(owner: Connection, node: Connection) -> None:
    for _ in range(2):
        node.execute(NOTE, ([0, 0, 300], ["error"] * 3, ["Locked"] * 3, [1, 2, 4]))

    # The two calls may be in two minutes.
    found = owner.execute(
        "select sum(number)::integer from skipmq.broker_minute where kind = 'error'"
        " group by minute > clock_timestamp() - interval '150 seconds' order by 1"
    ).fetchall()
    assert found == [(6,), (8,)]
    assert number(owner, "select count(*) from skipmq.broker_minute where account <> ''") == 0
