from support.postgres import Connection
from support.sql import Queue, Redrive, number, redrive_policy

ARN = "arn:aws:sqs:us-east-1:000000000000:"
MOVE = "select skipmq.move_batch(%s, %s, %s)"


def test_move_to_the_origin_begins_the_count_anew(owner: Connection) -> None:
    redrive = Redrive(owner, 1)

    moved = number(owner, MOVE, redrive.dead.id, None, 10)

    (message,) = redrive.source.receive(timeout=0)
    assert moved == 1
    assert message["approximate_receive_count"] == 1
    assert message["dead_letter_source"] is None


def test_move_elsewhere_takes_everything_there(owner: Connection) -> None:
    redrive, other = Redrive(owner, 3), Queue(owner, "other")
    redrive.dead.send("never in another queue")

    assert number(owner, MOVE, redrive.dead.id, other.id, 10) == 4
    assert other.counts() == (4, 0, 0)


def test_move_to_the_origin_leaves_what_has_none(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    redrive.dead.send("sent here")

    assert number(owner, MOVE, redrive.dead.id, None, 10) == 2
    assert redrive.dead.bodies() == ["sent here"]


def test_move_leaves_what_is_in_flight_and_kills_no_receipt(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    (held,) = redrive.dead.receive(limit=1)

    assert number(owner, MOVE, redrive.dead.id, None, 10) == 1
    assert redrive.dead.delete(held) == 1


def test_receipt_from_before_the_move_is_dead(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    received = redrive.dead.receive(timeout=0)

    number(owner, MOVE, redrive.dead.id, None, 10)

    assert redrive.dead.delete(*received) == 0
    assert redrive.source.delete(*received) == 0
    assert len(redrive.source.receive()) == 1


def test_move_to_the_origin_leaves_what_came_from_others_than_given(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    second = Queue(owner, "second", RedrivePolicy=redrive_policy())
    second.send("from the second")
    while second.receive(timeout=0):
        pass
    move = "select skipmq.move_batch(%s, null, 10, %s)"

    assert number(owner, move, redrive.dead.id, []) == 0
    assert number(owner, move, redrive.dead.id, [f"{ARN}second"]) == 1
    assert second.bodies() == ["from the second"]
    assert redrive.dead.counts() == (2, 0, 0)
    assert number(owner, move, redrive.dead.id, None) == 2


def test_given_origins_do_not_matter_where_there_is_a_destination(owner: Connection) -> None:
    redrive, other = Redrive(owner, 2), Queue(owner, "other")

    moved = number(owner, "select skipmq.move_batch(%s, %s, 10, '{}')", redrive.dead.id, other.id)

    assert moved == 2
