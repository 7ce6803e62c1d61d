import pytest

from support.postgres import Connection
from support.sql import Queue

IDS = "select skipmq.delayed_ids(%s, %s::uuid[], skipmq.clock())"


@pytest.mark.parametrize("delay", [900, 86_400])
def test_delayed_messages_are_found_by_message_id(owner: Connection, delay: int) -> None:
    orders = Queue(owner, MaximumDelaySeconds=86_400)
    (later,) = orders.send("later", delay=delay)
    (now,) = orders.send("now")

    found = orders.connection.execute(IDS, (orders.id, [later, now])).fetchone()

    assert found is not None
    known, missing = found[0]
    assert missing is None
    row = orders.connection.execute(
        "select message_id::text from skipmq.message where id = %s", (known,)
    ).fetchone()
    assert row == (later,)
