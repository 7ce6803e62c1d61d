from typing import Any

import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import effects

TOGETHER = (
    "select skipmq.refresh_groups_of_queues(array_agg(g.queue_id), array_agg(g.group_no))"
    " from skipmq.message_group g where g.queue_id > 0"
)
APART = (
    "select skipmq.refresh_groups(g.queue_id, array_agg(g.group_no))"
    " from skipmq.message_group g where g.queue_id > 0 group by g.queue_id"
)
GROUPS = (
    "select queue_id, group_no, first_number, available_at - now() > '1 s' as late,"
    " available_at > now() as soon"
    " from skipmq.message_group where queue_id > 0 order by 1, 2"
)


def groups_after(connection: Connection, statement: str) -> Any:
    def call() -> Any:
        connection.execute(statement)
        return connection.execute(GROUPS).fetchall()

    return effects(connection, call)["answer"]


def test_groups_become_what_a_refresh_of_each_queue_makes_them(
    owner: Connection, database: str
) -> None:
    delayed = FifoQueue(owner, "delayed.fifo", DelaySeconds=60)
    plain = FifoQueue(owner)
    plain.put("a:1", "a:2", "b:1", "c:1", "sent:1")
    plain.receive(1, timeout=600)
    delayed.put("a:1", "b:1")
    # Without the functions that keep the rows of groups.
    owner.execute("delete from skipmq.message where group_id in ('b', 'sent')")
    owner.execute("delete from skipmq.message where queue_id = %s and group_id = 'c'", (plain.id,))
    with psycopg.connect(database) as sender:
        plain.on(sender).put("sent:2")

        together = groups_after(owner, TOGETHER)

        assert together == groups_after(owner, APART)
    assert [row[0] for row in together] == sorted([plain.id] * 2 + [delayed.id])
    assert [row[4] for row in together] == [True] * 3


def test_rows_stay_where_later_messages_cannot_be_seen(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1", "b:1")
    with psycopg.connect(database) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("delete from skipmq.message where group_id = 'a'")
        old.execute(TOGETHER)
        old.commit()

    assert fifo.groups() == 2
