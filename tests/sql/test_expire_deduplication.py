from support.fifo import FifoQueue
from support.sql import advance, number

EXPIRE = "select skipmq.expire_deduplication(%s::int)"
LEFT = """
  select (select count(*) from skipmq.deduplication) + (select count(*) from skipmq.receive_attempt)
"""


def test_ids_and_attempts_are_forgotten_after_five_minutes_and_one_more(fifo: FifoQueue) -> None:
    fifo.put(*[f"a:{n}" for n in range(5)])
    fifo.poll(1, 600, attempt="x")
    assert number(fifo.connection, EXPIRE, 100) == 0

    advance(fifo.connection, "350 s")
    assert number(fifo.connection, EXPIRE, 100) == 0
    advance(fifo.connection, "361 s")

    assert [number(fifo.connection, EXPIRE, 3) for _ in range(3)] == [4, 2, 0]
    assert number(fifo.connection, LEFT) == 0
