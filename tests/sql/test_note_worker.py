from support.postgres import Connection
from support.sql import number

NOTE = "select skipmq.note_worker(%s, 'host', '1.0', '1 minute', %s)"


def test_worker_is_recorded_until_it_stops(owner: Connection, node: Connection) -> None:
    node.execute(NOTE, ("a", '{"requests": 1}'))
    node.execute(NOTE, ("a", '{"requests": 2}'))
    node.execute(NOTE, ("b", "{}"))
    assert number(owner, "select figures -> 'requests' from skipmq.worker where process = 'a'") == 2

    node.execute(NOTE, ("a", None))

    assert owner.execute("select process from skipmq.worker").fetchall() == [("b",)]
