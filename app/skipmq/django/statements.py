"""The statements of the Django app, for the owner of the schema and members of skipmq_node."""

from typing import Any

from django.db import connections, transaction

from skipmq.client.statements import ACCOUNT, MICROSECONDS, REGION

# A queue with its attributes, or the one that is there with the same.
CREATE_QUEUE = "select skipmq.create_queue(%s::text, %s::jsonb)"
GET_QUEUE = """
select q.queue_id, q.attributes ->> 'RedrivePolicy' from skipmq.get_queue(%s::text, %s, %s) q"""
SET_ATTRIBUTES = "select from skipmq.set_queue_attributes(%s::bigint, %s::jsonb)"
# All queues, at once and again at once: for databases of tests.
PURGE_ALL = "select skipmq.purge_queue(q.queue_id, '0') from skipmq.queue q"
# A page of queues; its last row, without a name, sums up all others.
QUEUES = """
select s.account, s.region, s.queue, s.visible, s.in_flight, s.delayed, s.oldest, s.dead_letters,
  s.queues
from skipmq.queue_statistics(null, null, %s::text, 'name', %s::integer, %s::integer) s"""
MESSAGES = f"""
select p.place, p.id, p.state, extract(epoch from p.visible_in)::integer, p.message_id::text,
  p.body, p.attributes, p.approximate_receive_count, {MICROSECONDS.format("p.sent_at")},
  p.group_id, p.deduplication_id
from skipmq.peek_messages(
  skipmq.queue_id(%s::text, {ACCOUNT}, {REGION}), %s::text, %s::integer, %s::text, %s::bigint) p"""


def rows(alias: str, statement: str, *parameters: Any) -> list[Any]:
    """Return a statement's rows; a failure leaves the caller's transaction as it was."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(statement, parameters)
        found: list[Any] = cursor.fetchall()
        return found
