from support.postgres import Connection
from support.sql import Queue, advance

HELD = "select trouble, reason from skipmq.held_back(%s, %s, 0)"


def test_bound_of_what_could_be_received_is_that_of_the_trouble(
    owner: Connection, orders: Queue
) -> None:
    owner.execute("select skipmq.pause_group(%s, 'g', p_by => 'anna')", (orders.id,))
    orders.send("a", "b")
    owner.execute("update skipmq.message set group_id = 'g' where body = 'a'")
    advance(owner, "5 minutes")

    def held(trouble: str) -> tuple[str, ...] | None:
        return owner.execute(HELD, (orders.id, trouble)).fetchone()

    assert held("behind") == ("group-paused", "g, which anna paused")
    assert held("receivers-idle") == ("receivers-idle", None)
    assert held("redelivered") == ("redelivered", None)
    orders.delete(*orders.receive(10))
    assert held("receivers-idle") == ("group-paused", "g, which anna paused")
