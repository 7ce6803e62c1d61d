from datetime import UTC, datetime, timedelta

import pytest

from skipmq import errors
from skipmq.store.floor import (
    FAILED_LOOK_SECONDS,
    FULL_LOOK_SECONDS,
    LOOK_AFTER_CLAIMED,
    MARGIN,
    SWEEP_SECONDS,
    SWEEP_SHARE,
    Floor,
    Floors,
    Look,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
ENOUGH = LOOK_AFTER_CLAIMED


class Database:
    """What receive_floor would say, by a clock and a stopwatch that the test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.put_back = timedelta()
        self.number = 1000
        # The oldest transaction that runs; None: this look's own.
        self.oldest: int | None = None
        self.first: datetime | None = None
        self.starts: list[datetime | None] = []
        self.floor = Floor(self.stopwatch)
        self.generation = 1

    def stopwatch(self) -> float:
        return self.seconds

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds) - self.put_back

    def look(self, start: datetime | None) -> Look:
        self.starts.append(start)
        self.number += 1
        return Look(self.now, self.oldest or self.number, self.number, self.first)

    def claim(self, count: int = ENOUGH, reached: datetime | None = None) -> datetime | None:
        """Claim as a node does; return the hint that it was given."""
        self.floor.raise_with(self.look, self.generation)
        bounds = self.floor.bounds()
        self.floor.claimed(bounds, count, self.now, reached or self.now)
        return bounds.hint

    def wait(self, seconds: float = SWEEP_SECONDS) -> None:
        self.seconds += seconds


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def raised(database: Database) -> Database:
    """Give one whose floor has been raised by two looks."""
    database.claim()
    for _ in range(2):
        database.wait()
        database.claim()
    return database


def test_floor_of_a_queue_that_gave_little_is_not_looked_for(database: Database) -> None:
    for _ in range(10):
        database.wait()
        database.claim(count=1)

    assert database.starts == []


def test_floor_of_a_queue_whose_claim_took_long_is_looked_for(database: Database) -> None:
    database.claim(count=1)
    bounds = database.floor.bounds()
    database.wait(1)
    database.floor.claimed(bounds, 1, database.now, database.now)
    database.wait(SWEEP_SHARE)
    database.claim(count=1)

    assert database.starts == [None]


def test_floor_after_one_look_is_not_known(database: Database) -> None:
    database.claim()
    database.wait()
    database.claim()

    assert len(database.starts) == 1
    assert database.floor.floor is None


def test_floor_after_two_looks_is_the_time_of_the_first(raised: Database) -> None:
    assert raised.floor.floor == raised.now - timedelta(seconds=SWEEP_SECONDS) - MARGIN


def test_floor_while_an_older_transaction_runs_stays(raised: Database) -> None:
    before, raised.oldest = raised.floor.floor, 1000
    for _ in range(5):
        raised.wait()
        raised.claim()

    assert raised.floor.floor == before


def test_floor_is_never_above_the_first_message(raised: Database) -> None:
    raised.first = START + timedelta(seconds=100.05)
    raised.wait()
    raised.claim()
    raised.wait()
    raised.claim()

    assert raised.floor.floor == raised.first


def test_floor_of_a_queue_that_gives_little_is_looked_at_once_in_a_while(
    raised: Database,
) -> None:
    raised.wait()
    raised.claim()
    looks = len(raised.starts)
    for _ in range(10):
        raised.wait()
        raised.claim(count=1)

    assert len(raised.starts) == looks + 1  # What was claimed before it was still enough for one.

    raised.wait(FULL_LOOK_SECONDS)
    raised.claim(count=0)

    assert raised.starts[looks + 1 :] == [None]


def test_look_that_fails_leaves_the_receives_alone(raised: Database) -> None:
    def fail(start: datetime | None) -> Look:
        raised.starts.append(start)
        raise errors.InvalidParameterValueException

    before, looks = raised.floor.floor, len(raised.starts)
    for _ in range(20):
        raised.wait()
        raised.floor.raise_with(fail, raised.generation)
        raised.floor.claimed(raised.floor.bounds(), ENOUGH, raised.now, raised.now)

    assert raised.floor.floor == before
    assert len(raised.starts) == looks + 1
    raised.wait(FAILED_LOOK_SECONDS)
    raised.claim()
    assert len(raised.starts) == looks + 2


def test_floor_on_new_connections_is_forgotten(raised: Database) -> None:
    raised.generation += 1
    raised.floor.raise_with(raised.look, raised.generation)

    assert raised.floor.floor is None
    assert raised.floor.bounds().hint is None


def test_floor_when_the_clock_was_put_back_is_forgotten(raised: Database) -> None:
    raised.put_back = timedelta(seconds=1)
    raised.claim()

    assert raised.floor.floor is None


def test_floor_when_a_claim_took_long_is_kept(raised: Database) -> None:
    raised.wait()
    bounds = raised.floor.bounds()
    received_at = raised.now
    raised.wait(5)  # Its answer comes late, and others came before.
    raised.claim()
    raised.floor.claimed(bounds, 1, received_at, received_at)

    assert raised.floor.floor is not None


def test_floor_is_looked_for_from_the_beginning_once_in_a_while(raised: Database) -> None:
    for _ in range(4):
        raised.wait(FULL_LOOK_SECONDS / 4)
        raised.claim()
    assert [start is None for start in raised.starts] == [True, True, False, False, False, True]


def test_claim_begins_where_the_last_one_ended(raised: Database) -> None:
    reached = raised.now
    raised.claim(reached=reached)

    assert raised.claim() == reached


def test_claim_begins_at_the_floor_once_in_a_while(raised: Database) -> None:
    raised.wait()

    hints = [raised.claim() for _ in range(3)]

    assert [hint is None for hint in hints] == [True, False, False]


def test_claim_from_the_floor_that_takes_long_is_made_more_rarely(raised: Database) -> None:
    raised.wait()
    bounds = raised.floor.bounds()
    raised.wait(2)
    raised.floor.claimed(bounds, 1, raised.now, raised.now)

    raised.wait(2 * SWEEP_SHARE - 3)
    assert raised.claim() is not None
    raised.wait(1)
    assert raised.claim() is None


def test_floors_of_a_queue_are_one() -> None:
    floors = Floors()

    assert floors.of(1) is floors.of(1)
    assert floors.of(1) is not floors.of(2)
