import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, Redrive, number

ARN = "arn:aws:sqs:us-east-1:000000000000:"


def refused(owner: Connection, *arns: str) -> tuple[str | None, str | None]:
    marks = ", ".join(["%s"] * len(arns))
    with pytest.raises(psycopg.Error) as caught:
        owner.execute(f"select skipmq.start_move_task({marks})", arns)
    return caught.value.sqlstate, caught.value.diag.message_primary


def test_start_counts_what_there_is_to_move(owner: Connection) -> None:
    redrive = Redrive(owner, 3)

    task = redrive.start()

    row = owner.execute(
        "select status, to_move, moved from skipmq.move_task where task_id = %s", (task,)
    ).fetchone()
    assert row == ("RUNNING", 3, 0)


def test_start_while_another_is_active_is_refused(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    redrive.start()

    sqlstate, told = refused(owner, ARN + "dead")

    assert sqlstate == "SQ008"
    assert told is not None
    assert told.startswith("There is already a task running.")


def test_start_again_after_the_end_is_allowed(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    first = redrive.start()
    while number(owner, "select skipmq.advance_move_tasks()"):
        pass

    assert redrive.start() != first


def test_start_on_what_is_not_there_names_the_parameter(owner: Connection) -> None:
    Redrive(owner, 0)

    assert refused(owner, ARN + "nowhere") == (
        "SQ010",
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    )
    assert refused(owner, ARN + "dead", ARN + "nowhere") == (
        "SQ010",
        "The resource that you specified for the DestinationArn parameter doesn't exist.",
    )


def test_start_on_a_queue_that_is_nobodys_dead_letter_queue_is_refused(owner: Connection) -> None:
    Queue(owner, "plain")

    assert refused(owner, ARN + "plain") == (
        "SQ008",
        "Source queue must be configured as a Dead Letter Queue.",
    )


@pytest.mark.parametrize("alias", ["arn:aws-x:sqs:us-east-1:000000000000:dead", ARN + "dead:x"])
def test_start_under_an_alias_is_refused(owner: Connection, alias: str) -> None:
    Redrive(owner, 0)

    assert refused(owner, alias)[0] == "SQ010"
    assert refused(owner, ARN + "dead", alias)[0] == "SQ010"


def test_start_to_itself_is_refused(owner: Connection) -> None:
    Redrive(owner, 0)

    assert refused(owner, ARN + "dead", ARN + "dead")[0] == "SQ008"


@pytest.mark.parametrize(("origins", "moved"), [(None, 2), ([], 0), ([ARN + "source"], 2)])
def test_only_what_came_from_given_origins_goes_back(
    owner: Connection, origins: list[str] | None, moved: int
) -> None:
    redrive = Redrive(owner, 2)

    number(owner, "select skipmq.start_move_task(%s, null, null, %s)", ARN + "dead", origins)

    assert number(owner, "select skipmq.advance_move_tasks()") == moved
    assert redrive.source.counts() == (moved, 0, 0)
