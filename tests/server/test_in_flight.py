"""The limit of messages in flight, as a worker keeps it."""

import asyncio
from time import monotonic

import psycopg

from skipmq.broker.messages.in_flight import InFlight
from skipmq.broker.queues import Queues
from skipmq.database.partitions import Database
from skipmq.protocol.identity import QueueName
from support.postgres import Connection
from support.sql import Queue, number

NAME = QueueName("000000000000", "us-east-1", "orders")


def test_requests_that_find_no_room_wait_for_one_count(database: str, owner: Connection) -> None:
    Queue(owner, "orders")
    owner.execute("create sequence public.count_seq")
    owner.execute(
        "create or replace function skipmq.bound_in_flight(p_queue_id bigint,"
        " p_most integer default 120000)"
        " returns integer language sql as $$ select nextval('public.count_seq')::integer $$"
    )

    async def ask() -> list[bool]:
        client = Database(psycopg.conninfo.make_conninfo(database), size=4)
        try:
            queue = await Queues(client).find(NAME, monotonic() + 30)
            assert queue is not None
            in_flight = InFlight(client)
            deadline = monotonic() + 30
            return await asyncio.gather(*(in_flight.allows(queue, deadline) for _ in range(20)))
        finally:
            client.close()

    assert asyncio.run(ask()) == [True] * 20
    assert number(owner, "select last_value from public.count_seq") == 1
