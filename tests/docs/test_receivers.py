"""The receivers in plain SQL of the reference: a failure counts, waits, and is dead-lettered."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from support import pages
from support.postgres import Connection, Databases

BLOCKS = [block.text for block in pages.read(pages.FOLDER / "reference" / "sql.md").blocks]
(DONE,) = (text for text in BLOCKS if "do the work" in text)
(FAILED,) = (text for text in BLOCKS if "the work fails" in text)
POLICY = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:lost","maxReceiveCount":"2"}'


@pytest.fixture
def owner(embedded_databases: Databases) -> Iterator[Connection]:
    """Give a connection to a database that has a message in the queue `orders`."""
    with psycopg.connect(embedded_databases.migrated(), autocommit=True) as connection:
        connection.execute("select skipmq.create_queue('lost')")
        connection.execute(
            "select skipmq.create_queue('orders', jsonb_build_object('RedrivePolicy', %s::text))",
            (POLICY,),
        )
        connection.execute("select skipmq.send_message('orders', 'tea')")
        yield connection


def run(owner: Connection, block: str) -> list[object]:
    """Run the statements of a block, whatever becomes of each; return what they returned."""
    returned: list[object] = []
    owner.execute("drop table if exists received")
    for statement in block.split(";"):
        with suppress(psycopg.errors.DivisionByZero):
            cursor = owner.execute(statement.encode())
            returned += [row[0] for row in cursor] if cursor.description else []
    return returned


def states(owner: Connection) -> list[tuple[object, ...]]:
    select = "select queue, visible_at > now(), receive_count from skipmq_views.message"
    return owner.execute(select).fetchall()


def test_receiver_deletes_what_it_received(owner: Connection) -> None:
    assert run(owner, DONE) == [True]
    assert states(owner) == []


def test_work_that_fails_waits_and_is_dead_lettered_in_the_end(owner: Connection) -> None:
    failing = FAILED.replace("-- … the work fails …", "select 1/0;")
    assert failing != FAILED

    assert run(owner, failing) == [True]
    assert states(owner) == [("orders", True, 1)]

    soon = failing.replace(", 60) from", ", 0) from")
    assert soon != failing
    owner.execute("update skipmq.message set visible_at = now() where receive_count > 0")
    assert run(owner, soon) == [True]
    assert run(owner, soon) == []
    ((queue, is_hidden, _),) = states(owner)
    assert (queue, is_hidden) == ("lost", False)
