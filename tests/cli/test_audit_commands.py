"""ListAuditRecords and `skipmq audit`: the audit log in pages, filtered, as a table and as JSON."""

import json
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from support.audit import ORDERS, record, write
from support.commands import invoke
from support.http import NodeProcess, environment, raw
from support.postgres import Databases, as_node

KEY, OTHER = "AKIAIOSFODNN7EXAMPLE", "123456789012"
USER = "arn:aws:iam::000000000000:user/shop"
LONG = ORDERS.replace("orders", "a-name-as-long-as-names-of-queues-may-be-" + "x" * 39)

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    """Give the URL of a database with records whose request ids are numbers."""
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        write(
            connection,
            record(request_id="0", parameters={"QueueName": "orders"}),
            record(request_id="1", action="DeleteQueue", access_key=KEY, user_arn=USER),
            record(request_id="2", queue=LONG, client="2001:db8::ffff:ffff:ffff:ffff"),
            record(request_id="3", account=OTHER, queue=f"{ORDERS}-\x1b[2J[b]x"),
            record(request_id="4", account=OTHER, queue=ORDERS.replace("000000000000", OTHER)),
            record(
                request_id="5", account=None, access_key=KEY, claimed=True, action=None, queue=None,
                outcome="SignatureDoesNotMatch", door="console",
            ),
        )  # fmt: skip
    yield as_node(url)
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def ask(url: str) -> Iterator[Ask]:
    with NodeProcess(database_url=url, workers=1) as node:
        node.ready()

        def asked(status: int = 200, **parameters: Any) -> dict[str, Any]:
            headers = {
                "X-Amz-Target": "SkipMQ.ListAuditRecords",
                "Content-Type": "application/x-amz-json-1.0",
            }
            answer = raw(node.url, json.dumps(parameters).encode(), headers)
            assert answer.status == status, answer.body
            return dict(json.loads(answer.body))

        yield asked


def ids(answer: dict[str, Any]) -> str:
    return "".join(each["RequestId"] for each in answer["Records"])


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        # Of the account that asks, of its queues, and of nobody's.
        ({}, "53210"),
        ({"Queue": "orders"}, "10"),
        ({"Queue": ORDERS}, "10"),
        ({"AccessKeyId": KEY}, "51"),
        ({"Action": "DeleteQueue"}, "1"),
        ({"Outcome": "SignatureDoesNotMatch"}, "5"),
        ({"By": "shop"}, "1"),
        ({"ChangesOnly": True, "SinceTimestamp": 0}, "3210"),
        ({"UntilTimestamp": 0}, ""),
        ({"Queue": "nothing-of-this-name"}, ""),
    ],
)
def test_action_gives_the_records_of_an_account_that_match(
    ask: Ask, filters: dict[str, str], expected: str
) -> None:
    assert ids(ask(**filters)) == expected


def test_action_gives_a_record_whole(ask: Ask) -> None:
    first = ask()["Records"][-1]

    assert first["RecordedTimestamp"] > 1_700_000_000_000
    assert json.loads(first["Parameters"]) == {"QueueName": "orders"}
    names = ("Account", "Action", "QueueArn", "ClientAddress", "Door", "Outcome", "Claimed")
    assert [first[name] for name in names] == [
        *("000000000000", "CreateQueue", ORDERS, "127.0.0.1", "api", "done", False),
    ]


def test_action_gives_pages(ask: Ask) -> None:
    seen, more = [], {}
    for _ in range(3):
        answer = ask(MaxResults=2, **more)
        seen.append(ids(answer))
        more = {"NextToken": answer.get("NextToken")}

    assert seen == ["53", "21", "0"]
    assert more == {"NextToken": None}
    for wrong in ({"MaxResults": 0}, {"MaxResults": 101}, {"NextToken": "bm9uZQ=="}):
        assert ask(400, **wrong)["__type"].endswith("#InvalidParameterValueException")


def run(url: str, *words: str, code: int = 0) -> str:
    """Run a command as a program would; return what it printed."""
    done = invoke(words, environment({"database_url": url}) | {"COLUMNS": "60"})
    assert done.code == code, done.stderr
    return done.stdout


def test_command_prints_a_line_for_each_record_and_cuts_nothing(url: str) -> None:
    heading, *lines = run(url, "audit").splitlines()

    assert heading.split()[0] == "time"
    assert len(lines) == 6
    assert f"claims {KEY}" in lines[0]
    assert "\x1b" not in lines[2]
    assert "[b]x" in lines[2]
    assert LONG.rpartition(":")[2] in lines[3]
    assert "2001:db8::ffff:ffff:ffff:ffff" in lines[3]
    assert lines[4].split()[1:5] == ["DeleteQueue", "orders", "000000000000", "shop"]


