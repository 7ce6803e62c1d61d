import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue

ARN = "arn:aws:sqs:us-east-1:000000000000:"


def policy(arn: str) -> str:
    return f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}'


def refused(owner: Connection, arn: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        Queue(owner, "source", RedrivePolicy=policy(arn))
    assert caught.value.sqlstate == "SQ008"
    message = caught.value.diag.message_primary or ""
    prefix = f"Value {policy(arn)} for parameter RedrivePolicy is invalid. Reason: "
    assert message.startswith(prefix)
    return message.removeprefix(prefix)


def test_target_that_is_not_there_is_refused_and_nothing_made(owner: Connection) -> None:
    assert refused(owner, ARN + "nowhere") == "Dead letter target does not exist."
    rows = owner.execute("select * from skipmq.queue").fetchall()
    assert rows == []


def test_target_of_another_owner_is_refused(owner: Connection) -> None:
    assert refused(owner, "arn:aws:sqs:us-east-1:111111111111:dead") == (
        "Dead letter target owner should be same as the source."
    )


def test_target_in_another_region_is_refused(owner: Connection) -> None:
    assert refused(owner, "arn:aws:sqs:eu-west-1:000000000000:dead") == (
        "Dead-letter target region must be the same as the source."
    )


def test_target_may_be_the_source_itself(owner: Connection) -> None:
    source = Queue(owner, "source", RedrivePolicy=policy(ARN + "source"))
    source.send("poison")

    # It is where it goes: nothing moves, and each receive gives it once.
    assert [source.bodies(timeout=0) for _ in range(3)] == [["poison"]] * 3


def test_target_that_is_the_source_itself_must_allow_it(owner: Connection) -> None:
    source = Queue(owner, "source", RedriveAllowPolicy='{"redrivePermission":"denyAll"}')

    with pytest.raises(psycopg.Error, match="does not allow"):
        owner.execute(
            "select skipmq.set_queue_attributes(%s, %s::jsonb)",
            (source.id, psycopg.types.json.Json({"RedrivePolicy": policy(ARN + "source")})),
        )


@pytest.mark.parametrize(
    ("allow", "is_allowed"),
    [
        ("", True),
        ('{"redrivePermission":"allowAll"}', True),
        ('{"redrivePermission":"denyAll"}', False),
        (f'{{"redrivePermission":"byQueue","sourceQueueArns":["{ARN}source"]}}', True),
        (f'{{"redrivePermission":"byQueue","sourceQueueArns":["{ARN}other"]}}', False),
    ],
)
def test_target_decides_who_may_use_it(owner: Connection, allow: str, *, is_allowed: bool) -> None:
    Queue(owner, "dead", RedriveAllowPolicy=allow)

    if is_allowed:
        Queue(owner, "source", RedrivePolicy=policy(ARN + "dead"))
    else:
        assert "does not allow" in refused(owner, ARN + "dead")
