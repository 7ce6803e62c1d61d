"""Fail over to a standby that lags under load, and see that nothing of others is touched.

`make faults` runs it, or `python -m cluster.lagging` in the folder tests. Queues and messages of
the last commits are lost, and their numbers assigned again, while producers, consumers by HTTP and
by SQL go on. A message that the promoted server acknowledged is in its own queue, or was
deleted by who received it there.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from support import applications
from support.clock import connect
from support.http import client
from support.lagging import Lagging
from support.sql import number

# Before the failover, and since.
SECONDS = 6.0
_PRODUCERS, _CONSUMERS = 3, 3
# IndexError: there is no queue yet.
_FAILED = (ClientError, BotoCoreError, psycopg.Error, IndexError)
_IDS = "select json_object_agg(id, message_id) from skipmq.message where queue_id <> 0"
_LEFT = """
select m.body, q.name from skipmq.message m left join skipmq.queue q using (queue_id)
where m.queue_id <> 0"""
_KNOWN = "select array_agg(message_id::text) from skipmq_views.history"


@dataclass(slots=True)
class Seen:
    """What clients saw; a body is `QUEUE/NUMBER`."""

    # The message ids of acknowledged sends, and when each send began.
    sent: dict[str, tuple[str, float]] = field(default_factory=dict)
    # The bodies whose holders have asked for their deletion.
    deleted: set[str] = field(default_factory=set)
    queues: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is left: violations, and how often a number was assigned twice."""

    violations: Counter[str]
    acknowledged: int
    lost: int
    assigned_twice: int


def _create(lagging: Lagging, seen: Seen) -> None:
    sqs = client(lagging.node.url, "json")
    while not seen.over.is_set():
        name = f"queue-{uuid4()}"
        with suppress(*_FAILED):
            sqs.create_queue(QueueName=name)
            seen.queues.append(name)
        seen.over.wait(0.3)


def _produce(lagging: Lagging, seen: Seen, chance: random.Random) -> None:
    sqs = client(lagging.node.url, "json")
    while not seen.over.is_set():
        with suppress(*_FAILED):
            queue = chance.choice(seen.queues)
            body, begun = f"{queue}/{uuid4()}", time.monotonic()
            url = f"{lagging.node.url}/000000000000/{queue}"
            answer = sqs.send_message(QueueUrl=url, MessageBody=body)
            seen.sent[body] = answer["MessageId"], begun


def _consume(lagging: Lagging, seen: Seen, chance: random.Random) -> None:
    """Hold what was received for some seconds, by HTTP; then hide it again, or delete it."""
    sqs = client(lagging.node.url, "json")
    held: list[tuple[float, str, str, str]] = []
    while not seen.over.is_set():
        with suppress(*_FAILED):
            url = f"{lagging.node.url}/000000000000/{chance.choice(seen.queues)}"
            asked = {"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
            for message in sqs.receive_message(**asked).get("Messages", []):
                due = time.monotonic() + chance.uniform(0, SECONDS / 2)
                held.append((due, url, message["Body"], message["ReceiptHandle"]))
        while held and min(held)[0] < time.monotonic():
            due, url, body, receipt = min(held)
            held.remove((due, url, body, receipt))
            named = {"QueueUrl": url, "ReceiptHandle": receipt}
            with suppress(*_FAILED):
                if chance.random() < 0.3:
                    sqs.change_message_visibility(**named, VisibilityTimeout=0)
                else:
                    seen.deleted.add(body)
                    sqs.delete_message(**named)


def _consume_by_sql(lagging: Lagging, seen: Seen, chance: random.Random) -> None:
    """Hold what was claimed for some seconds, by SQL; then give it back, or delete it."""
    held: list[tuple[float, str, dict[str, Any]]] = []
    while not seen.over.is_set():
        with suppress(*_FAILED), connect(lagging.url) as session:
            while not seen.over.is_set():
                queue = chance.choice(seen.queues)
                with suppress(psycopg.errors.RaiseException):
                    for claim in applications.receive(session, queue, 10, 600):
                        due = time.monotonic() + chance.uniform(0, SECONDS / 2)
                        held.append((due, queue, claim))
                for each in [one for one in held if one[0] < time.monotonic()]:
                    held.remove(each)
                    _, queue, claim = each
                    with suppress(psycopg.errors.RaiseException):
                        if chance.random() < 0.3:
                            applications.give_back(session, queue, claim)
                        else:
                            seen.deleted.add(claim["body"])
                            applications.delete(session, queue, claim)


def run(folder: Path, seed: int, seconds: float = SECONDS) -> Verdict:
    """Load a broker, fail over in the middle, and judge what is left."""
    lagging, seen = Lagging(folder), Seen()
    loads = [_produce] * _PRODUCERS + [_consume] * _CONSUMERS + [_consume_by_sql]
    try:
        lagging.leave_behind()
        with ThreadPoolExecutor(len(loads) + 1) as pool:
            running = [pool.submit(_create, lagging, seen)]
            running += [
                pool.submit(load, lagging, seen, random.Random(f"{seed}-{n}"))  # noqa: S311
                for n, load in enumerate(loads)
            ]
            try:
                time.sleep(seconds)
                with connect(lagging.url) as owner:
                    before = number(owner, _IDS) or {}
                with lagging.failover():
                    promoted = time.monotonic()
                time.sleep(seconds)
            finally:
                seen.over.set()
            for each in running:
                each.result()
        with connect(lagging.url) as owner:
            return _judge(owner, seen, promoted, before)
    finally:
        lagging.close()


def _judge(
    owner: psycopg.Connection[Any], seen: Seen, promoted: float, before: dict[str, str]
) -> Verdict:
    violations: Counter[str] = Counter()
    left = dict(owner.execute(_LEFT.encode()).fetchall())
    for body, queue in left.items():
        violations["in another queue"] += body.partition("/")[0] != queue
    known = set(number(owner, _KNOWN) or [])
    lost = 0
    for body, (message_id, begun) in seen.sent.items():
        if begun < promoted:
            lost += body not in left and message_id not in known
        elif body not in left:
            violations["lost after the failover"] += message_id not in known
            violations["deleted by nobody who had it"] += body not in seen.deleted
    after = number(owner, _IDS) or {}
    twice = sum(before.get(id_, message_id) != message_id for id_, message_id in after.items())
    return Verdict(+violations, len(seen.sent), lost, twice)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
def command(seed: int, runs: int) -> None:
    """Fail over to a standby that lags, and see that nothing of others is touched.

    Ends with 1 when something was.
    """
    failed = False
    for number_ in range(seed, seed + runs):
        with tempfile.TemporaryDirectory(prefix="skipmq-lagging-") as folder:
            Path(folder).chmod(0o711)
            found = run(Path(folder), number_)
        failed |= bool(found.violations)
        click.echo(
            f"lagging-standby, seed {number_}: {found.acknowledged} sends acknowledged,"
            f" {found.lost} of them lost with the primary; {found.assigned_twice} numbers"
            f" assigned twice; violations: {dict(found.violations) or 'none'}"
        )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    command()
