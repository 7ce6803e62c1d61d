"""What requests over HTTP notice of transactions that hold something by SQL."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess, client
from support.postgres import Databases, as_node

HOLD = "select skipmq.send_fifo_message('orders.fifo', 'by SQL', 'held', gen_random_uuid()::text)"
QUEUE = f"/{ACCOUNT}/orders.fifo"
GROUPS = 8
# Seconds between two sends: load, on a machine that has other things to do.
PAUSE = 0.05


@pytest.fixture
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture
def sqs(database: str) -> Iterator[Any]:
    with NodeProcess(database_url=as_node(database), workers=1) as node:
        sqs = client(node.ready().url)
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        sqs.create_queue(QueueName="orders.fifo", Attributes=fifo)
        sqs.create_queue(QueueName="orders")
        yield sqs


def bodies(sqs: Any, most: int) -> list[str]:
    """Receive and delete what there is."""
    found: list[str] = []
    while len(found) < most:
        answer = sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        assert "Messages" in answer, found
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=message["ReceiptHandle"])
            found.append(message["Body"])
    return found


def test_groups_that_nobody_holds_do_not_wait_for_one_that_is_held(sqs: Any, database: str) -> None:
    stop = threading.Event()
    refused: list[str] = []
    accepted: set[str] = set()

    def send_to_the_held_group(number: int) -> None:
        body = f"held {number}"
        while not stop.is_set():
            try:
                sqs.send_message(QueueUrl=QUEUE, MessageBody=body, MessageGroupId="held")
                accepted.add(body)
            except ClientError as error:
                refused.append(error.response["Error"]["Code"])

    with psycopg.connect(database) as holder, ThreadPoolExecutor(GROUPS) as pool:
        holder.execute(HOLD)
        stuck = [pool.submit(send_to_the_held_group, n) for n in range(GROUPS)]
        sent = 0
        # As long as the held group makes them wait.
        while not refused and not stop.wait(PAUSE):
            sqs.send_message(QueueUrl=QUEUE, MessageBody=str(sent), MessageGroupId="free")
            sent += 1
        stop.set()
        holder.commit()
        for each in stuck:
            each.result()

    assert set(refused) == {"ServiceUnavailable"}
    # One that had waited for the holder would have been there as long as those.
    assert sent > GROUPS
    found = bodies(sqs, sent + 1 + len(accepted))
    assert [body for body in found if body.isdecimal()] == [str(n) for n in range(sent)]
    assert accepted <= set(found)


def test_request_is_stored_whole_when_the_group_is_free(sqs: Any, database: str) -> None:
    entries = [
        {"Id": str(n), "MessageBody": str(n), "MessageGroupId": group}
        for n, group in enumerate(["a", "held", "b", "held"])
    ]
    with psycopg.connect(database) as holder, ThreadPoolExecutor() as pool:
        holder.execute(HOLD)
        batch = pool.submit(sqs.send_message_batch, QueueUrl=QUEUE, Entries=entries)
        time.sleep(0.5)
        # All or none.
        seen = holder.execute("select count(*) from skipmq.message where body <> ''").fetchone()
        holder.commit()
        answer = batch.result()

    assert seen == (1,)
    assert [entry["Id"] for entry in answer["Successful"]] == ["0", "1", "2", "3"]
    found = bodies(sqs, 5)
    assert [body for body in found if body in {"by SQL", "1", "3"}] == ["by SQL", "1", "3"]


def test_deletes_and_changes_of_other_groups_do_not_wait(sqs: Any, database: str) -> None:
    for group in ("held", "free"):
        sqs.send_message(QueueUrl=QUEUE, MessageBody=group, MessageGroupId=group)
    received = [sqs.receive_message(QueueUrl=QUEUE)["Messages"][0] for _ in range(2)]
    handles = {message["Body"]: message["ReceiptHandle"] for message in received}
    with psycopg.connect(database) as holder:
        free = {"QueueUrl": QUEUE, "ReceiptHandle": handles["free"]}
        both = [{"Id": body, "ReceiptHandle": handle} for body, handle in handles.items()]
        changes = [{**entry, "VisibilityTimeout": 60} for entry in both]
        holder.execute(
            "select from skipmq.message_group g where g.group_no = (select m.group_no"
            " from skipmq.message m where m.body = 'held') for no key update"
        )

        changed = sqs.change_message_visibility_batch(QueueUrl=QUEUE, Entries=changes)
        deleted = sqs.delete_message_batch(QueueUrl=QUEUE, Entries=both)

    for answer in (changed, deleted):
        assert [entry["Id"] for entry in answer["Successful"]] == ["free"]
        (failed,) = answer["Failed"]
        assert (failed["Id"], failed["Code"]) == ("held", "ServiceUnavailable")
        assert not failed["SenderFault"]
    sqs.delete_message(**free)
    sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=handles["held"])


@pytest.mark.parametrize("end", ["purge_queue", "delete_queue"])
def test_end_of_a_queue_is_refused_while_a_transaction_sends_to_it(
    sqs: Any, database: str, end: str
) -> None:
    queue = f"/{ACCOUNT}/orders"
    with psycopg.connect(database) as sender:
        sender.execute("select skipmq.send_message('orders', 'kept')")

        with pytest.raises(ClientError) as caught:
            getattr(sqs, end)(QueueUrl=queue)

    assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert "open transaction" in caught.value.response["Error"]["Message"]
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "kept"
    getattr(sqs, end)(QueueUrl=queue)
