import psycopg
import pytest
from psycopg.types.json import Json

from support.postgres import Connection
from support.sql import Queue, advance, number


def set_(queue: Queue, **attributes: str) -> None:
    queue.connection.execute(
        "select skipmq.set_queue_attributes(%s, %s::jsonb)", (queue.id, Json(attributes))
    )


def attribute(queue: Queue, name: str) -> str:
    value = number(
        queue.connection,
        "select attributes ->> %s from skipmq.get_queue('orders', '000000000000', 'us-east-1')",
        name,
    )
    assert isinstance(value, str)
    return value


def test_set_changes_what_is_named_and_nothing_else(orders: Queue) -> None:
    set_(orders, DelaySeconds="7", KmsMasterKeyId="alias/key", SqsManagedSseEnabled="false")

    assert attribute(orders, "DelaySeconds") == "7"
    assert attribute(orders, "KmsMasterKeyId") == "alias/key"
    assert attribute(orders, "SqsManagedSseEnabled") == "false"
    assert attribute(orders, "VisibilityTimeout") == "30"


def test_set_keeps_the_schema_of_bodies_as_it_is(orders: Queue) -> None:
    set_(orders, BodySchema='{"type": "object"}', BodySchemaMode="enforce")
    set_(orders, DelaySeconds="7")

    assert attribute(orders, "BodySchema") == '{"type": "object"}'
    assert attribute(orders, "BodySchemaMode") == "enforce"


def test_set_moves_the_time_of_modification(orders: Queue) -> None:
    statement = (
        "select extract(epoch from modified_at - created_at)"
        " from skipmq.get_queue('orders', '000000000000', 'us-east-1')"
    )
    advance(orders.connection, "10 seconds")

    set_(orders, DelaySeconds="1")

    assert 9 < number(orders.connection, statement) < 60


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VisibilityTimeout", "43201"),
        ("DelaySeconds", "-1"),
        ("MaximumMessageSize", "1023"),
        ("MessageRetentionPeriod", "59"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("KmsDataKeyReusePeriodSeconds", "59"),
        ("HistoryMode", "some"),
        ("BodySchema", "s" * 16_385),
        ("BodySchemaMode", "some"),
        ("KmsMasterKeyId", "k" * 2_049),
        ("MaximumDelaySeconds", "31536001"),
        ("DeduplicationSeconds", "31536001"),
        ("RetryBackoff", '{"base": 10, "factor": 0.5, "jitter": 0, "maximum": 60}'),
        ("MaximumReceiveRate", "0"),
        ("MaximumReceiveRatePerGroup", "0.0001"),
        ("MaximumInFlightPerGroup", "0"),
        ("ReceiveBurst", "0"),
        ("PriorityMode", "first"),
        ("Policy", "p" * 8_193),
        ("RedriveAllowPolicy", '{"redrivePermission": "allowAll"}' + " " * 4_096),
    ],
)
def test_set_out_of_range_is_refused(orders: Queue, name: str, value: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        set_(orders, **{name: value})


def test_redrive_policy_has_a_bound(orders: Queue) -> None:
    Queue(orders.connection, "dead")
    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 2}}'
    set_(orders, RedrivePolicy=policy)

    with pytest.raises(psycopg.errors.CheckViolation):
        set_(orders, RedrivePolicy=policy + " " * 1_024)


def test_set_on_a_queue_that_is_gone_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        set_(orders, DelaySeconds="1")

    assert caught.value.sqlstate == "SQ005"


def test_set_retention_lower_expires_what_waits(orders: Queue) -> None:
    orders.send("old")
    advance(orders.connection, "2 minutes")

    set_(orders, MessageRetentionPeriod="60")

    assert orders.bodies() == []


def test_node_sets_attributes_without_rights_on_the_table(node: Connection) -> None:
    queue = Queue(node)

    set_(queue, DelaySeconds="3")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select * from skipmq.queue")


def test_pause_is_kept_with_who_and_when(orders: Queue) -> None:
    def paused(**attributes: str) -> tuple[object, ...] | None:
        set_(orders, **attributes)
        return orders.connection.execute(
            "select paused, paused_by, paused_at > clock_timestamp() - interval '1 minute'"
            " from skipmq.queue where queue_id = %s",
            (orders.id,),
        ).fetchone()

    assert paused(Paused="true", PausedBy="anna") == (True, "anna", True)
    assert paused(Paused="true", PausedBy="bob") == (True, "anna", True)
    assert paused(DelaySeconds="0") == (True, "anna", True)
    assert paused(Paused="false", PausedBy="bob") == (False, None, None)
    assert paused(Paused="true") == (True, "postgres", True)
