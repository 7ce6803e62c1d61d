import psycopg

from support.damage import damaged_copy, pages_of
from support.postgres import Databases
from support.sql import Queue, number

TRY = "select visible, in_flight, delayed from skipmq.try_count_messages(%s, %s)"
STATISTICS = (
    "select queue, visible, messages from skipmq.queue_statistics() where queue is not null"
)


def test_intact_queue_is_counted(orders: Queue) -> None:
    orders.send("a", "b", delay=60)

    assert orders.connection.execute(TRY, (orders.id, 7)).fetchone() == (0, 0, 2)


def test_queue_on_a_damaged_page_has_the_sum_and_hides_no_other(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        orders = Queue(owner)
        orders.send("a", "b", delay=60)
        (page,) = pages_of(owner, "true")
        Queue(owner, "other")
        owner.execute("select skipmq.fold_counts(true)")
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as owner:
        counted = owner.execute(TRY, (orders.id, 7)).fetchone()
        statistics = owner.execute(STATISTICS).fetchall()
        troubles = number(
            owner, "select count(*) from skipmq.queue_troubles('000000000000', 'us-east-1')"
        )
    databases.drop(url)

    assert counted == (7, 0, 0)
    assert statistics == [("orders", 2, 2), ("other", 0, 0)]
    assert troubles == 0
