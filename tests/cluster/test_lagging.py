"""A failover to a standby that lags: under load, as `make faults` runs it, and within a claim."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from cluster import lagging
from support.clock import connect
from support.http import client, eventually
from support.inbox import RAW, Inbox, subscribe
from support.lagging import Lagging
from support.postgres import as_node
from support.sql import number

_LIMIT = 2


@pytest.mark.slow
def test_nothing_of_others_is_touched(public_folder: Path) -> None:
    found = lagging.run(public_folder, seed=1)

    assert not found.violations
    assert found.lost
    assert found.assigned_twice


@pytest.fixture
def broker(public_folder: Path) -> Iterator[Lagging]:
    folder = public_folder / "within-a-claim"
    folder.mkdir(mode=0o711)
    found = Lagging(folder)
    yield found
    found.close()


@pytest.mark.slow
def test_claims_and_publishes_that_die_with_the_primary_hold_no_place_and_reach_no_queue(
    broker: Lagging,
) -> None:
    sqs, sns = client(broker.node.url), client(broker.node.url, "query", service="sns")
    limited, other = Inbox(sqs, MaximumInFlight=str(_LIMIT)), Inbox(sqs)
    topic = sns.create_topic(Name="news")["TopicArn"]
    for inbox in (limited, other):
        subscribe(sns, topic, inbox, **RAW)
    for body in "abcd":
        sns.publish(TopicArn=topic, Message=body)
    broker.leave_behind()

    # One claim is committed, where nobody else knows of it, and one is not.
    assert len(_received(sqs, limited, 1)) == 1
    with suppress(psycopg.OperationalError), connect(as_node(broker.url)) as session:
        name = limited.url.rpartition("/")[2]
        session.execute("begin")
        claim = "select id from skipmq.receive_messages(skipmq.queue_id(%s), 1)"
        assert number(session, claim, name)
        assert _received(sqs, limited, 10) == []
        sns.publish(TopicArn=topic, Message="lost")
        with broker.failover():
            pass
    found = eventually(lambda: _answered(sqs, limited), 60, why="the node has the new primary")

    assert [each["Attributes"]["ApproximateReceiveCount"] for each in found] == ["1"] * _LIMIT
    assert _received(sqs, limited, 10) == []
    sqs.delete_message(QueueUrl=limited.url, ReceiptHandle=found[0]["ReceiptHandle"])
    found += _received(sqs, limited, 10)
    assert len(found) == _LIMIT + 1
    assert sorted(each["Body"] for each in _received(sqs, other, 10)) == [*"abcd"]
    assert "lost" not in {each["Body"] for each in found}


def _received(sqs: Any, inbox: Inbox, most: int) -> list[dict[str, Any]]:
    found = sqs.receive_message(
        QueueUrl=inbox.url, MaxNumberOfMessages=most, AttributeNames=["All"], VisibilityTimeout=600
    )
    return list(found.get("Messages", []))


def _answered(sqs: Any, inbox: Inbox) -> list[dict[str, Any]]:
    try:
        return _received(sqs, inbox, 10)
    except (ClientError, BotoCoreError):
        return []
