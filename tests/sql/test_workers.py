from support.postgres import Connection
from support.sql import advance


def test_workers_have_uptime_and_age_of_their_heartbeat(
    owner: Connection, node: Connection
) -> None:
    node.execute("select skipmq.note_worker('a', 'h', '1.0', '1 minute', '{\"memory\": 5}')")

    advance(owner, "30 seconds")

    rows = owner.execute(
        "select process, host, release, round(uptime), seen >= 30 and seen < 60, figures"
        " from skipmq.workers()"
    ).fetchall()
    assert rows == [("a", "h", "1.0", 60, True, {"memory": 5})]
