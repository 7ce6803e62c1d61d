from support.postgres import Connection
from support.sql import number

NOTE = (
    "select skipmq.note_refusals('{000000000000}', '{us-east-1}', '{prices}', '{user anna}',"
    " '{AccessDenied}', %s)"
)


def test_numbers_of_a_minute_are_added(owner: Connection, node: Connection) -> None:
    for refused in (3, 4):
        node.execute(NOTE, ([refused],))

    assert number(owner, "select sum(number) from skipmq.refusal") == 7
