"""The limit of messages in flight. Source: SQS API Reference, ReceiveMessage."""

from typing import Any

import pytest

from support.postgres import Connection

LIMIT = 120_000
FILL = """
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, first_received_at, queue_id, group_no, sequence_number,
    receive_count, message_id, group_id, body)
  select nextval('skipmq.message_id_seq'), now() + interval '1 h', now(), now(), now(), q.queue_id,
    case when q.fifo then n end, case when q.fifo then nextval('skipmq.sequence_number_seq') end,
    1, gen_random_uuid(), 'g' || n, 'x'
  from skipmq.queue q, generate_series(1, %s) n
  where q.name = %s
"""
GROUPS = """
  insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
  select m.queue_id, m.group_no, m.visible_at, m.sequence_number
  from skipmq.message m join skipmq.queue q using (queue_id)
  where q.name = %s and q.fifo
"""
COUNT = """
  insert into skipmq.queue_delta (at, queue_id, change, event)
  select now(), q.queue_id, %s, 'sent' from skipmq.queue q where q.name = %s
"""


def fill(owner: Connection, name: str) -> None:
    """Put as many messages in flight as there may be."""
    owner.execute(FILL, (LIMIT, name))
    owner.execute(GROUPS, (name,))
    owner.execute(COUNT, (LIMIT, name))


def test_receive_over_the_limit_in_flight_is_refused(
    sqs: Any, queue: str, name: str, owner: Connection
) -> None:
    fill(owner, name)
    sqs.send_message(QueueUrl=queue, MessageBody="one more")

    with pytest.raises(sqs.exceptions.OverLimit) as caught:
        sqs.receive_message(QueueUrl=queue)

    assert caught.value.response["Error"]["Code"] == "OverLimit"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)
    owner.execute(
        "delete from skipmq.message m using skipmq.queue q"
        " where q.queue_id = m.queue_id and q.name = %s and body = 'x'",
        (name,),
    )
    found = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    assert [message["Body"] for message in found["Messages"]] == ["one more"]


def test_fifo_queue_over_the_limit_gives_nothing_and_no_error(
    sqs: Any, name: str, owner: Connection
) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    fifo = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    fill(owner, f"{name}.fifo")
    sqs.send_message(QueueUrl=fifo, MessageBody="one more", MessageGroupId="g")

    assert "Messages" not in sqs.receive_message(QueueUrl=fifo)
