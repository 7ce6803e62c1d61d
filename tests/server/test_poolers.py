"""Nodes behind a pooler: they work where it keeps sessions, and refuse to where it does not."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq.database import schema
from skipmq.database.pool import Pool
from skipmq.database.schema import SchemaError
from skipmq.database.statement import Statement
from support import forks
from support.http import ACCOUNT, SKIPMQ, NodeProcess, client, environment, eventually, free_port
from support.pooler import IGNORES_OPTIONS, ROUND_ROBIN, PgBouncer

QUEUE = f"/{ACCOUNT}/orders"
REMEDY = "name PostgreSQL itself in SKIPMQ_DATABASE_URL, or set pool_mode = session"
SENDERS = 16


@pytest.fixture
def pooler(place: Path, node_url: str) -> Callable[..., PgBouncer]:
    return lambda *settings: PgBouncer(place, node_url, *settings)


def run(url: str, *words: str) -> tuple[int, str]:
    """Run a command; return its exit code, and what it printed."""
    done = forks.run([*SKIPMQ, *words], environment({"database_url": url, "port": free_port()}))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize(
    "settings",
    [(IGNORES_OPTIONS,), (IGNORES_OPTIONS, ROUND_ROBIN), ()],
    ids=["last first", "in turn", "options refused"],
)
def test_pooler_that_shares_sessions_is_refused_at_start(
    pooler: Callable[..., PgBouncer], mode: str, settings: tuple[str, ...]
) -> None:
    bouncer = pooler(*settings)

    with bouncer.running(mode), pytest.raises(SchemaError, match="pool_mode = session"):
        schema.check(bouncer.url)


def test_pooler_that_shares_sessions_is_refused_while_others_use_it(
    pooler: Callable[..., PgBouncer],
) -> None:
    bouncer = pooler(IGNORES_OPTIONS)

    def refused(_: int) -> bool:
        with pytest.raises(SchemaError, match="pool_mode = session"):
            schema.check(bouncer.url)
        return True

    with bouncer.running("transaction"), ThreadPoolExecutor(8) as threads:
        assert all(threads.map(refused, range(40)))


def test_commands_name_the_remedy_in_one_sentence(pooler: Callable[..., PgBouncer]) -> None:
    bouncer = pooler(IGNORES_OPTIONS)

    with bouncer.running("transaction"):
        served = run(bouncer.url, "serve")
        sent = run(bouncer.url, "queue", "create", "orders")
        code, found = run(bouncer.url, "doctor", "--json")

    for refused in (served, sent):
        assert refused[0] == 1
        assert len(refused[1].splitlines()) == 1
        assert REMEDY in refused[1]
    problems = [each for each in json.loads(found)["checks"] if not each["ok"]]
    assert code == 1
    assert [each["check"] for each in problems] == ["database"]
    assert REMEDY in problems[0]["detail"]


def test_pooler_that_refuses_options_is_named_with_the_remedy(
    pooler: Callable[..., PgBouncer],
) -> None:
    bouncer = pooler()

    with (
        bouncer.running("session"),
        pytest.raises(SchemaError, match="ignore_startup_parameters = extra_float_digits, options"),
    ):
        schema.check(bouncer.url)


def test_node_works_behind_a_pooler_that_keeps_sessions(pooler: Callable[..., PgBouncer]) -> None:
    bouncer = pooler(IGNORES_OPTIONS)

    with bouncer.running("session"):
        code, found = run(bouncer.url, "doctor")
        asyncio.run(assert_pinned(bouncer.url))
        with NodeProcess(database_url=bouncer.url, workers=2) as node:
            sqs = client(node.ready().url)
            sqs.create_queue(QueueName="orders")
            for number in range(5):
                sqs.send_message(QueueUrl=QUEUE, MessageBody=str(number))
            bodies = {message["Body"] for _ in range(5) for message in receive(sqs)}

    assert code == 0, found
    assert bodies == {"0", "1", "2", "3", "4"}


async def assert_pinned(url: str) -> None:
    """The options of the session were ignored."""
    pool = Pool(url, size=1)
    shown = "select current_setting('lock_timeout'), current_setting('timezone')"
    assert await pool.rows(Statement(shown)) == [("1s", "UTC")]
    pool.close()


def receive(sqs: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=1, WaitTimeSeconds=20)
    messages: list[dict[str, Any]] = answer["Messages"]
    return messages


def test_running_node_refuses_requests_until_its_pooler_keeps_sessions_again(
    pooler: Callable[..., PgBouncer],
) -> None:
    bouncer = pooler(IGNORES_OPTIONS)

    with (
        bouncer.running("session"),
        NodeProcess(database_url=bouncer.url, workers=1, failover_wait=1) as node,
        ThreadPoolExecutor(SENDERS) as threads,
    ):
        sqs = client(node.ready().url)
        sqs.create_queue(QueueName="orders")

        def send(_: int) -> int:
            try:
                sqs.send_message(QueueUrl=QUEUE, MessageBody="tea")
            except ClientError as error:
                return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
            return 200

        def statuses() -> set[int]:
            return set(threads.map(send, range(SENDERS)))

        assert statuses() == {200}
        bouncer.change("transaction")
        seen: set[int] = set()
        eventually(lambda: seen.update(now := statuses()) or now == {503}, why=node.log)
        reason = [line for line in node.lines if REMEDY in line]
        bouncer.change("session")
        eventually(lambda: statuses() == {200}, why="the node serves again")

    assert reason, node.log
    assert seen <= {200, 503}
