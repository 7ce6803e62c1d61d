"""States of an account that a test goes back to."""

from time import monotonic
from typing import Any

import psycopg
import pytest

from skipmq.broker.messages.watermark import PROBE_AFTER_CLAIMED
from skipmq.testing import Account, Server, TestingError
from support.http import client, raw
from support.processes import ask

ALL = ["All"]
FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}


def received(sqs: Any, queue: str, **options: Any) -> list[dict[str, Any]]:
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options)
    return list(found.get("Messages", []))


def numbers(sqs: Any, queue: str) -> tuple[int, int, int]:
    """Return the numbers of visible, in-flight and delayed messages."""
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=ALL)["Attributes"]
    names = ("", "NotVisible", "Delayed")
    visible, hidden, delayed = (int(found[f"ApproximateNumberOfMessages{n}"]) for n in names)
    return visible, hidden, delayed


def test_messages_are_again_what_they_were(account: Account, sqs: Any, queue: str) -> None:
    for body in "abc":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=600)
    sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1, VisibilityTimeout=600)
    before, counted = account.messages(queue), numbers(sqs, queue)
    state = account.snapshot()

    for _ in range(3):
        for message in received(sqs, queue):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        sqs.send_message(QueueUrl=queue, MessageBody="another")
        state.restore()

        assert [(m.message_id, m.state, m.receive_count) for m in account.messages(queue)] == [
            (m.message_id, m.state, m.receive_count) for m in before
        ]
        assert numbers(sqs, queue) == counted == (2, 1, 1)


def test_receipt_handle_of_the_state_is_valid_and_one_of_a_deleted_message_too(
    account: Account, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    (message,) = received(sqs, queue)
    state = account.snapshot()
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    state.restore()

    assert account.messages(queue)[0].state == "in-flight"
    hidden = {"ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
    sqs.change_message_visibility(QueueUrl=queue, **hidden)
    (again,) = received(sqs, queue, MessageSystemAttributeNames=ALL)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=again["ReceiptHandle"])
    assert account.messages(queue) == []


def test_groups_and_deduplication_are_those_of_the_state(account: Account, sqs: Any) -> None:
    queue = sqs.create_queue(QueueName="lines.fifo", Attributes=FIFO)["QueueUrl"]
    for body in ("one", "two"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g")
    state = account.snapshot()
    sqs.send_message(QueueUrl=queue, MessageBody="three", MessageGroupId="g")
    for _ in range(2):
        for message in received(sqs, queue):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert account.messages(queue) == []

    state.restore()

    for body in ("one", "three"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g")
    assert account.messages(queue).bodies() == ["one", "two", "three"]
    assert [message["Body"] for message in received(sqs, queue)] == ["one", "two", "three"]
    assert received(sqs, queue) == []


def test_queues_are_again_there_with_their_attributes_and_no_others(
    account: Account, sqs: Any, queue: str
) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "shop"})
    state = account.snapshot()
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "7"})
    sqs.purge_queue(QueueUrl=queue)
    sqs.delete_queue(QueueUrl=queue)

    state.restore()

    assert sqs.list_queues()["QueueUrls"] == [queue]
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"team": "shop"}
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=ALL)["Attributes"]
    assert found["VisibilityTimeout"] == "30"
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=other, MessageBody="x")


def test_topics_and_schedules_are_again_there_and_go_at_a_reset(
    account: Account, sqs: Any, queue: str
) -> None:
    sns = client(account.url, "query", service="sns", key=account.number)
    topic = sns.create_topic(Name="news")["TopicArn"]
    arn = f"arn:aws:sqs:us-east-1:{account.number}:orders"
    kept = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)["SubscriptionArn"]
    schedule, owned = "'far', 'orders', 'at 2999-01-01', 'x'", f"p_account => '{account.number}'"
    ask(account.database_url, f"select skipmq.create_schedule({schedule}, {owned})")
    schedules = f"select count(*) from skipmq.schedule s where s.account = '{account.number}'"
    state = account.snapshot()
    ask(account.database_url, f"select skipmq.change_schedule('far', 'delete', {owned})")
    sns.delete_topic(TopicArn=topic)
    sns.create_topic(Name="olds")

    state.restore()

    assert [each["TopicArn"] for each in sns.list_topics()["Topics"]] == [topic]
    (found,) = sns.list_subscriptions()["Subscriptions"]
    assert found["SubscriptionArn"] == kept
    assert ask(account.database_url, schedules) == 1
    sns.publish(TopicArn=topic, Message="x")
    assert len(received(sqs, queue)) == 1
    account.reset()
    assert sns.list_topics()["Topics"] == []
    assert ask(account.database_url, schedules) == 0


