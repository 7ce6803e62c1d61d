"""A router has every function that is called from outside, and what it merges is one list."""

import psycopg
import pytest

from skipmq.database import files
from support.audit import record, write, written
from support.partitions import Partitions
from support.postgres import Connection

SQL = files.folder("sql")
HERE = "'000000000000', 'us-east-1'"


def names(two: Partitions, router: Connection, count: int, prefix: str) -> list[str]:
    made = [two.name_at(number % 2, prefix=prefix) for number in range(count)]
    for name in made:
        router.execute("select skipmq.create_queue(%s)", (name,))
    return made


def test_router_has_the_functions_that_nodes_may_call_with_their_signatures(
    two: Partitions, router: Connection
) -> None:
    signature = """
        select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
        from pg_proc p
        where p.pronamespace = 'skipmq'::regnamespace
          and has_function_privilege('skipmq_node', p.oid, 'execute')
    """
    contracts = {file.stem: file.read_text() for file in files.functions()}
    with psycopg.connect(two.urls[0]) as connection:
        there = set(connection.execute(signature).fetchall())

    here = set(router.execute(signature).fetchall())

    routed = {
        name
        for name, text in contracts.items()
        if "-- Routed: " in text and "-- Routed: not: " not in text
    }
    assert here == {each for each in there if each[0] in routed}


def test_lists_are_merged_in_order_and_paged(two: Partitions, router: Connection) -> None:
    made = sorted(names(two, router, 7, "listed"))

    def pages(query: str, start: object, step: int) -> list[str]:
        found: list[str] = []
        after = start
        while rows := router.execute(query, (after, step)).fetchall():
            found += [row[0] for row in rows]
            after = found[-1] if isinstance(start, str) else len(found)
        return found

    assert pages(f"select skipmq.list_queues({HERE}, 'listed', %s, %s)", "", 3) == made
    assert (
        pages(
            "select queue from skipmq.queue_statistics("
            "p_search => 'listed', p_offset => %s, p_limit => %s)"
            " where queue is not null",
            0,
            2,
        )
        == made
    )


def test_statistics_sum_the_other_matches_of_all_partitions(
    two: Partitions, router: Connection
) -> None:
    made = sorted(names(two, router, 5, "summed"))
    for name in made:
        router.execute("select skipmq.send_message(%s, 'tea')", (name,))
    router.execute("select skipmq.fold_counts(true)")

    rows = router.execute(
        "select queue, queues, messages, sent"
        " from skipmq.queue_statistics(p_search => 'summed', p_limit => 2)"
    ).fetchall()

    assert rows == [(made[0], 1, 1, 1), (made[1], 1, 1, 1), (None, 3, 3, 3)]


def test_error_of_a_partition_keeps_its_sqlstate(router: Connection) -> None:
    with pytest.raises(psycopg.Error, match="queue nowhere does not exist") as raised:
        router.execute("select skipmq.queue_id('nowhere')")

    assert raised.value.sqlstate == "SQ001"


def test_counts_by_queue_are_split_between_partitions(two: Partitions, router: Connection) -> None:
    ids = [
        router.execute("select skipmq.queue_id(%s)", (name,)).fetchone()
        for name in names(two, router, 4, "counted")
    ]
    numbers = [row[0] for row in ids if row]

    router.execute("select skipmq.add_receives(%s, %s, %s)", (numbers, [3] * 4, [1] * 4))
    router.execute("select skipmq.fold_counts(true)")

    received = router.execute(
        "select sum(received), sum(empty_receives)"
        " from skipmq.queue_statistics(p_search => 'counted')"
    ).fetchone()
    assert received == (12, 4)


def test_audit_log_is_one_by_time_and_paged(two: Partitions, router: Connection) -> None:
    for number in range(4):
        with psycopg.connect(two.urls[number % 2], autocommit=True) as owner:
            owner.execute(
                f"set skipmq.clock_offset = '{number - 10} seconds'"  # type: ignore[arg-type]
            )
            write(owner, record(request_id=str(number), action="Paged"))

    seen, before = "", None
    while page := written(router, action="Paged", limit=3, before=before):
        seen += "".join(each["request_id"] for each in page)
        before = page[-1]["id"]

    assert seen == "3210"
