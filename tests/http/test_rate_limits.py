"""How many requests a second a node takes from a key, and for a queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.access import code, known
from support.http import NodeProcess, client
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node

OTHER = "210987654321"


@pytest.fixture(scope="module")
def keys(embedded_databases: Databases) -> Keys:
    return Keys(embedded_databases.migrated())


@pytest.fixture(scope="module")
def admin(keys: Keys) -> Iterator[Any]:
    """Give a client of a node without limits."""
    settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
    with NodeProcess(database_url=as_node(keys.url), **settings) as process:
        yield known(client(process.ready().url, **keys.create()))


@pytest.fixture
def queue(admin: Any, name: str) -> str:
    return str(admin.create_queue(QueueName=name)["QueueUrl"])


def test_rates_are_limited_by_key_and_by_queue(
    keys: Keys, admin: Any, queue: str, name: str
) -> None:
    limits = {"rate_limit_key": 5, "rate_limit_queue": 1}
    second = admin.create_queue(QueueName=f"{name}-2")["QueueUrl"]
    made = [keys.create() for _ in range(2)]
    with NodeProcess(
        database_url=as_node(keys.url), workers=1, auth="on", master_key=MASTER_KEY, **limits
    ) as process:
        process.ready()
        first, other = (client(process.url, **each) for each in made)
        assert code(first.send_message, QueueUrl=queue, MessageBody="x") == ""
        # However slow the machine is: two of them within a second.
        while code(first.send_message, QueueUrl=queue, MessageBody="x") != "ThrottlingException":
            pass
        assert code(first.send_message, QueueUrl=second, MessageBody="x") == ""
        while code(first.get_queue_url, QueueName="none-such") != "ThrottlingException":
            pass  # That queue, or this key, has had enough.
        while code(first.list_queues) != "ThrottlingException":
            pass
        assert code(other.list_queues) == ""


def test_refused_caller_does_not_use_up_the_rate_of_a_queue(
    keys: Keys, queue: str, name: str
) -> None:
    foreign, reader, owner = (
        keys.create(OTHER),
        keys.create(ACCOUNT, "--role", "reader"),
        keys.create(ACCOUNT, "--role", "producer", "--queue", name),
    )
    # One in a thousand seconds: what is counted stays counted.
    settings = {"auth": "on", "master_key": MASTER_KEY, "rate_limit_queue": 0.001}
    with NodeProcess(database_url=as_node(keys.url), workers=1, **settings) as process:
        process.ready()
        for key in (foreign, reader):
            sqs = client(process.url, **key)
            for call in (sqs.send_message, sqs.send_message):
                assert code(call, QueueUrl=queue, MessageBody="x") == "AccessDenied"
            entries = [{"Id": "1", "MessageBody": "x"}]
            assert code(sqs.send_message_batch, QueueUrl=queue, Entries=entries) == "AccessDenied"

        own = client(process.url, **owner)
        answers = [code(own.send_message, QueueUrl=queue, MessageBody="x") for _ in range(2)]

    assert answers == ["", "ThrottlingException"]
