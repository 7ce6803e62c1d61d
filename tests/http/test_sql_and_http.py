"""What comes by SQL is held to the rules of what comes over HTTP, and arrives as the same."""

import base64
import json
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from skipmq.protocol.errors import BY_SQLSTATE
from support.http import ACCOUNT, NodeProcess
from support.near_misses import FIFO, GOOD, MOST, STANDARD, STRING, messages
from support.postgres import Connection
from support.sql import number
from support.wire import exchange, target

ACCEPTED = "accepted"
# What neither a text of PostgreSQL nor its JSON can hold: there is no SQLSTATE of ours for it.
INEXPRESSIBLE = "inexpressible"
EXAMPLES = 60
several = pytest.mark.parametrize(
    "examples", [EXAMPLES, pytest.param(20 * EXAMPLES, marks=pytest.mark.slow)]
)
_number = count(1)


class Door:
    """The ways in, HTTP and SQL, to queues of a kind; each gives a verdict on what it is asked."""

    def __init__(self, broker: NodeProcess, owner: Connection, kind: str = "", **more: str) -> None:
        self.port, self.owner = broker.port, owner
        self.names: dict[str, str] = {}
        self.ids: dict[str, int] = {}
        attributes = {"MaximumMessageSize": str(MOST)} | more
        for way in ("http", "sql", "late"):
            self.names[way] = f"{way}-{next(_number)}{kind}"
            self.ids[way] = number(
                owner,
                "select skipmq.create_queue(%s, %s::jsonb)",
                self.names[way],
                json.dumps(attributes),
            )

    def http(self, action: str, way: str, **parameters: Any) -> tuple[str, dict[str, Any]]:
        body = {"QueueUrl": f"http://any/{ACCOUNT}/{self.names[way]}", **parameters}
        answer = exchange(self.port, json.dumps(body).encode(), target(action))
        told = answer.headers.get("x-amzn-query-error")
        return (
            (told.partition(";")[0], {}) if told else (ACCEPTED, json.loads(answer.body or b"{}"))
        )

    def sql(self, statement: str, **parameters: Any) -> str:
        try:
            self.owner.execute(statement.encode(), parameters)
        except (UnicodeEncodeError, psycopg.DataError):
            return INEXPRESSIBLE
        except psycopg.Error as error:
            return BY_SQLSTATE[error.sqlstate or ""].code
        return ACCEPTED

    def received(self, way: str) -> dict[str, Any]:
        """Receive the one message of a queue over HTTP and delete it; return what it shows."""
        _, answer = self.http(
            "ReceiveMessage", way, MessageAttributeNames=["All"], AttributeNames=["All"]
        )
        (message,) = answer["Messages"]
        self.http("DeleteMessage", way, ReceiptHandle=message.pop("ReceiptHandle"))
        del message["MessageId"]
        for other in (
            "SentTimestamp",
            "ApproximateFirstReceiveTimestamp",
            "SenderId",
            "SequenceNumber",
        ):
            message["Attributes"].pop(other, None)
        return dict(message)


def agree(door: Door, message: dict[str, Any], faults: int, statement: str) -> None:
    """Send a message both ways; compare the verdicts, and what a receiver is shown."""
    # Halves of a pair that came together are no halves.
    message = json.loads(json.dumps(message))
    # What is delayed would turn up among others.
    late = bool(message.get("DelaySeconds"))
    given = {key: value for key, value in message.items() if key != "trace"}
    if "trace" in message:
        trace = {"DataType": "String", "StringValue": message["trace"]}
        given["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    attributes = message["MessageAttributes"]
    over_http, _ = door.http("SendMessage", "late" if late else "http", **given)
    by_sql = door.sql(
        statement,
        queue=door.ids["late" if late else "sql"],
        id=uuid4(),
        body=message["MessageBody"],
        attributes=None if attributes is None else json.dumps(attributes),
        delay=message.get("DelaySeconds"),
        group=message["MessageGroupId"],
        deduplication=message.get("MessageDeduplicationId"),
        trace=message.get("trace"),
    )

    if by_sql == INEXPRESSIBLE:
        assert r"\x00" in repr(given) or r"\ud" in repr(given)
        assert over_http != ACCEPTED
    elif faults < 2:
        assert by_sql == over_http
    else:
        # Each may have told of another of its faults.
        assert (by_sql == ACCEPTED) == (over_http == ACCEPTED)
    if over_http == ACCEPTED and not late:
        assert door.received("sql") == door.received("http")


def run(check: Callable[[], None], examples: int) -> None:
    settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])(
        check
    )()


