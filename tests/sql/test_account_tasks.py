from support.postgres import Connection
from support.sql import Queue, number

TASKS = "select is_active, source_arn, kind, status from skipmq.account_tasks(%s, 'us-east-1')"
START = "select skipmq.start_message_task(%s, 'delete', null, null, null, null, null)"


def arn(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:000000000000:{name}"


def test_running_tasks_come_first_and_others_by_age(owner: Connection, node: Connection) -> None:
    for name in ("first", "second", "third"):
        Queue(owner, name).send("a")
        owner.execute(START, (arn(name),))
    owner.execute(
        "update skipmq.move_task set status = 'COMPLETED' where source_arn <> %s", (arn("first"),)
    )

    rows = node.execute(TASKS, ("000000000000",)).fetchall()

    assert rows == [
        (True, arn("first"), "delete", "RUNNING"),
        (False, arn("third"), "delete", "COMPLETED"),
        (False, arn("second"), "delete", "COMPLETED"),
    ]
    assert node.execute(TASKS, ("210987654321",)).fetchall() == []


def test_number_of_tasks_is_limited(owner: Connection) -> None:
    for name in ("first", "second"):
        Queue(owner, name).send("a")
        owner.execute(START, (arn(name),))

    count = "select count(*) from skipmq.account_tasks('000000000000', 'us-east-1', %s)"
    assert [number(owner, count, limit) for limit in (1, 2, 50)] == [1, 2, 2]
