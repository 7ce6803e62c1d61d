"""Handlers whose message is lost with its server, and whose number another message has then."""

from collections import Counter

import pytest

from skipmq import App, Context, Queue, Retry
from support.consumers import Order, each_kind, send
from support.postgres import Connection
from support.sql import number

ROW = "select m::text from skipmq.message m where queue_id <> 0"
# As after a failover to a standby that lacks the message: another one gets its row's number.
REPLACE = """
update skipmq.message m set message_id = gen_random_uuid(), body = '{"n": 2}' where queue_id <> 0"""


@each_kind
@pytest.mark.parametrize("outcome", ["done", "retried", "lost"])
def test_message_with_the_number_of_a_lost_one_is_left_alone(
    app: App, sender: Connection, owner: Connection, name: str, outcome: str
) -> None:
    queue, seen = Queue(name, Order), []

    @app.consumer(queue)
    def handle(order: Order, context: Context) -> None:
        owner.execute(REPLACE.encode())
        seen.append((order.n, number(owner, ROW)))
        if outcome == "retried":
            raise Retry(after=0)
        if outcome == "lost":
            with context.transaction():
                pass

    send(sender, queue, Order(1))

    assert app.drain() == Counter([outcome])
    assert seen == [(1, number(owner, ROW))]
