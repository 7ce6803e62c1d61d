"""The plan of each statement on the hot path, on tables of every size: always an index probe.

On a table that was vacuumed while empty the planner likes sequential scans, and keeps them after it
has filled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from support.postgres import Connection, Databases
from support.sql import Queue, number, receipts

ROWS = 60_000
FILL = """
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
  select nextval('skipmq.message_id_seq'), now() - n * interval '1 ms', now(), now(), {queue},
    gen_random_uuid(), 'x'
  from generate_series(1, {rows}) n
"""


def empty(queue: Queue) -> None:
    """Leave the table as the installation made it."""
    del queue


def vacuumed_empty(queue: Queue) -> None:
    """Leave the table as it is in a copy of the database `emptied`."""
    pages = "select relpages from pg_class where oid = 'skipmq.message'::regclass"
    assert number(queue.connection, pages) > 400
    assert number(queue.connection, "select count(*) from skipmq.message where queue_id > 0") == 0


def refilled(queue: Queue) -> None:
    """Use the table while it is vacuumed empty, then fill it without an analyze."""
    vacuumed_empty(queue)
    for _ in range(7):
        queue.delete(*queue.receive())
        queue.hide(1, *[])
    queue.connection.execute(FILL.format(queue=queue.id, rows=20_000))


def large(queue: Queue) -> None:
    """Leave the table as it is in a copy of the database `full`."""
    assert number(queue.connection, "select count(*) from skipmq.message") >= ROWS // 3 * 3


States = pytest.mark.parametrize("state", [empty, vacuumed_empty, refilled, large])
State = Callable[[Queue], None]


@pytest.fixture(scope="module")
def full(databases: Databases) -> Iterator[str]:
    """Give a database whose table is full, with other queues' messages around."""
    url = databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        queue = Queue(owner)
        for other in (queue.id, queue.id + 1, queue.id + 2):
            owner.execute(FILL.format(queue=other, rows=ROWS // 3).encode())
        owner.execute("analyze skipmq.message")
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def emptied(databases: Databases) -> Iterator[str]:
    """Give a database whose table was filled and emptied, which the planner knows."""
    url = databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(FILL.format(queue=Queue(owner).id, rows=20_000).encode())
        owner.execute("delete from skipmq.message where queue_id > 0")
        owner.execute("vacuum analyze skipmq.message")
    yield url
    databases.drop(url)


@pytest.fixture
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """Give a fresh database, or a copy of the one that is in the test's state."""
    copied = {large: "full", vacuumed_empty: "emptied", refilled: "emptied"}
    source = copied.get(request.node.callspec.params.get("state"))
    url = databases.copy(request.getfixturevalue(source)) if source else databases.migrated()
    yield url
    databases.drop(url)


@contextmanager
def plans(connection: Connection) -> Iterator[list[str]]:
    """Collect the plans of all statements, those within functions too."""
    collected: list[str] = []
    connection.add_notice_handler(lambda notice: collected.append(notice.message_primary or ""))
    connection.execute("load 'auto_explain'")
    connection.execute("set auto_explain.log_min_duration = 0")
    connection.execute("set auto_explain.log_nested_statements = on")
    connection.execute("set auto_explain.log_level = notice")
    connection.execute("set client_min_messages = notice")
    yield collected
    connection.execute("set auto_explain.log_min_duration = -1")


def of_messages(collected: list[str]) -> list[str]:
    """Return the plans that touch the message table."""
    return [plan for plan in collected if " on message m" in plan]


def assert_no_scan(plan: str) -> None:
    for scan in ("Seq Scan on message", "Bitmap", "Sort Key: m.", "Hash Cond", "Merge Join"):
        assert scan not in plan, plan


def assert_probes(plan: str, index: str, *conditions: str) -> None:
    assert_no_scan(plan)
    assert f"using {index} on message" in plan, plan
    found = [line for line in plan.splitlines() if "Index Cond" in line]
    assert any(all(c in line for c in conditions) for line in found), plan


@States
def test_plan_of_receive_probes_the_visibility_index(orders: Queue, state: State) -> None:
    state(orders)
    orders.send("a", "b")

    with plans(orders.connection) as collected:
        orders.receive()

    claims = [p for p in of_messages(collected) if "Update on message" in p]
    assert len(claims) == 1
    assert_probes(
        claims[0], "message_visible", "queue_id = ", "shard = ", "visible_at >= ", "visible_at <= "
    )
    assert "Tid Scan on message m" in claims[0]


@States
def test_plan_of_an_empty_receive_probes_the_visibility_index(orders: Queue, state: State) -> None:
    state(orders)
    nothing = Queue(orders.connection, "nothing")
    nothing.id = nothing.id + 10  # Not one of those that `large` fills.
    orders.connection.execute(
        "update skipmq.queue set queue_id = %s where name = 'nothing'", (nothing.id,)
    )

    with plans(orders.connection) as collected:
        nothing.receive()

    touching = of_messages(collected)
    # What was received before, the claim, what has expired, and the next to become visible.
    assert len(touching) == 4
    for plan in touching:
        assert_probes(plan, "message_visible", "queue_id = ", "shard = ", "visible_at >")


@States
def test_plan_of_delete_probes_the_primary_key(orders: Queue, state: State) -> None:
    state(orders)
    orders.send("a", "b")
    received = orders.receive()

    with plans(orders.connection) as collected:
        assert orders.delete(*received) == len(received)

    (plan,) = of_messages(collected)
    assert_probes(plan, "message_pkey", "queue_id = ", "id = r.id")


@States
def test_plan_of_change_visibility_probes_the_primary_key(orders: Queue, state: State) -> None:
    state(orders)
    orders.send("a", "b")
    received = orders.receive()

    with plans(orders.connection) as collected:
        assert set(orders.hide(60, *received)) == {"changed"}

    locking, changing = of_messages(collected)
    for plan in (locking, changing):
        assert_probes(plan, "message_pkey", "queue_id = ", "id = ")
    assert "Tid Scan on message m" in changing


@States
def test_plan_of_expiry_probes_the_visibility_index(orders: Queue, state: State) -> None:
    state(orders)

    with plans(orders.connection) as collected:
        orders.connection.execute("select skipmq.expire_messages()")

    plans_of_shards = of_messages(collected)
    assert plans_of_shards
    for plan in plans_of_shards:
        assert_probes(plan, "message_visible", "queue_id = ", "shard = ", "visible_at <= ")


@pytest.fixture
def mails(orders: Queue) -> Queue:
    """Give a second queue, for statements on several."""
    return Queue(orders.connection, "mails")


@States
def test_plans_of_a_send_again_to_queues_probe_the_visibility_index(
    orders: Queue, mails: Queue, state: State
) -> None:
    state(orders)
    ids = [number(orders.connection, "select gen_random_uuid()") for _ in range(2)]

    with plans(orders.connection) as collected:
        orders.connection.execute(
            "select skipmq.send_to_queues(%s::bigint[], %s::uuid[], array['a', 'b'], null, null,"
            " array['g', null], null, null, 'on', '90 seconds')",
            ([orders.id, mails.id], ids),
        )

    touching = of_messages(collected)
    assert len(touching) == 2
    for plan in touching:
        assert_probes(plan, "message_visible", "queue_id = ", "shard = ", "visible_at >= ")
    of_queues = [plan for plan in collected if " on queue q" in plan]
    assert of_queues
    for plan in of_queues:
        assert "Seq Scan" not in plan, plan


@States
def test_plans_of_receives_from_queues_probe_the_visibility_index(
    orders: Queue, mails: Queue, state: State
) -> None:
    state(orders)
    for queue in (orders, mails):
        queue.send("a", "b")

    with plans(orders.connection) as collected:
        found = orders.connection.execute(
            "select * from skipmq.receive_from_queues(%s::bigint[], '{1,2}', '{30,null}', 'on',"
            " null, null, array[skipmq.clock() - interval '10 minutes', null], null, null, null,"
            " null, null) where id is not null",
            ([orders.id, mails.id],),
        ).fetchall()

    assert len(found) == 3
    touching = of_messages(collected)
    claims = [plan for plan in touching if "LockRows" in plan]
    # Of the first queue, quickly, and of the second.
    assert len(claims) == 2
    for plan in claims:
        assert_probes(
            plan, "message_visible", "queue_id = ", "shard = ", "visible_at >= ", "visible_at <= "
        )
    (hiding,) = [p for p in touching if "Update on message" in p and p not in claims]
    assert_no_scan(hiding)
    assert "Tid Scan on message m" in hiding


@States
def test_plans_of_a_delete_from_queues_probe_the_primary_key(
    orders: Queue, mails: Queue, state: State
) -> None:
    state(orders)
    for queue in (orders, mails):
        queue.send("a", "b")
    both = [(queue, message) for queue in (orders, mails) for message in queue.receive(2)]
    queues, messages = zip(*both, both[0], strict=True)
    missing = {**messages[0], "receive_count": 99}

    with plans(orders.connection) as collected:
        left = number(
            orders.connection,
            "select skipmq.delete_from_queues"
            "(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[], 'on')",
            [queue.id for queue in queues],
            *receipts([*messages[:-1], missing]),
        )

    assert left == []
    deleting, looking = of_messages(collected)
    for plan in (deleting, looking):
        assert_probes(plan, "message_pkey", "id = u.id")
    assert "Tid Scan on message m" in deleting


def test_ballast_is_no_queues_message(orders: Queue) -> None:
    for table in ("skipmq.message", "skipmq.queue"):
        row = orders.connection.execute(
            f"select count(*) from {table} where queue_id = 0"
        ).fetchone()
        assert row is not None
        assert row[0] == (10_000 if table == "skipmq.message" else 0)


@States
def test_plan_of_the_oldest_message_probes_the_primary_key(orders: Queue, state: State) -> None:
    state(orders)
    orders.send("a", "b")
    orders.receive(1)

    with plans(orders.connection) as collected:
        orders.connection.execute("select skipmq.oldest_message(%s, false)", (orders.id,))

    found, none_of_another_partition = of_messages(collected)
    for plan in (found, none_of_another_partition):
        assert_probes(plan, "message_pkey", "queue_id = ", "id >= ")


@States
def test_plan_of_the_oldest_message_behind_delayed_ones_probes_the_visibility_index(
    orders: Queue, state: State
) -> None:
    state(orders)
    later = Queue(orders.connection, "later")
    later.send("a", delay=60)

    with plans(orders.connection) as collected:
        orders.connection.execute("select skipmq.oldest_message(%s, false)", (later.id,))

    _, visible = of_messages(collected)
    assert_probes(visible, "message_visible", "queue_id = ", "shard = ", "visible_at <= ")
