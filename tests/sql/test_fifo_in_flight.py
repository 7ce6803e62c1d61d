from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number

BODIES = """
  select array(
    select m.body from skipmq.fifo_in_flight(%s, skipmq.clock()) f join skipmq.message m using (id)
    where m.enqueued_at = f.enqueued_at order by m.body)
"""


def test_received_and_hidden_messages_are_in_flight(owner: Connection, fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "b:4", "c:5")
    assert number(owner, BODIES, fifo.id) == []

    first, _ = fifo.receive(2)

    assert number(owner, BODIES, fifo.id) == ["1", "2"]
    fifo.hide(0, first)
    assert number(owner, BODIES, fifo.id) == ["2"]
