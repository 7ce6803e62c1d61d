"""Each queue lives in one partition, and its name is unique across them."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from skipmq.database.partitions import Database
from support.partitions import Partitions
from support.postgres import Connection, as_node

ARN = "arn:aws:sqs:us-east-1:000000000000:"


def create(router: Connection, name: str, dead_letters: str | None = None) -> int:
    attributes = {}
    if dead_letters:
        policy = {"deadLetterTargetArn": ARN + dead_letters, "maxReceiveCount": 3}
        attributes["RedrivePolicy"] = json.dumps(policy)
    row = router.execute(
        "select skipmq.create_queue(%s, %s)", (name, json.dumps(attributes))
    ).fetchone()
    assert row is not None
    return int(row[0])


def queues_of(partition: str, name: str) -> list[Any]:
    with psycopg.connect(partition) as connection:
        found = connection.execute("select queue_id from skipmq.queue where name = %s", (name,))
        return found.fetchall()


def test_queue_is_created_at_home_and_numbered_by_its_partition(
    two: Partitions, router: Connection
) -> None:
    names = [two.name_at(0), two.name_at(1), two.name_at(1, ".fifo")]

    ids = [create(router, name) for name in names]

    assert [id_ >> 57 for id_ in ids] == [0, 1, 1]
    assert [create(router, name) for name in names] == ids


def test_dead_letter_queue_with_a_usual_name_has_the_home_of_its_source(
    two: Partitions, router: Connection
) -> None:
    for partition in (0, 1):
        name = two.name_at(partition)
        for other in (f"{name}-dlq", f"{name}_dead_letters", f"{name}-dlq.fifo", f"{name}DLQ"):
            assert create(router, other) >> 57 == partition, other


def test_queue_is_created_where_its_dead_letter_queue_is(
    two: Partitions, router: Connection
) -> None:
    dead, name = two.name_at(1), two.name_at(0)
    create(router, dead)

    id_ = create(router, name, dead)

    found = router.execute(
        "select queue_id from skipmq.get_queue(%s, '000000000000', 'us-east-1')", (name,)
    ).fetchall()
    assert id_ >> 57 == 1
    assert found == [(id_,)]
    assert create(router, name, dead) == id_
    router.execute("select skipmq.delete_queue(%s)", (id_,))
    again = router.execute("select skipmq.create_queue(%s, p_cooldown => '0')", (name,)).fetchone()
    assert again is not None
    assert again[0] >> 57 == 1


def test_dead_letter_queue_in_another_partition_is_refused_with_the_remedy(
    two: Partitions, router: Connection
) -> None:
    dead, name = two.name_at(1), two.name_at(0)
    create(router, dead)
    id_ = create(router, name)
    policy = json.dumps({"deadLetterTargetArn": ARN + dead, "maxReceiveCount": 3})

    with pytest.raises(psycopg.Error, match="in another partition") as set_:
        router.execute(
            "select skipmq.set_queue_attributes(%s, %s)",
            (id_, json.dumps({"RedrivePolicy": policy})),
        )
    with pytest.raises(psycopg.Error, match="in another partition") as created:
        create(router, name, dead)

    assert {set_.value.sqlstate, created.value.sqlstate} == {"SQ008"}


def test_messages_and_tasks_do_not_cross_partitions(two: Partitions, router: Connection) -> None:
    source, target = two.name_at(0), two.name_at(1)
    ids = [create(router, source), create(router, target)]

    for call in (
        f"skipmq.move_messages({ids[0]}, array[1], array[gen_random_uuid()], {ids[1]})",
        f"skipmq.copy_messages({ids[0]}, array[1], array[gen_random_uuid()], {ids[1]})",
        f"skipmq.start_message_task('{ARN}{source}', 'move', '{ARN}{target}')",
    ):
        with pytest.raises(psycopg.Error, match="in another partition"):
            router.execute(f"select {call}")


def test_concurrent_creates_of_a_name_make_one_queue(two: Partitions, router: Connection) -> None:
    """Half of them at home, half where their dead-letter queue is."""
    dead = two.name_at(1)
    create(router, dead)
    names = [two.name_at(0) for _ in range(8)]

    def attempt(given: tuple[str, str | None]) -> int | str | None:
        with psycopg.connect(as_node(two.router), autocommit=True) as connection:
            try:
                return create(connection, *given)
            except psycopg.Error as error:
                return error.sqlstate

    asked: list[tuple[str, str | None]] = [(name, dlq) for name in names for dlq in (None, dead)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(attempt, asked * 2))

    for name in names:
        held = [queues_of(url, name) for url in two.urls]
        assert len([row for rows in held for row in rows]) == 1, (name, held)
    assert {each for each in outcomes if isinstance(each, str)} <= {"SQ002", "SQ008"}


def test_node_computes_the_home_of_a_name_as_the_router_does(
    two: Partitions, router: Connection
) -> None:
    names = [
        "tea",
        "tea-dlq",
        "Tea_DLQ.fifo",
        "dlq",
        "errors",
        "a-dead-letters",
        "x.fifo",
        "-failed",
    ]

    async def homes() -> list[int | None]:
        database = Database(as_node(two.router), size=1)
        await database.open_partitions()
        found = [database.home("000000000000", "us-east-1", name) for name in names]
        database.close()
        return found

    row = router.execute(
        "select array_agg(skipmq_router.home('000000000000', 'us-east-1', n))"
        " from unnest(%s::text[]) n",
        (names,),
    ).fetchone()
    assert row is not None
    assert asyncio.run(homes()) == row[0]