def test_command_filters_and_prints_json(url: str) -> None:
    (found,) = json.loads(run(url, "audit", "--queue", "orders", "--key", KEY, "--json"))["records"]
    (deleted,) = json.loads(run(url, "audit", "--action", "DeleteQueue", "--json"))["records"]
    (last,) = json.loads(run(url, "audit", "--limit", "1", "--json"))["records"]

    assert found["request_id"] == "1"
    assert deleted == found
    assert found["recorded_at"].endswith("Z")
    assert (last["outcome"], last["door"]) == ("SignatureDoesNotMatch", "console")
    assert "no matching records" in run(url, "audit", "--outcome", "nothing-of-this-name")


def test_outcome_has_how_many_messages_went_and_that_receives_go_on(
    embedded_databases: Databases,
) -> None:
    owner = embedded_databases.migrated()
    with psycopg.connect(owner, autocommit=True) as connection:
        write(
            connection,
            record(action="PurgeQueue", parameters={"Messages": 1234}),
            record(action="DeleteQueue", parameters={"Messages": 17}),
            record(action="PauseQueue", parameters={"Paused": False}),
            record(action="PauseQueue", parameters={}),
        )

    lines = run(as_node(owner), "audit").splitlines()[1:]

    outcomes = {line.partition("  api ")[2].strip() for line in lines}
    assert outcomes == {"done: 1,234 messages", "done: 17 messages", "done: resumed", "done"}


def test_equal_refusals_are_one_with_their_number(embedded_databases: Databases) -> None:
    owner = embedded_databases.migrated()
    refused = {"account": None, "access_key": KEY, "claimed": True, "queue": None}
    with psycopg.connect(owner, autocommit=True) as connection:
        for age in (7000.0, 60.0, 30.0):
            old = record(request_id=f"of {age}", age=age, outcome="InvalidClientTokenId", **refused)
            write(connection, old, record(request_id="change", age=age - 1))
    url = as_node(owner)

    first, *rest = json.loads(run(url, "audit", "--since", "1h", "--json"))["records"]
    (only,) = json.loads(run(url, "audit", "--outcome", "InvalidClientTokenId", "--json"))[
        "records"
    ]

    assert [each["request_id"] for each in (first, *rest)] == ["change", "of 30.0", "change"]
    assert (rest[0]["count"], only["count"], first["count"]) == (2, 3, 1)
    assert only["first_at"] < rest[0]["first_at"] < only["recorded_at"]
    assert "InvalidClientTokenId, 3 times since" in run(url, "audit")
    changes = json.loads(run(url, "audit", "--changes", "--until", "20s", "--limit", "9", "--json"))
    assert {each["request_id"] for each in changes["records"]} == {"change"}
    assert run(url, "audit", "--since", "soon", code=2) == ""
    east = timezone(timedelta(hours=9))
    hour_ago = (datetime.now(east) - timedelta(hours=1)).isoformat()  # noqa: TID251 - of records.
    for since, count in ((hour_ago, 3), (f"{hour_ago[:-6]}Z", 0)):
        found = json.loads(run(url, "audit", "--since", since, "--json"))["records"]
        assert len(found) == count
    with NodeProcess(database_url=url, workers=1) as node:
        node.ready()
        asked = json.dumps({"MaxResults": 1, "Outcome": "InvalidClientTokenId"}).encode()
        headers = {
            "X-Amz-Target": "SkipMQ.ListAuditRecords",
            "Content-Type": "application/x-amz-json-1.0",
        }
        answer = json.loads(raw(node.url, asked, headers).body)
    assert [each["Count"] for each in answer["Records"]] == [3]
    assert answer.get("NextToken") is None


def test_what_a_command_changes_is_on_the_record(embedded_databases: Databases) -> None:
    url = as_node(embedded_databases.migrated())

    run(url, "queue", "create", "by-hand")
    run(url, "queue", "set", "by-hand", "Policy=x", code=1)
    run(url, "queue", "send", "by-hand", "a body that nobody records")

    found = json.loads(run(url, "audit", "--queue", "by-hand", "--json"))["records"]

    assert [(each["action"], each["outcome"], each["door"]) for each in found] == [
        ("SetQueueAttributes", "InvalidAttributeValue", "command"),
        ("CreateQueue", "done", "command"),
    ]
    me, here = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
    assert {(each["user"], each["client"]) for each in found} == {(me, here)}
    assert found[0]["parameters"]["Attributes"] == {"Policy": "x"}
