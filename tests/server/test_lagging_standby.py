"""Nothing acts on what is not its own after a failover to a standby that lagged.

Queues and messages of the last commits are lost, and the numbers of their rows assigned again.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from psycopg.rows import dict_row

from support import applications
from support.clock import connect
from support.http import NodeProcess, client, eventually, extension
from support.lagging import Lagging
from support.postgres import Connection
from support.sql import number

QUEUES = ("kept", "kept.fifo")
MESSAGES = 6
ROWS = "select array_agg(m order by m.id)::text from skipmq.message m where queue_id <> 0"
IDS = "select array_agg(id order by id) from skipmq.message where queue_id <> 0"


class Holders:
    """Those who hold what the primary has given out, by HTTP, by SQL and in the console."""

    def __init__(self, node: NodeProcess) -> None:
        self.node, self.sqs = node, client(node.url, "json")
        self.urls = {name: self._create(name) for name in (*QUEUES, "dead")}
        policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"}
        self.sqs.set_queue_attributes(
            QueueUrl=self.urls["kept"],
            Attributes={"RedrivePolicy": json.dumps(policy | {"maxReceiveCount": 9})},
        )
        self.receipts: list[tuple[str, str]] = []
        self.claims: list[tuple[str, dict[str, Any]]] = []
        self.references: list[tuple[str, list[str]]] = []
        self.waiting: list[Future[Any]] = []

    def _create(self, name: str) -> str:
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        return str(self.sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"])

    def take(self, owner: Connection) -> None:
        """Create a queue, send messages, and receive them: all that is to be lost."""
        self.urls["payments"] = self._create("payments")
        for name in QUEUES:
            for _ in range(MESSAGES):
                applications.send(owner, name, "lost")
        for name in QUEUES:
            found = self.ask("PeekMessages", name, MaxResults=MESSAGES)["Messages"]
            self.references.append((name, [each["MessageReference"] for each in found]))
            for message in self.sqs.receive_message(
                QueueUrl=self.urls[name], MaxNumberOfMessages=10, VisibilityTimeout=600
            )["Messages"]:
                self.receipts.append((name, message["ReceiptHandle"]))
            # What a receive by SQL returns of the same messages.
            cursor = owner.cursor(row_factory=dict_row)
            claims = "select id, receive_count, message_id from skipmq.message where queue_id = %s"
            id_ = number(owner, "select skipmq.queue_id(%s)", name)
            self.claims += [(name, row) for row in cursor.execute(claims, (id_,))]

    def ask(self, action: str, queue: str, **members: Any) -> Any:
        return extension(self.node.url, action, QueueUrl=self.urls[queue], **members)

    def wait(self, pool: ThreadPoolExecutor) -> None:
        """Send requests for the queue that is lost, which wait for the database."""
        url = self.urls["payments"]
        self.waiting = [
            pool.submit(self.sqs.send_message, QueueUrl=url, MessageBody="for payments"),
            pool.submit(self.sqs.purge_queue, QueueUrl=url),
            pool.submit(self.sqs.delete_queue, QueueUrl=url),
        ]
        eventually(lambda: self.node.metric("skipmq_waiting_for_database") > 0)


@pytest.fixture(scope="module")
def lost(server_folder: Path) -> Iterator[tuple[Holders, Connection]]:
    """Give who holds what is lost, and a connection to the server that has lost it."""
    with closing(Lagging(server_folder)) as lagging, ThreadPoolExecutor(3) as pool:
        holders = Holders(lagging.node)
        lagging.leave_behind()
        with connect(lagging.url) as owner:
            holders.take(owner)
            ids = number(owner, IDS)
        with lagging.failover():
            holders.wait(pool)
            owner = connect(lagging.url)
            # The numbers go on from before: here without the block that another session took.
            owner.execute("select setval('skipmq.message_id_seq', %s, false)", (ids[0],))
            for queue in QUEUES:
                for _ in range(MESSAGES):
                    applications.send(owner, queue, "alive")
                assert len(applications.receive(owner, queue, 10, 600)) == MESSAGES
            assert number(owner, IDS) == ids
            owner.execute("select skipmq.create_queue('newsletter')")
            applications.send(owner, "newsletter", "news")
        with owner:
            yield holders, owner


@pytest.fixture
def unchanged(lost: tuple[Holders, Connection]) -> Iterator[None]:
    """Compare all rows of messages before and after the test."""
    _, owner = lost
    before = number(owner, ROWS)
    yield
    assert number(owner, ROWS) == before


@pytest.mark.usefixtures("unchanged")
def test_waiting_requests_for_a_lost_queue_reach_no_other(
    lost: tuple[Holders, Connection],
) -> None:
    holders, owner = lost

    for each in holders.waiting:
        with pytest.raises(ClientError, match="NonExistentQueue"):
            each.result()

    assert number(owner, "select count(*) from skipmq.queue where name = 'newsletter'") == 1


@pytest.mark.usefixtures("unchanged")
def test_receipts_of_lost_messages_settle_and_hide_no_others(
    lost: tuple[Holders, Connection],
) -> None:
    holders, _ = lost
    assert len(holders.receipts) == len(holders.claims) == len(QUEUES) * MESSAGES

    for queue, handle in holders.receipts:
        named = {"QueueUrl": holders.urls[queue], "ReceiptHandle": handle}
        # Deletes of what is settled are no errors.
        holders.sqs.delete_message(**named)
        with pytest.raises(ClientError, match=r"InvalidParameterValue|MessageNotInflight"):
            holders.sqs.change_message_visibility(**named, VisibilityTimeout=0)
        holders.ask("FailMessage", queue, status=400, ReceiptHandle=handle, FailureReason="x")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "settle",
    [
        applications.delete,
        applications.give_back,
        applications.dead_letter,
        lambda owner, queue, claim: applications.hide(owner, queue, claim, 0),
    ],
)
def test_claims_by_sql_of_lost_messages_do_nothing_to_others(
    lost: tuple[Holders, Connection], settle: Callable[..., bool]
) -> None:
    holders, owner = lost

    for queue, claim in holders.claims:
        if settle is not applications.dead_letter or queue == "kept":
            assert not settle(owner, queue, claim)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("action", ["CopyMessages", "MoveMessages", "DeletePickedMessages"])
def test_messages_picked_before_the_loss_are_missing(
    lost: tuple[Holders, Connection], action: str
) -> None:
    holders, _ = lost
    queue, references = holders.references[0]
    target = {} if action.startswith("Delete") else {"DestinationQueueUrl": holders.urls["dead"]}

    results = holders.ask(action, queue, MessageReferences=references, **target)["Results"]

    assert len(references) == MESSAGES
    assert {each["Outcome"] for each in results} == {"missing"}
