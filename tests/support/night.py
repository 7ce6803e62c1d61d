"""A shop at night: two nodes that check signatures, an hour of traffic, and queues in trouble.

The hour passes by moving the clock of the server, which is the shop's own.
"""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support import servers
from support.http import Alternating, NodeProcess, client, eventually, raw
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases

# Queues that are well, with the number of messages in each step of the hour.
WELL = {"orders": 40, "mails": 24, "invoices": 12, "stock.fifo": 8}
STEP, STEPS = timedelta(minutes=6), 10
# The step before which somebody changed a setting, and that from which thumbnails are left.
CHANGED, LEFT = 6, 5
_NAMES = ("on-call", "deploy-bot", "shop-api", "payments-worker", "orders-worker")
_LOCKED = "PaymentLocked: payment {} is being processed by another worker"
_REASONS = cycle(
    [_LOCKED] * 3 + ["GatewayTimeout: the acquirer did not answer payment {} within 30 s"]
)


class Night:
    """The shop: its nodes, the second of which is slow while `slowed` is open, and its keys."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        server = stack.enter_context(servers.start(folder, ephemeral=True))
        url = Databases(server).migrated()
        self._owner = stack.enter_context(psycopg.connect(url, autocommit=True))
        self._offset = timedelta()
        # Clients sign by the time of the server, as everywhere.
        patch.setattr("botocore.auth.get_current_datetime", self._now)
        made = Keys(url)
        self.keys = {name: made.create(ACCOUNT, "--name", name) for name in _NAMES}
        settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
        self.nodes = [
            stack.enter_context(NodeProcess(database_url=url, **settings)) for _ in range(2)
        ]
        self._sqs = {name: self._client(name) for name in _NAMES}
        # Messages received, and settings changed.
        self._received = self._changes = 0

    def pass_hour(self) -> None:
        """Let the hour pass, and the queues get into trouble in it."""
        self._create()
        for step in range(STEPS):
            if step == CHANGED:
                self._change()
            if step:
                self._move(STEP)
            self.work(fails=step >= CHANGED, thumbnails=step < LEFT)

    def pass_good_hour(self) -> None:
        """Let an hour pass, after somebody has mended what was wrong."""
        for _ in range(STEPS + 1):
            self.work(fails=False, thumbnails=True)
            self._move(STEP)

    def work(self, *, fails: bool, thumbnails: bool) -> None:
        """Send to each queue, and receive from it."""
        for name, number in WELL.items():
            self._send(name, number)
            self._serve(name)
        self._send("thumbnails", 5)
        if thumbnails:
            self._serve("thumbnails")
        self._send("payments", 12)
        self._pay(fails=fails)

    def _create(self) -> None:
        sqs = self._sqs["shop-api"]
        # Nodes read new keys by and by.
        eventually(lambda: sqs.create_queue(QueueName="payments-dead"))
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:payments-dead"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
        attributes = {"RedrivePolicy": policy, "VisibilityTimeout": "60"}
        tags = {"team": "checkout", "tier": "1"}
        sqs.create_queue(QueueName="payments", Attributes=attributes, tags=tags)
        for name in (*WELL, "thumbnails"):
            fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
            sqs.create_queue(QueueName=name, Attributes=fifo if name.endswith(".fifo") else {})

    def _change(self) -> None:
        """Make the mistake: a release shortens the time that a worker has for a payment."""
        attributes = {"VisibilityTimeout": "1"}
        queue = self._url("payments")
        self._sqs["deploy-bot"].set_queue_attributes(QueueUrl=queue, Attributes=attributes)
        self._changes += 1

    def _send(self, name: str, number: int) -> None:
        sqs, queue = self._sqs["shop-api"], self._url(name)
        for first in range(0, number, 10):
            entries = [
                {"Id": str(n), "MessageBody": self._body(name, n)}
                | ({"MessageGroupId": f"shelf-{n % 3}"} if name.endswith(".fifo") else {})
                for n in range(first, min(first + 10, number))
            ]
            assert not sqs.send_message_batch(QueueUrl=queue, Entries=entries).get("Failed")

    def _body(self, name: str, number: int) -> str:
        at = self._now().isoformat(timespec="seconds")
        return json.dumps({name.removesuffix(".fifo"): 4700 + number, "at": at, "currency": "EUR"})

    def _serve(self, name: str) -> None:
        """Receive and delete all that a queue has."""
        sqs, queue = self._sqs["orders-worker"], self._url(name)
        while found := self._receive(sqs, queue):
            entries = [
                {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                for n, each in enumerate(found)
            ]
            sqs.delete_message_batch(QueueUrl=queue, Entries=entries)

    def _pay(self, *, fails: bool) -> None:
        """Receive payments: delete them, or leave with them why they failed."""
        sqs, queue = self._sqs["payments-worker"], self._url("payments")
        while found := self._receive(sqs, queue):
            for each in found:
                receipt = {"QueueUrl": queue, "ReceiptHandle": each["ReceiptHandle"]}
                if fails:
                    reason = next(_REASONS).format(json.loads(each["Body"])["payments"])
                    failure = {"FailureReason": reason, "VisibilityTimeout": 0}
                    self._ask(self.nodes[0], "FailMessage", **receipt, **failure)
                else:
                    sqs.delete_message(**receipt)

    def _receive(self, sqs: Any, queue: str) -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found: list[dict[str, Any]] = answer.get("Messages", [])
        self._received += len(found)
        return found

    def _move(self, by: timedelta) -> None:
        eventually(self._is_counted, why="the nodes have written what happened")
        self._offset += by
        seconds = int(self._offset.total_seconds())
        self._owner.execute(f"alter system set skipmq.clock_offset = '{seconds} s'")
        self._owner.execute("select pg_reload_conf()")
        eventually(self._is_moved, why="the nodes go by the new time")

    def _is_counted(self) -> bool:
        """Return whether what happened, which nodes write once a second, has its time."""
        self._owner.execute("select skipmq.fold_counts(true)")
        row = self._owner.execute(
            "select (select sum(received) from skipmq.queue_count),"
            " (select count(*) from skipmq.audit_record where action = 'SetQueueAttributes')"
        ).fetchone()
        return row is not None and row[0] == self._received and row[1] >= self._changes

    def _is_moved(self) -> bool:
        least = self._now().replace(tzinfo=UTC).timestamp() - 60
        queue = self._url("payments")
        clocks = [self._ask(each, "GetQueueActivity", QueueUrl=queue) for each in self.nodes]
        return all(each["Clock"] > least for each in clocks)

    def _ask(self, node: NodeProcess, action: str, **parameters: Any) -> Any:
        """Run an action beyond SQS at a node, which the client of SQS does not have."""
        key = self.keys["payments-worker"]
        headers = {
            "X-Amz-Target": f"SkipMQ.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        url, body = f"{node.url}/", json.dumps(parameters).encode()
        request = AWSRequest("POST", url, data=body, headers=headers)
        SigV4Auth(Credentials(key["key"], key["secret"]), "sqs", "us-east-1").add_auth(request)
        answer = raw(url, body, dict(request.headers))
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def _client(self, name: str) -> Any:
        clients = [client(node.ready().url, tries=3, **self.keys[name]) for node in self.nodes]
        return Alternating(*clients)

    def _url(self, name: str) -> str:
        return f"{self.nodes[0].url}/{ACCOUNT}/{name}"

    def _now(self, **_: Any) -> datetime:
        """Return the time of the server, in UTC and without saying so, as botocore wants it."""
        return datetime.now(UTC).replace(tzinfo=None) + self._offset  # noqa: TID251 - see above.

    @contextmanager
    def slowed(self) -> Iterator[None]:
        """Freeze the process of the second node again and again, while it is asked for messages."""
        (worker,) = self.nodes[1].workers()
        over = threading.Event()

        def freeze() -> None:
            while not over.wait(0.5):
                worker.send_signal(signal.SIGSTOP)
                over.wait(1.5)
                worker.send_signal(signal.SIGCONT)

        def ask() -> None:
            sqs = client(self.nodes[1].url, **self.keys["orders-worker"])
            while not over.wait(0.1):
                sqs.receive_message(QueueUrl=self._url("orders"))

        threads = [threading.Thread(target=each) for each in (freeze, ask)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in threads:
                each.join()


@contextmanager
def night(folder: Path) -> Iterator[Night]:
    """Give a shop whose hour has passed."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        shop = Night(folder, patch, stack)
        shop.pass_hour()
        yield shop
