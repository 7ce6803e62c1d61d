"""Fair queues under load: one tenant with 20,000 waiting messages does not make others wait.

Source: SQS Developer Guide, Amazon SQS fair queues. The wait of a message is told in messages that
were delivered between its sending and its receiving: a figure that no busy machine can spoil.
"""

import threading
from collections import deque
from itertools import count
from typing import Any, Self

import psycopg

from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node

BACKLOG = 20_000
CONSUMERS = 4
# Receives for which a consumer keeps its messages in flight: as if it worked on them.
KEPT = 4
FILL = """
  select skipmq.send_messages(%(queue)s, array_agg(gen_random_uuid()), array_agg('loud ' || n),
    array_fill(null::text, array[%(count)s]), array_fill(null::int, array[%(count)s]),
    array_fill('loud'::text, array[%(count)s]), array_fill(null::text, array[%(count)s]))
  from generate_series(1, %(count)s) n
"""


class Consumers:
    """Threads that receive and delete, and note how many messages were delivered before each."""

    def __init__(self, url: str, queue: str) -> None:
        self.url, self.queue = url, queue
        self.delivered = count()
        self.so_far = 0
        self.positions: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CONSUMERS)]

    def _run(self) -> None:
        sqs = client(self.url)
        kept: deque[list[dict[str, Any]]] = deque()
        while not self._stop.is_set():
            found = sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
            for message in found.get("Messages", []):
                self.so_far = next(self.delivered)
                self.positions[message["Body"]] = self.so_far
            kept.append(found.get("Messages", []))
            if len(kept) > KEPT and (old := kept.popleft()):
                entries = [
                    {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                    for n, message in enumerate(old)
                ]
                sqs.delete_message_batch(QueueUrl=self.queue, Entries=entries)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)


def test_quiet_tenants_do_not_wait_for_a_noisy_one(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="shared")["QueueUrl"]
        with psycopg.connect(url, autocommit=True) as owner:
            row = owner.execute("select skipmq.queue_id('shared')").fetchone()
            assert row is not None
            for _ in range(10):
                owner.execute(FILL, {"queue": row[0], "count": BACKLOG // 10})
            # Of what is left: consumers may have been quick before the janitor came by.
            aside = (
                "select count(*) filter (where shard = 1) > 0.8 * count(*) from skipmq.message"
                " where queue_id = %s"
            )
            many = f"select count(*) > {BACKLOG // 2} from skipmq.message where queue_id = %s"
            waits = []
            with Consumers(node.url, queue) as consumers:
                eventually(
                    lambda: owner.execute(aside, row).fetchone() == (True,),
                    60,
                    "the noisy tenant's messages are put aside",
                )
                for turn in range(5):
                    began = consumers.so_far
                    bodies = [f"{turn} {tenant} {n}" for tenant in range(10) for n in range(10)]
                    for tenant in range(10):
                        entries = [
                            {
                                "Id": str(n),
                                "MessageBody": f"{turn} {tenant} {n}",
                                "MessageGroupId": f"quiet-{tenant}",
                            }
                            for n in range(10)
                        ]
                        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
                    eventually(lambda bodies=bodies: consumers.positions.keys() >= set(bodies))
                    waits.append(max(consumers.positions[b] for b in bodies) - began)
                still_many = owner.execute(many, row).fetchone()

    # The hundred of them, what was in flight or asked for, and the noisy tenant's one turn of ten.
    assert max(waits) < 2_000, waits
    assert still_many == (True,), "there was a backlog to pass"
    assert any(body.startswith("loud") for body in consumers.positions)