def test_purged_messages_come_back(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    state = account.snapshot()
    sqs.purge_queue(QueueUrl=queue)

    state.restore()

    assert [message["Body"] for message in received(sqs, queue)] == ["x"]


def test_messages_are_found_below_the_watermark_that_was_proved_meanwhile(
    account: Account, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="first")
    state = account.snapshot()
    ends = monotonic() + 2
    sent = 0
    while sent < 3 * PROBE_AFTER_CLAIMED or monotonic() < ends:
        entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        sent += 10
        while found := received(sqs, queue):
            done = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(found)
            ]
            sqs.delete_message_batch(QueueUrl=queue, Entries=done)

    state.restore()

    assert [message["Body"] for message in received(sqs, queue)] == ["first"]


def test_clock_is_where_it_was(account: Account, sqs: Any, queue: str) -> None:
    account.clock.advance(days=1)
    sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=60)
    state = account.snapshot()
    account.clock.advance(days=1)
    assert len(received(sqs, queue)) == 1

    state.restore()

    (message,) = account.messages(queue)
    assert (message.state, message.receive_count) == ("delayed", 0)
    assert 0 < message.visible_in <= 60
    account.clock.advance(minutes=1)
    assert len(received(sqs, queue)) == 1
    account.reset()


def test_faults_end(account: Account, sqs: Any, queue: str) -> None:
    state = account.snapshot()
    account.fail("*", times=1000)

    state.restore()

    assert sqs.list_queues()["QueueUrls"] == [queue]


def test_block_ends_in_the_state_in_which_it_began(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="kept")

    def fail() -> None:
        sqs.send_message(QueueUrl=queue, MessageBody="undone")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), account.snapshot() as state:
        fail()

    assert account.messages(queue).bodies() == ["kept"]
    with pytest.raises(TestingError, match="the snapshot is gone since the end of its `with`"):
        state.restore()
    kept = "select count(*) from skipmq_test.message m join skipmq.generation g"
    account_of = f"g.queue_id = (m.content).queue_id and g.account = '{account.number}'"
    assert ask(account.database_url, f"{kept} on {account_of}") == 0


def test_states_can_be_several_and_of_one_account_each(server: Server) -> None:
    one, two = server.new_account(), server.new_account()
    for account in (one, two):
        account.client().create_queue(QueueName="orders")
    empty = one.snapshot()
    url = f"{one.url}/{one.number}/orders"
    one.client().send_message(QueueUrl=url, MessageBody="x")
    full = one.snapshot()
    two.client().send_message(QueueUrl=f"{two.url}/{two.number}/orders", MessageBody="of two")

    for state, bodies in ((empty, []), (full, ["x"]), (empty, []), (full, ["x"])):
        state.restore()
        assert one.messages("orders").bodies() == bodies
    assert two.messages("orders").bodies() == ["of two"]
    scope = f"Credential={two.number}/20000101/us-east-1/sqs/aws4_request"
    headers = {"X-Amz-Target": "SkipMQTest.RestoreSnapshot"}
    headers |= {"Authorization": f"AWS4-HMAC-SHA256 {scope}"}
    answer = raw(two.url, b'{"Snapshot": 1}', headers)
    assert (answer.status, "There is no snapshot 1 of this account" in answer.body) == (400, True)
    for account in (one, two):
        account.clear()


def test_statistics_and_history_are_those_of_the_state(
    account: Account, sqs: Any, queue: str
) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x")
    state = account.snapshot()
    totals, events = [], []
    for _ in range(3):
        (message,) = received(sqs, queue)
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        state.restore()
        ask(account.database_url, "select skipmq.fold_counts(true)")
        counts = "select (s.sent, s.received, s.deleted)::text from skipmq.queue_statistics"
        totals.append(ask(account.database_url, f"{counts}('{account.number}') s limit 1"))
        events.append(
            ask(
                account.database_url,
                f"select count(*) from skipmq.history where message_id = '{sent['MessageId']}'",
            )
        )

    assert set(events) == {0}
    assert numbers(sqs, queue) == (1, 0, 0)
    assert totals == ["(1,0,0)"] * 3


def test_transaction_that_holds_a_message_is_an_error_and_nothing_is_changed(
    account: Account, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    state = account.snapshot()
    sqs.send_message(QueueUrl=queue, MessageBody="y")
    with psycopg.connect(account.database_url) as connection:
        connection.execute("select from skipmq.message for update")

        with pytest.raises(TestingError, match="An open transaction holds a lock"):
            state.restore()
        connection.rollback()

    assert account.messages(queue).bodies() == ["x", "y"]
    state.restore()
    assert account.messages(queue).bodies() == ["x"]
