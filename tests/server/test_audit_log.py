"""The audit log in the database: what a node writes to it, and what it leaves out."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError
from structlog.testing import capture_logs

from skipmq.broker.audit_log import BUFFERED, Audit
from skipmq.database.partitions import Database
from skipmq.server.request_log import Limit
from support.audit import ACCOUNT, ORDERS, record, written
from support.http import NodeProcess, client, eventually, raw
from support.key_commands import ACCOUNT as KEYS_ACCOUNT
from support.key_commands import MASTER_KEY, Keys
from support.postgres import Connection, Databases, as_node
from support.visitor import Visitor, signed_in

STRANGER = "AKIANOBODYNOBODYNOBO"


@pytest.fixture(scope="module")
def keys(embedded_databases: Databases) -> Keys:
    return Keys(embedded_databases.migrated())


@pytest.fixture(scope="module")
def signing(keys: Keys) -> Iterator[NodeProcess]:
    """Give a node that checks signatures."""
    settings = {"auth": "on", "master_key": MASTER_KEY, "trusted_proxies": "127.0.0.1"}
    with NodeProcess(database_url=as_node(keys.url), workers=1, **settings) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def log(keys: Keys) -> Iterator[Connection]:
    with psycopg.connect(keys.url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def admin(signing: NodeProcess, keys: Keys) -> dict[str, str]:
    """Give a key that the node knows."""
    key = keys.create()
    signed_in(signing, key)
    return key


def columns(found: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(found[name] for name in names)


def test_change_is_recorded_with_who_what_and_whence(
    signing: NodeProcess, admin: dict[str, str], log: Connection
) -> None:
    sqs = client(signing.url, **admin)

    made = sqs.create_queue(QueueName="orders", tags={"team": "shop"})
    with pytest.raises(ClientError):
        sqs.set_queue_attributes(QueueUrl=made["QueueUrl"], Attributes={"DelaySeconds": "-1"})

    arn = ORDERS.replace(ACCOUNT, KEYS_ACCOUNT)
    failed, done = eventually(lambda: len(r := written(log, queue=arn)) == 2 and r)
    assert columns(done, "account", "access_key", "action", "client", "door", "outcome") == (
        KEYS_ACCOUNT, admin["key"], "CreateQueue", "127.0.0.1", "api", "done",
    )  # fmt: skip
    assert done["request_id"] == made["ResponseMetadata"]["RequestId"]
    assert done["user_arn"].startswith(f"arn:aws:iam::{KEYS_ACCOUNT}:user/")
    assert not done["claimed"]
    assert done["parameters"] == {"QueueName": "orders", "tags": {"team": "shop"}}
    assert columns(failed, "action", "outcome") == (
        "SetQueueAttributes",
        "InvalidAttributeValue",
    )


def test_refusal_is_recorded_with_the_key_that_was_claimed(
    signing: NodeProcess, log: Connection
) -> None:
    with pytest.raises(ClientError):
        client(signing.url, key=STRANGER, secret="nothing").list_queues()

    (found,) = eventually(lambda: written(log, access_key=STRANGER))
    assert columns(found, "claimed", "account", "action", "parameters") == (True, None, None, None)
    assert found["outcome"] == "InvalidClientTokenId"


def test_sign_ins_and_changes_in_the_console_are_recorded(
    signing: NodeProcess, admin: dict[str, str], log: Connection
) -> None:
    visitor = signed_in(signing, admin)
    stranger = Visitor(signing.url)

    visitor.post("create", {"name": "clicked", "kind": "standard"}, csrf=visitor.csrf("queues"))
    stranger.sign_in(admin["key"], "wrong")

    def of(client_address: str) -> list[dict[str, Any]]:
        return [each for each in written(log) if each["client"] == client_address]

    created, entered = eventually(lambda: len(r := of(visitor.address)) == 2 and r)
    assert columns(created, "action", "door", "outcome") == ("CreateQueue", "console", "done")
    assert columns(entered, "action", "door", "access_key", "account", "claimed", "outcome") == (
        "SignIn", "console", admin["key"], KEYS_ACCOUNT, False, "done",
    )  # fmt: skip
    (refused,) = eventually(lambda: of(stranger.address))
    assert columns(refused, "action", "account", "claimed") == ("SignIn", KEYS_ACCOUNT, True)
    assert "wrong" not in json.dumps(written(log))


def test_node_that_stops_writes_what_it_has_noted(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        sqs = client(node.ready().url)
        # A text that PostgreSQL cannot hold, which fails nobody's record.
        with pytest.raises(ClientError):
            sqs.start_message_move_task(SourceArn=f"{ORDERS}\0")
        sqs.create_queue(QueueName="orders")
        node.stop()

    with psycopg.connect(url, autocommit=True) as log:
        assert [each["action"] for each in written(log)] == ["CreateQueue", "StartMessageMoveTask"]
    embedded_databases.drop(url)


def test_node_writes_none_where_none_are_kept(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1, audit_days=0) as node:
        client(node.ready().url).create_queue(QueueName="orders")
        node.stop()
        assert '"event": "audit"' in node.log

    with psycopg.connect(url, autocommit=True) as log:
        assert written(log) == []
    embedded_databases.drop(url)


async def test_what_finds_no_room_is_left_out_and_counted(owner: Connection, database: str) -> None:
    pool = Database(as_node(database), size=1)
    audit = Audit(pool, writes=True)
    with capture_logs() as logs:
        for n in range(BUFFERED + 7):
            audit.note(record(request_id=f"{n}"))
        # One at a time: each takes what the others have left.
        await asyncio.gather(*(audit.flush() for _ in range(2)))

    found = written(owner, limit=2 * BUFFERED)
    assert {each["request_id"] for each in found} == {f"{n}" for n in range(BUFFERED)}
    assert [each["number"] for each in logs if each["event"] == "audit records left out"] == [7]
    pool.close()


async def test_records_wait_for_a_database_that_is_away(owner: Connection, database: str) -> None:
    own = Database(as_node(database), size=1)
    audit = Audit(own, writes=True)
    own.pool.availability.mark_unavailable(psycopg.OperationalError("gone"))
    audit.note(record())

    await audit.flush()
    lost = written(owner)
    await own.pool.availability.wait_until_available()
    await audit.flush()

    assert lost == []
    assert len(written(owner)) == 1
    own.close()


def test_flood_without_a_key_hides_no_refusal_of_one(keys: Keys, log: Connection) -> None:
    reader, admin = keys.create(KEYS_ACCOUNT, "--role", "reader"), keys.create()
    settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
    # A node of its own: what it leaves out for a minute are refusals of others.
    with NodeProcess(database_url=as_node(keys.url), **settings) as node:
        node.ready()
        for number in range(150):
            scope = f"AKIA{number:016}/20260101/us-east-1/sqs/aws4_request"
            claim = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={'0' * 64}"
            for headers in ({}, {"Authorization": claim}):
                assert raw(f"{node.url}/", b"Action=ListQueues", headers).status >= 400
        with pytest.raises(ClientError, match="AccessDenied"):
            client(node.url, **reader).create_queue(QueueName="refused")
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            client(node.url, **(admin | {"secret": "wrong"})).list_queues()

        for key, outcome in ((reader, "AccessDenied"), (admin, "SignatureDoesNotMatch")):
            wanted = {"access_key": key["key"], "outcome": outcome}
            eventually(lambda w=wanted: [r for r in written(log) if w.items() <= r.items()])
            lines = [line for line in node.lines if key["key"] in line and outcome in line]
            assert [json.loads(line)["event"] for line in lines] == ["audit"]


def test_refusals_of_a_minute_are_bounded() -> None:
    limit = Limit("refusals in the database", 60, seconds=60)

    kept = sum(limit.allows() for _ in range(5000))

    # As many again if a minute begins meanwhile.
    assert kept in {60, 120}
