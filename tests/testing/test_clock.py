"""Time that a test moves: nothing sleeps."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from time import monotonic
from typing import Any

import psycopg
import pytest

from skipmq.broker.messages.watermark import PROBE_AFTER_CLAIMED
from skipmq.testing import Account, Server, TestingError
from support.http import eventually, raw
from support.processes import ask


def bodies(sqs: Any, queue: str, **options: Any) -> list[str]:
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options)
    return sorted(message["Body"] for message in found.get("Messages", []))


def test_delay_is_over_when_the_clock_says_so(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=900)
    before = bodies(sqs, queue)

    account.clock.advance(minutes=15)

    assert (before, bodies(sqs, queue)) == ([], ["x"])


def test_message_in_flight_comes_back_each_time(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    for _ in range(5):
        assert bodies(sqs, queue, VisibilityTimeout=43_200) == ["x"]
        assert bodies(sqs, queue) == []
        account.clock.advance(hours=12)

    assert account.messages(queue)[0].receive_count == 5


def test_messages_expire(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    account.clock.advance(days=3)
    sqs.send_message(QueueUrl=queue, MessageBody="young")

    account.clock.advance(days=1, seconds=1)

    assert account.messages(queue).bodies() == ["young"]
    assert bodies(sqs, queue) == ["young"]


def test_deduplication_ends(account: Account, sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = sqs.create_queue(QueueName="lines.fifo", Attributes=attributes)["QueueUrl"]
    for _ in range(2):
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageGroupId="g")
    before = account.messages("lines.fifo").bodies()

    account.clock.advance(minutes=5, seconds=1)
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageGroupId="g")

    assert (before, account.messages("lines.fifo").bodies()) == (["x"], ["x", "x"])


def test_waiting_receivers_notice_at_once(account: Account, sqs: Any, queue: str) -> None:
    """By themselves they poll once a second: eight would take four seconds."""
    waits = []
    with ThreadPoolExecutor(1) as threads:
        for number in range(8):
            sqs.send_message(QueueUrl=queue, MessageBody=str(number), DelaySeconds=900)
            waiting = threads.submit(bodies, sqs, queue, WaitTimeSeconds=20)
            _until_it_waits(account)
            began = monotonic()

            account.clock.advance(minutes=15)

            assert waiting.result(timeout=30) == [str(number)]
            waits.append(monotonic() - began)
            sqs.purge_queue(QueueUrl=queue)
    # A machine that stands still now and then makes some of them late.
    assert sorted(waits)[5] < 0.25


def _until_it_waits(account: Account) -> None:
    metrics = f"{account.url}/metrics"

    def waits() -> bool:
        with urllib.request.urlopen(metrics, timeout=30) as answer:
            return b"skipmq_waiting_receivers 1" in answer.read()

    eventually(waits, why="a receiver waits")


def test_clock_never_goes_back_but_by_a_reset(account: Account, sqs: Any, queue: str) -> None:
    with pytest.raises(TestingError, match="The clock only moves on"):
        account.clock.advance(seconds=-1)
    account.clock.advance(days=10)
    sqs.send_message(QueueUrl=queue, MessageBody="later")

    account.reset()
    sqs.create_queue(QueueName="orders")
    sqs.send_message(QueueUrl=queue, MessageBody="now")

    assert bodies(sqs, queue) == ["now"]


def test_clock_is_ten_years_ahead_at_most(account: Account, sqs: Any, queue: str) -> None:
    headers = {"X-Amz-Target": "SkipMQTest.MoveClock"}
    answer = raw(account.url, b'{"Seconds": 1e300}', headers)
    account.clock.advance(days=3_000)

    with pytest.raises(TestingError, match="at most 315360000 seconds ahead, and is 259200"):
        account.clock.advance(days=3_000)

    assert (answer.status, "at most 315360000 seconds ahead, and is 0" in answer.body) == (
        400,
        True,
    )
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert bodies(sqs, queue) == ["x"]


def test_clock_is_not_moved_by_what_is_no_time(account: Account) -> None:
    for seconds in (1e300, float("nan")):
        with pytest.raises(TestingError, match="the clock cannot be moved so: "):
            account.clock.advance(seconds=seconds)


def test_other_accounts_receive_on_after_the_clock_was_put_back(
    account: Account, sqs: Any, queue: str
) -> None:
    """What a node knows of times to come would hide messages sent after that."""
    account.clock.advance(days=1)
    # What proves a low watermark: three times as many messages as it is probed after, of which none
    # becomes visible again meanwhile.
    ends, pause = monotonic() + 2, Event()
    for number in count(10, 10):
        entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        found: list[str] = []
        while len(found) < 10:
            found += bodies(sqs, queue, VisibilityTimeout=43_200)
        assert sorted(found) == [str(n) for n in range(10)]
        if number >= 3 * PROBE_AFTER_CLAIMED and monotonic() > ends:
            break
        pause.wait(0.02)

    Account(account.url, "999999999999", account.region, "").reset()

    sqs.send_message(QueueUrl=queue, MessageBody="now")
    assert bodies(sqs, queue) == ["now"]


def test_messages_are_counted_after_the_clock_was_put_back(
    account: Account, sqs: Any, queue: str
) -> None:
    account.clock.advance(days=1)
    ask(account.database_url, "select skipmq.fold_counts(true)")  # As the janitor does.

    account.reset()

    sqs.create_queue(QueueName="orders")
    for _ in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody="x")
    names = ["ApproximateNumberOfMessages"]
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert found == {"ApproximateNumberOfMessages": "3"}


def test_grants_are_checked_after_the_clock_was_moved(server: Server) -> None:
    """An application that lacks a grant is to fail in its tests, and not only later."""
    server.client().create_queue(QueueName="orders")
    server.client().create_queue(QueueName="others")
    ask(server.database_url, "create role shop login in role skipmq_application")
    ask(server.database_url, "select skipmq.grant_queues('shop', array['orders'])")
    shop = server.database_url.replace("postgres@", "shop@")
    server.clock.advance(days=1)

    ask(shop, "select skipmq.send_message('orders', 'x')")
    for queue in ("others", "absent"):
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match=f"send to the queue {queue}"
        ):
            ask(shop, f"select skipmq.send_message('{queue}', 'x')")

    (message,) = server.messages("orders")
    assert (message.body, message.state) == ("x", "visible")
    ask(server.database_url, "delete from skipmq.queue_grant")
    ask(server.database_url, "drop role shop")
    server.reset()
