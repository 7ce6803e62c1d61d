from support.postgres import Connection
from support.sql import Queue, number

VALUE = "select value from skipmq.database_statistics() where name = %s and label = %s"


def test_node_sees_sizes_rows_and_ages(node: Connection) -> None:
    found = node.execute("select name, label, value from skipmq.database_statistics()").fetchall()

    values = {(name, label): value for name, label, value in found}
    assert values["wal bytes", ""] > 0
    assert values["database bytes", ""] > values["table bytes", "message"] > 0
    assert values["table bytes", "history"] > 0
    assert values["frozen age", ""] >= 0
    assert 0 < values["sessions", ""] < values["most sessions", ""]
    assert {label for name, label in values if name == "dead rows"} == {
        "message",
        "message_group",
        "deduplication",
        "queue_delta",
    }


def test_task_that_runs_for_days_is_counted(owner: Connection) -> None:
    for status in ("RUNNING", "FAILED"):
        owner.execute(
            "insert into skipmq.move_task"
            " (task_id, source_arn, status, to_move, started_at, paid_until)"
            " select gen_random_uuid(), %s, %s, 1, t, t"
            " from (values (skipmq.clock() - interval '25 hours')) v (t)",
            (f"arn:{status}", status),
        )

    assert number(owner, VALUE, "tasks", "running") == 1
    assert number(owner, VALUE, "tasks", "failed") == 0


def test_age_of_the_counts_is_that_of_the_last_fold_of_all(
    owner: Connection, node: Connection
) -> None:
    every = "select name from skipmq.database_statistics() where value is not null"
    assert ("counted age",) not in node.execute(every).fetchall()

    owner.execute("select skipmq.fold_counts(true)")
    owner.execute("update skipmq.cluster set counted_to = counted_to - interval '1 hour'")
    owner.execute("select skipmq.fold_counts(false)")

    assert 3600 <= number(node, VALUE, "counted age", "") < 7200


def test_dead_rows_are_those_that_vacuum_has_not_cleared(orders: Queue) -> None:
    owner = orders.connection
    orders.send(*["x"] * 50)
    orders.delete(*orders.receive(10))
    owner.execute("select pg_stat_force_next_flush()")

    assert number(owner, VALUE, "dead rows", "message") > 0


def test_snapshot_that_is_held_shows_in_transactions(owner: Connection, node: Connection) -> None:
    with node.transaction():
        node.execute("set transaction isolation level repeatable read")
        node.execute("select count(*) from skipmq_views.queue")
        for _ in range(20):
            owner.execute("select pg_current_xact_id()")

        assert number(owner, VALUE, "oldest xmin", "") >= 20
