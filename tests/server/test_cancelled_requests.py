"""A request that outlives the stop of its node is in the audit log of the database."""

import asyncio

import psycopg

from skipmq.config.settings import Settings
from skipmq.node import Node
from skipmq.processes.worker import cancel_others
from skipmq.protocol import Response
from skipmq.server.answer import Broker
from support.postgres import Connection, Databases, as_node
from support.sql import until_blocked
from support.wire import request

URL = "http://localhost:9324/000000000000/orders"


async def stopped(url: str, owner: Connection, holder: Connection) -> asyncio.Task[Response]:
    """Stop a node as a worker does while a request waits for a lock; return that."""
    node = Node(Settings(), as_node(url))
    await node.open()
    node.start()
    broker = Broker(node)
    await broker.answer(request("CreateQueue", QueueName="orders"))
    holder.execute("lock table skipmq.queue in share mode")
    purge = asyncio.create_task(broker.answer(request("PurgeQueue", QueueUrl=URL)))
    await asyncio.to_thread(until_blocked, owner, "skipmq.purge_queue")
    await cancel_others()
    await node.close()
    return purge


def test_request_that_outlives_the_stop_is_in_the_audit_log(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner, psycopg.connect(url) as holder:
        purge = asyncio.run(stopped(url, owner, holder))
        holder.rollback()
        found = owner.execute(
            "select outcome from skipmq.audit_record where action = 'PurgeQueue'"
        ).fetchall()

    assert purge.cancelled()
    assert found == [("ServiceUnavailable",)]