@several
def test_standard_messages_fare_alike_by_sql_and_over_http(
    broker: NodeProcess, owner: Connection, examples: int
) -> None:
    door = Door(broker, owner)
    send = (
        "select skipmq.send_messages(%(queue)s, array[%(id)s]::uuid[], array[%(body)s]::text[],"
        " array[%(attributes)s]::text[], array[%(delay)s]::int[], array[%(group)s]::text[],"
        " array[%(trace)s]::text[])"
    )

    @given(messages(STANDARD, GOOD))
    def fare(drawn: tuple[dict[str, Any], int]) -> None:
        agree(door, *drawn, send)

    run(fare, examples)


@several
@pytest.mark.parametrize("by_content", ["false", "true"])
def test_fifo_messages_fare_alike_by_sql_and_over_http(
    broker: NodeProcess, owner: Connection, by_content: str, examples: int
) -> None:
    door = Door(broker, owner, ".fifo", FifoQueue="true", ContentBasedDeduplication=by_content)
    send = (
        "select skipmq.send_fifo_messages(%(queue)s, array[%(id)s]::uuid[],"
        " array[%(body)s]::text[], array[%(attributes)s]::text[], array[%(group)s]::text[],"
        " array[%(deduplication)s]::text[], array[%(trace)s]::text[])"
    )

    @given(messages(FIFO, GOOD | {"MessageDeduplicationId": "id"}))
    def fare(drawn: tuple[dict[str, Any], int]) -> None:
        # The same id again would be a duplicate, which is accepted and not there.
        owner.execute("delete from skipmq.deduplication")
        agree(door, *drawn, send)

    run(fare, examples // 2)


@pytest.mark.parametrize(
    ("kind", "wrapper"),
    [
        ("", "send_message(%(name)s, %(body)s, %(attributes)s::jsonb, %(delay)s::int)"),
        (
            ".fifo",
            "send_fifo_message(%(name)s, %(body)s, %(group)s, %(id)s, %(attributes)s::jsonb)",
        ),
    ],
)
def test_sending_by_name_has_the_same_rules(
    broker: NodeProcess, owner: Connection, kind: str, wrapper: str
) -> None:
    door = Door(broker, owner, kind, **({"FifoQueue": "true"} if kind else {}))
    good = {"name": door.names["sql"], "body": "x", "group": "g", "id": "i", "delay": None}

    def verdict(attributes: Any = None, **more: Any) -> str:
        return door.sql(
            f"select skipmq.{wrapper}", **good | {"attributes": json.dumps(attributes)} | more
        )

    verdicts = [
        verdict(),
        verdict({"a": STRING}, body="y", id="j"),
        verdict({"AWS.x": STRING}),
        verdict(body=""),
        verdict(body="\ufffe"),
        verdict(delay=901) if not kind else verdict(group=" "),
    ]

    assert verdicts == [
        *(ACCEPTED, ACCEPTED, "InvalidParameterValue", "MissingParameter"),
        *("InvalidMessageContents", "InvalidParameterValue"),
    ]


NUMBERS_NEAR_LIMITS = [None, -(2**31), -5, -1, 0, 1, 10, 11, 43_199, 43_200, 43_201, 999_999_999]
RECEIVES = {
    "": "select from skipmq.receive_messages(%(queue)s, %(limit)s::int, %(timeout)s::int)",
    ".fifo": "select from skipmq.receive_fifo_messages("
    "%(queue)s, %(limit)s::int, %(timeout)s::int)",
    "attempt.fifo": "select from skipmq.receive_fifo_attempt("
    "%(queue)s, %(attempt)s, %(limit)s::int, %(timeout)s::int)",
}


@pytest.mark.parametrize("kind", RECEIVES)
def test_receives_fare_alike_by_sql_and_over_http(
    broker: NodeProcess, owner: Connection, kind: str
) -> None:
    door = Door(broker, owner, kind, **({"FifoQueue": "true"} if kind else {}))
    attempts = ["a", "x" * 128, "", "a b", "x" * 129, "ß"] if "attempt" in kind else [None]
    asked = [
        *({"limit": n} for n in NUMBERS_NEAR_LIMITS),
        *({"timeout": n} for n in NUMBERS_NEAR_LIMITS),
        *({"attempt": attempt} for attempt in attempts),
    ]

    verdicts = []
    for each in asked:
        limit, timeout = each.get("limit", 1), each.get("timeout")
        attempt = each.get("attempt", attempts[0])
        over_http, _ = door.http(
            "ReceiveMessage",
            "http",
            MaxNumberOfMessages=limit,
            VisibilityTimeout=timeout,
            ReceiveRequestAttemptId=attempt,
        )
        by_sql = door.sql(
            RECEIVES[kind], queue=door.ids["sql"], limit=limit, timeout=timeout, attempt=attempt
        )
        verdicts.append((each, over_http, by_sql))

    assert [over_http for _, over_http, _ in verdicts].count("InvalidParameterValue") >= 13
    assert [each for each in verdicts if each[1] != each[2]] == []


@pytest.mark.parametrize("timeout", [-(2**31), -1, 0, 43_199, 43_201, 999_999_999])
@pytest.mark.parametrize("kind", ["", ".fifo"])
def test_changes_of_visibility_fare_alike_by_sql_and_over_http(
    broker: NodeProcess, owner: Connection, kind: str, timeout: int
) -> None:
    door = Door(broker, owner, kind, **({"FifoQueue": "true"} if kind else {}))
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "i"} if kind else {}
    door.http("SendMessage", "http", MessageBody="x", **ids)
    _, answer = door.http("ReceiveMessage", "http")
    (message,) = answer["Messages"]
    over_http, _ = door.http(
        "ChangeMessageVisibility",
        "http",
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=timeout,
    )
    change = f"change{'_fifo' if kind else ''}_visibility"
    by_sql = door.sql(
        f"select skipmq.{change}(%(queue)s, array[1], array[1], array[gen_random_uuid()], null,"
        " array[%(timeout)s])",
        queue=door.ids["sql"],
        timeout=timeout,
    )

    assert by_sql == over_http


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"a": {"DataType": "String.é", "StringValue": "日" * 100_000}},
        {"a": {"DataType": "Binary", "BinaryValue": base64.b64encode(b"\0" * 400_001).decode()}},
    ],
)
def test_size_counts_alike_by_sql_and_over_http(
    broker: NodeProcess, owner: Connection, attributes: dict[str, Any], more: int
) -> None:
    door = Door(broker, owner, MaximumMessageSize="1048576")
    length = 1_048_576 + more
    for name, value in attributes.items():
        text = name + value["DataType"] + value.get("StringValue", "")
        length -= len(text.encode()) + len(base64.b64decode(value.get("BinaryValue", "")))
    over_http, _ = door.http(
        "SendMessage", "http", MessageBody="x" * length, MessageAttributes=attributes
    )
    by_sql = door.sql(
        "select skipmq.send_message(%(name)s, %(body)s, %(attributes)s::jsonb)",
        name=door.names["sql"],
        body="x" * length,
        attributes=json.dumps(attributes),
    )

    assert by_sql == over_http == ("InvalidParameterValue" if more else ACCEPTED)
