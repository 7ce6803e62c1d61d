"""Another key for receipt handles, while nodes run: what was given out before stays valid."""

from typing import Any

import psycopg
from botocore.exceptions import ClientError

from skipmq.broker.messages import receipts
from skipmq.protocol import errors
from support.http import client, eventually
from support.key_commands import Keys
from support.nodes import two_nodes
from support.postgres import Connection, Databases
from support.sql import number

ARN = "arn:aws:sqs:us-east-1:000000000000:orders"
NEWEST = "select key from skipmq.receipt_keys() order by age limit 1"


def hide(sqs: Any, queue: str, handle: str) -> str:
    """Hide a message that was received; return the error code, or nothing when that is done."""
    try:
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=600)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def is_under(handle: str, key: bytes) -> bool:
    try:
        return bool(receipts.seal((key,), ARN).decode(handle))
    except errors.ReceiptHandleIsInvalid:
        return False


def make_earlier(owner: Connection, by: str) -> None:
    """Have the keys be made so much earlier, and notify the nodes."""
    owner.execute("update skipmq.receipt_key set made_at = made_at - %s::interval", (by,))
    owner.execute("select skipmq.announce_access_keys()")


def test_handles_outlive_their_key_by_twelve_hours(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with two_nodes(url) as nodes, psycopg.connect(url, autocommit=True) as owner:
        sqs = [client(node.url) for node in nodes]
        queue = sqs[0].create_queue(QueueName="orders")["QueueUrl"]

        def received(at: int = 0) -> str:
            sqs[at].send_message(QueueUrl=queue, MessageBody="x")
            (message,) = sqs[at].receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
            return str(message["ReceiptHandle"])

        before = received()
        Keys(url).run("rotate-receipts")
        newest = number(owner, NEWEST)

        def under_newest(handle: str) -> bool:
            return is_under(handle, newest)

        assert not under_newest(before)
        assert [hide(each, queue, before) for each in sqs] == ["", ""]
        # Every node knows the new key by now, so that they begin to use it.
        make_earlier(owner, "2 minutes")
        for at in range(2):
            handle = eventually(lambda n=at: next(filter(under_newest, [received(n)]), ""))
            # The other may hear of the key a moment later.
            for each in [*sqs, sqs[0]]:
                eventually(lambda s=each, h=handle: hide(s, queue, h) == "")
        assert [hide(each, queue, before) for each in sqs] == ["", ""]

        make_earlier(owner, "13 hours")

        for each in sqs:
            eventually(lambda s=each: hide(s, queue, before) == "ReceiptHandleIsInvalid")
            assert hide(each, queue, handle) == ""
