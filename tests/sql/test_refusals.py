from typing import Any

from support.postgres import Connection
from support.sql import advance

NOTE = (
    "select skipmq.note_refusals('{000000000000}', '{us-east-1}', array[%s], '{user anna}',"
    " '{AccessDenied}', array[%s]::bigint[])"
)


def refusals(owner: Connection, queue: str | None = None) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select queue, caller, error, number, seconds"
        " from skipmq.refusals('000000000000', 'us-east-1', %s)",
        (queue,),
    ).fetchall()


def test_refusals_of_ten_minutes_have_the_time_since_the_first(owner: Connection) -> None:
    owner.execute(NOTE, ("prices", 5))
    advance(owner, "90 minutes")
    owner.execute(NOTE, ("prices", 7))
    advance(owner, "120 minutes")
    owner.execute(NOTE, ("prices", 2))
    owner.execute(NOTE, ("orders", 1))

    (first, other) = refusals(owner)

    assert first[:4] == ("prices", "user anna", "AccessDenied", 2)
    assert 29 * 60 <= first[4] <= 32 * 60
    assert other[0] == "orders"
    assert [each[:4] for each in refusals(owner, "orders")] == [other[:4]]


def test_refusals_end_some_minutes_after_the_last_one(owner: Connection) -> None:
    owner.execute(NOTE, ("prices", 50))
    advance(owner, "2 minutes")
    assert len(refusals(owner)) == 1

    advance(owner, "5 minutes")

    assert refusals(owner) == []


def test_refusals_of_all_places_have_theirs(owner: Connection) -> None:
    owner.execute(NOTE, ("prices", 5))
    owner.execute(NOTE.replace("000000000000", "111111111111"), ("prices", 6))
    all_places = "select account, region, number from skipmq.refusals(null, null)"

    assert owner.execute(all_places).fetchall() == [
        ("111111111111", "us-east-1", 6),
        ("000000000000", "us-east-1", 5),
    ]


def test_refusals_are_forgotten_after_six_hours(owner: Connection) -> None:
    owner.execute(NOTE, ("prices", 5))
    advance(owner, "7 hours")

    owner.execute("select skipmq.expire_consumers()")

    assert owner.execute("select count(*) from skipmq.refusal").fetchall() == [(0,)]
