"""Publications of an operator's, for a replica or a stream of changes."""

from support.postgres import Connection
from support.sql import Queue, history, number

UNIDENTIFIED = """
select c.relname
from pg_class c
where c.relnamespace = 'skipmq'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p'
  and not (c.relreplident = 'f' or c.relreplident = 'd' and exists (
    select from pg_index i where i.indrelid = c.oid and i.indisprimary))
order by c.relname
"""


def test_each_logged_table_has_an_identity_of_its_rows(owner: Connection) -> None:
    """Without one PostgreSQL refuses deletes and updates of a published table."""
    assert number(owner, "select skipmq.create_history_partitions(9)") == 2

    assert owner.execute(UNIDENTIFIED.encode()).fetchall() == []


def test_publication_of_all_tables_stops_nothing(orders: Queue) -> None:
    connection = orders.connection
    orders.send("a", "b")
    orders.delete(*orders.receive(1))
    # A row of a day without a partition, which moves into it.
    connection.execute("update skipmq.history set settled_at = settled_at + interval '9 days'")
    connection.execute("create publication everything for all tables")

    created = number(connection, "select skipmq.create_history_partitions(9)")
    folded = number(connection, "select skipmq.fold_counts(true)")

    assert (created, folded > 0) == (2, True)
    assert number(connection, "select count(*) from skipmq.queue_delta") == 0
    assert orders.counts() == (1, 0, 0)
    assert history(connection) == [("deleted",)]
    assert number(connection, "select count(*) from only skipmq.history_default") == 0
