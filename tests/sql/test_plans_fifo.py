"""What the functions of FIFO queues touch does not depend on what waits.

The plans are made while the queues are empty, and kept when they have filled: the planner knows no
better then than to take any index that begins with the queue.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number

WAITING = 50_000
FILL = """
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, group_no, sequence_number, message_id, group_id,
    deduplication_id, body)
  select nextval('skipmq.message_id_seq'), t, t, t, %(queue)s,
    hashtextextended('g' || n %% %(groups)s, %(queue)s), nextval('skipmq.sequence_number_seq'),
    gen_random_uuid(), 'g' || n %% %(groups)s, n::text, 'x'
  from generate_series(1, %(count)s) n
  cross join lateral (select now() - (%(count)s - n) * interval '1 ms' as t) t
"""
GROUPS = """
  insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
  select queue_id, group_no, min(visible_at), min(sequence_number)
  from skipmq.message where queue_id = %s group by 1, 2
"""
KEYS = """
  insert into skipmq.deduplication (queue_id, key, expires_at, sequence_number, message_id)
  select queue_id, gen_random_uuid(), now() + interval '5 minutes', sequence_number, message_id
  from skipmq.message where queue_id = %s
"""
TABLES = "skipmq.message, skipmq.message_group, skipmq.deduplication"
OPERATIONS: dict[str, Callable[[FifoQueue], object]] = {
    "send": lambda q: q.put("g1:x", "new:x"),
    "send again": lambda q: q.put("g1:x", "new:x", ids=["one", "two"]),
    "receive": lambda q: q.receive(10),
    "receive under an attempt": lambda q: q.poll(10, attempt="x"),
    "delete": lambda q: q.delete(*q.receive(10)),
    "change visibility": lambda q: q.hide(0, *q.receive(10)),
    "count": lambda q: q.counts(),
    "count in flight": lambda q: number(q.connection, "select skipmq.count_in_flight(%s)", q.id),
    "expire": lambda q: number(q.connection, "select skipmq.expire_messages()"),
    "peek": lambda q: number(
        q.connection, "select count(*) from skipmq.peek_messages(%s, null, 10)", q.id
    ),
    "move": lambda q: number(
        q.connection, "select skipmq.move_fifo_batch(%s, %s, 10)", q.id, q.id + 1
    ),
}


@pytest.fixture(
    params=[1, pytest.param(100, marks=pytest.mark.slow), WAITING], ids=lambda n: f"{n}-groups"
)
def groups(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def buffers(owner: Connection) -> Iterator[Callable[[Callable[[], object]], int]]:
    """Give a function that says how many buffers an operation read."""
    plans: list[str] = []
    owner.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
    owner.execute("load 'auto_explain'")
    owner.execute("set auto_explain.log_analyze = on")
    owner.execute("set auto_explain.log_buffers = on")
    owner.execute("set auto_explain.log_level = notice")
    owner.execute("set client_min_messages = notice")

    def measured(operation: Callable[[], object]) -> int:
        plans.clear()
        owner.execute("set auto_explain.log_min_duration = 0")
        operation()
        owner.execute("set auto_explain.log_min_duration = -1")
        found = [re.search(r"Buffers: shared(.*)", plan) for plan in plans]
        return sum(
            int(count)
            for match in found
            if match
            for count in re.findall(r"(?:hit|read)=(\d+)", match[1])
        )

    yield measured
    owner.execute("set auto_explain.log_min_duration = -1")


def filled(owner: Connection, groups: int, *, analyzed: bool) -> FifoQueue:
    """Return a queue that was used while the table was known as empty, and has filled since."""
    owner.execute("delete from skipmq.message")
    owner.execute("delete from skipmq.message_group")
    owner.execute("delete from skipmq.deduplication")
    owner.execute(f"vacuum analyze {TABLES}")
    fifo = FifoQueue(owner)
    FifoQueue(owner, "other.fifo")
    for _ in range(7):
        for operation in OPERATIONS.values():
            operation(fifo)
    parameters = {"queue": fifo.id, "groups": groups, "count": WAITING}
    owner.execute(FILL, parameters)
    owner.execute("delete from skipmq.message_group")
    owner.execute(GROUPS, (fifo.id,))
    owner.execute(KEYS, (fifo.id,))
    if analyzed:
        owner.execute(f"vacuum analyze {TABLES}")
    return fifo


@pytest.mark.parametrize("analyzed", [False, True])
def test_cost_does_not_depend_on_what_waits(
    owner: Connection,
    groups: int,
    buffers: Callable[[Callable[[], object]], int],
    analyzed: bool,
) -> None:
    fifo = filled(owner, groups, analyzed=analyzed)
    most = {"count": 6_000, "count in flight": 6_000, "expire": 100, "peek": 400}
    most["move"] = 5_000  # It reads a thousand groups, whatever it moves.

    found = {}
    for name, operation in OPERATIONS.items():
        operation(fifo)
        found[name] = buffers(lambda operation=operation: operation(fifo))

    assert {name: n for name, n in found.items() if n > most.get(name, 2_000)} == {}
