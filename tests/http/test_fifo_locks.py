"""SQL transactions and nodes on the same groups of a FIFO queue."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.postgres import Connection


def test_open_sql_transaction_keeps_only_its_own_group_waiting(
    sqs: Any, name: str, owner: Connection
) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    fifo = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    send = "select skipmq.send_fifo_message(%s, 'mine', 'held', 'x')"
    with owner.transaction(), ThreadPoolExecutor(8) as pool:
        owner.execute(send, (f"{name}.fifo",))
        held = pool.submit(
            sqs.send_message, QueueUrl=fifo, MessageBody="late", MessageGroupId="held"
        )
        others = [
            pool.submit(
                sqs.send_message, QueueUrl=fifo, MessageBody=str(n), MessageGroupId=f"free-{n}"
            )
            for n in range(5)
        ]

        assert all(other.result(timeout=30)["SequenceNumber"] for other in others)
        with pytest.raises(ClientError) as caught:
            held.result(timeout=30)
        assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"

    sqs.send_message(QueueUrl=fifo, MessageBody="late", MessageGroupId="held")
    found = sqs.receive_message(
        QueueUrl=fifo, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId"]
    )["Messages"]
    held_now = [m["Body"] for m in found if m["Attributes"]["MessageGroupId"] == "held"]
    assert held_now == ["mine", "late"]
