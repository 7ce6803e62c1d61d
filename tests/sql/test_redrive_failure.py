from support.postgres import Connection
from support.sql import Queue, Redrive, number

ASK = "select skipmq.redrive_failure(%s, %s)"


def test_failure_is_by_where_the_messages_came_from(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    owner.execute("select skipmq.delete_queue(%s)", (redrive.source.id,))
    missing = "AWS.SimpleQueueService.NonExistentQueue"
    assert number(owner, ASK, redrive.dead.id, redrive.arn) == missing
    redrive.dead.send("direct")

    assert number(owner, ASK, redrive.dead.id, redrive.arn) == "CouldNotDetermineMessageSource"


def test_queue_without_messages_has_no_failure(owner: Connection) -> None:
    assert number(owner, ASK, Queue(owner).id, "arn") is None
